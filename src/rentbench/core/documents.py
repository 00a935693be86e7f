"""Reading and writing documents as strict JSON.

Everything that is read is untrusted. What plain `json.loads` lets pass and later breaks a reader is refused
here, once: duplicate keys, NaN and Infinity, numbers that no double holds, lone surrogates, endless nesting.
"""

from __future__ import annotations

import codecs
import json
import math
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rentbench.core.errors import RentbenchError
from rentbench.core.files import MAX_BYTES, read_bytes, refuse, sha256_bytes, sha256_file, write_new
from rentbench.core.problems import Problem, pointer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_INTEGER",
    "read_bytes",
    "read_document",
    "read_toml",
    "render_document",
    "sha256_bytes",
    "sha256_file",
    "unfit",
    "write_document",
]

MAX_DEPTH = 64
MAX_CONTAINERS = 2_000_000  # an empty object takes two bytes in a file, and sixty-four in memory
MAX_INTEGER = 2**53 - 1  # RFC 7493, section 2.2: the largest that every reader holds exactly

_BOMS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


def read_document(
    path: Path | bytes, *, max_bytes: int = MAX_BYTES, source: str | None = None
) -> dict[str, Any]:
    """Return the JSON object in a file, or in bytes that were read before.

    Args:
        path: The file, or its content.
        max_bytes: Larger input is refused unread.
        source: What error messages call the input; the path by default.

    Raises:
        UnusableInputError: It cannot be read, or is not one strict JSON object.
    """
    name = source or (str(path) if isinstance(path, Path) else "input")
    raw = read_bytes(path, max_bytes=max_bytes, source=name) if isinstance(path, Path) else path
    if len(raw) > max_bytes:
        refuse(name, f"is larger than {max_bytes} bytes")
    if raw.count(b"{") + raw.count(b"[") > MAX_CONTAINERS:
        refuse(name, f"holds more than {MAX_CONTAINERS} objects and arrays")
    text = _decode(raw, name)
    try:
        document = json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        what = _syntax(error, text)
        refuse(name, what)
    except RecursionError:
        refuse(name, f"is nested deeper than {MAX_DEPTH} levels")
    except ValueError as error:  # from the hooks, and from integers of thousands of digits
        refuse(name, _first_sentence(error))
    if not isinstance(document, dict):
        refuse(name, "is not a JSON object")
    problem = unfit(document)
    if problem:
        refuse(name, f"cannot be used: {problem}")
    if _SURROGATE_ESCAPE.search(raw) and not _encodable(document):
        refuse(name, "holds half of a surrogate pair, which is no character")
    return document


def read_toml(path: Path, *, max_bytes: int = 1024 * 1024) -> dict[str, Any]:
    """Return the content of a TOML file, under the same limits as a document.

    Raises:
        UnusableInputError: It cannot be read, or is no valid TOML.
    """
    name = str(path)
    text = _decode(read_bytes(path, max_bytes=max_bytes), name)
    try:
        document = tomllib.loads(text)
    except RecursionError:
        refuse(name, f"is nested deeper than {MAX_DEPTH} levels")
    except ValueError as error:
        refuse(name, f"is no valid TOML: {_first_sentence(error)}")
    problem = unfit(document)
    if problem:
        refuse(name, f"cannot be used: {problem}")
    return document


def render_document(document: dict[str, Any]) -> bytes:
    """Return the bytes that `write_document` writes: keys in the order given, arrays of numbers on one line.

    Raises:
        RentbenchError: It holds what `read_document` would refuse, such as NaN.
    """
    problem = unfit(document)
    if problem:
        msg = f"the document cannot be written: {problem}"
        raise RentbenchError(msg)
    try:
        return (_render(document, "\n") + "\n").encode()
    except (TypeError, ValueError) as error:
        msg = f"the document cannot be written: {error}"
        raise RentbenchError(msg) from error


def write_document(path: Path, document: dict[str, Any]) -> str:
    """Write a document whole or not at all, and never over another one.

    Args:
        path: The file to make; its folder must be there.
        document: What to write.

    Returns:
        The content's hash, `sha256:…`.

    Raises:
        RentbenchError: The file is there already, the document is no strict JSON, or the disk refuses.
    """
    raw = render_document(document)
    write_new(path, raw)
    return sha256_bytes(raw)


def _decode(raw: bytes, name: str) -> str:
    if not raw.strip():
        refuse(name, "is empty")
    if raw.startswith(_BOMS):
        refuse(name, "starts with a byte order mark; write it as UTF-8 without one")
    if b"\0" in raw:
        refuse(name, "is binary")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        refuse(name, f"is no UTF-8 text (byte {error.start})")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                msg = f"has the key {json.dumps(key)[:80]} twice in one object"
                raise ValueError(msg)
            seen.add(key)
    return result


def _syntax(error: json.JSONDecodeError, text: str) -> str:
    if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
        return f"ends too early (line {error.lineno}): it was cut off, or never written to its end"
    return f"is no valid JSON: {error.msg.lower()} (line {error.lineno}, column {error.colno})"


def _first_sentence(error: ValueError) -> str:
    if "int_max_str_digits" in str(error) or "integer string conversion" in str(error):
        return "holds an integer of thousands of digits"
    return str(error).splitlines()[0]


def unfit(document: Mapping[str, Any]) -> Problem | None:
    """Return the first thing in a parsed document that no document may hold, whatever its schema says.

    A schema lets NaN pass as a number, and its checks are recursive: this looks first, without recursion.
    """
    path: list[str | int] = []
    stack = [_items(document)]
    while stack:
        for key, value in stack[-1]:
            kind = type(value)
            if kind is float:
                if not math.isfinite(value):
                    what = f"is {value}, which JSON does not have"
                    return Problem(pointer=pointer(*path, key), message=what, allowed="a number, or null")
            elif kind is int:
                if not -MAX_INTEGER <= value <= MAX_INTEGER:
                    what = "is an integer that not every reader holds exactly"
                    return Problem(pointer=pointer(*path, key), message=what, allowed=f"±{MAX_INTEGER}")
            elif kind is dict or kind is list:
                path.append(key)
                stack.append(_items(value))
                break
        else:
            stack.pop()
            del path[-1:]
        if len(stack) > MAX_DEPTH:
            return Problem(pointer="", message=f"is nested deeper than {MAX_DEPTH} levels")
    return None


def _items(container: Mapping[str, Any] | list[Any]) -> Iterator[tuple[str | int, Any]]:
    return iter(enumerate(container) if isinstance(container, list) else container.items())


def _encodable(document: dict[str, Any]) -> bool:
    try:
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _render(value: object, newline: str) -> str:
    inner = newline + " "
    if isinstance(value, dict) and value:
        members = (
            f"{json.dumps(key, ensure_ascii=False)}: {_render(item, inner)}" for key, item in value.items()
        )
        return "{" + inner + ("," + inner).join(members) + newline + "}"
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        return "[" + inner + ("," + inner).join(_render(item, inner) for item in value) + newline + "]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
