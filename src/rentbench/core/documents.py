"""Reading and writing documents: strict, bounded, atomic.

Everything that is read is untrusted. What plain `json.loads` lets pass and later breaks a reader is refused
here, once: duplicate keys, NaN and Infinity, numbers that no double holds, lone surrogates, endless nesting,
links, pipes and devices.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import hashlib
import json
import math
import os
import re
import secrets
import stat
import tomllib
from pathlib import Path
from typing import Any, NoReturn

from rentbench.core.errors import RentbenchError, UnusableInputError

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "read_bytes",
    "read_document",
    "read_toml",
    "render_document",
    "sha256_bytes",
    "sha256_file",
    "write_document",
]

MAX_BYTES = 64 * 1024 * 1024
MAX_DEPTH = 64
MAX_INTEGER = 2**53 - 1  # RFC 7493, section 2.2: the largest that every reader holds exactly

_BOMS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_NO_HARD_LINKS = {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK, errno.EXDEV}


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
        _refuse(name, f"is larger than {max_bytes} bytes")
    text = _decode(raw, name)
    try:
        document = json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except json.JSONDecodeError as error:
        what = _syntax(error, text)
        _refuse(name, what)
    except RecursionError:
        _refuse(name, f"is nested deeper than {MAX_DEPTH} levels")
    except ValueError as error:  # from the hooks, and from integers of thousands of digits
        _refuse(name, _first_sentence(error))
    if not isinstance(document, dict):
        _refuse(name, "is not a JSON object")
    problem = _unfit(document)
    if problem:
        _refuse(name, problem)
    if _SURROGATE_ESCAPE.search(raw) and not _encodable(document):
        _refuse(name, "holds half of a surrogate pair, which is no character")
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
        _refuse(name, f"is nested deeper than {MAX_DEPTH} levels")
    except ValueError as error:
        _refuse(name, f"is no valid TOML: {_first_sentence(error)}")
    problem = _unfit(document)
    if problem:
        _refuse(name, problem)
    return document


def read_bytes(path: Path, *, max_bytes: int = MAX_BYTES, source: str | None = None) -> bytes:
    """Return the content of a regular file; never waits, never follows a link in the last part of the path.

    Raises:
        UnusableInputError: Missing, a link, no regular file, not permitted, or too large.
    """
    name = source or str(path)
    try:
        # A look before the open: opening a device can have effects of its own.
        _require_regular(os.lstat(path).st_mode, name)
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        _refuse(name, _reason(error))
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
        try:
            status = os.fstat(descriptor)
            _require_regular(status.st_mode, name)
            if status.st_size > max_bytes:
                _refuse(name, f"is larger than {max_bytes} bytes")
            raw = file.read(max_bytes + 1)
        except OSError as error:
            _refuse(name, _reason(error))
    if len(raw) > max_bytes:  # it grew while it was read, or lies about its size
        _refuse(name, f"is larger than {max_bytes} bytes")
    return raw


def render_document(document: dict[str, Any]) -> bytes:
    """Return the bytes that `write_document` writes: keys in the order given, arrays of numbers on one line.

    Raises:
        RentbenchError: It holds what `read_document` would refuse, such as NaN.
    """
    problem = _unfit(document)
    if problem:
        msg = f"the document {problem}"
        raise RentbenchError(msg)
    try:
        return (_render(document, "\n") + "\n").encode()
    except (TypeError, ValueError) as error:
        msg = f"the document cannot be written as JSON: {error}"
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
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            with open(descriptor, "wb") as file:  # noqa: PTH123
                file.write(raw)
                file.flush()
                os.fsync(file.fileno())
            _put(temporary, path)
            _sync_folder(path.parent)
        finally:
            temporary.unlink(missing_ok=True)
    except FileExistsError as error:
        msg = f"{path} is there already, and a document is never overwritten"
        raise RentbenchError(msg, hint="choose another folder") from error
    except OSError as error:
        msg = f"{path} cannot be written: {error.strerror or error}"
        raise RentbenchError(msg, hint="check the folder's owner, and the free space") from error
    return sha256_bytes(raw)


def sha256_bytes(content: bytes) -> str:
    """Return the hash of some bytes as documents name it, `sha256:…`."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def sha256_file(path: Path) -> str:
    """Return the hash of a file's content as documents name it, `sha256:…`.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def _refuse(name: str, what: str) -> NoReturn:
    msg = f"{name} {what}"
    raise UnusableInputError(msg)


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "is not there"
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return "is a symbolic link, which is not followed"
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return f"cannot be read: {reason}"


def _require_regular(mode: int, name: str) -> None:
    if stat.S_ISLNK(mode):
        _refuse(name, "is a symbolic link, which is not followed")
    if stat.S_ISDIR(mode):
        _refuse(name, "is a folder, not a file")
    if not stat.S_ISREG(mode):
        _refuse(name, "is no regular file")


def _decode(raw: bytes, name: str) -> str:
    if not raw.strip():
        _refuse(name, "is empty")
    if raw.startswith(_BOMS):
        _refuse(name, "starts with a byte order mark; write it as UTF-8 without one")
    if b"\0" in raw:
        _refuse(name, "is binary")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        _refuse(name, f"is no UTF-8 text (byte {error.start})")


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


def _constant(name: str) -> NoReturn:
    msg = f"holds {name}, which JSON does not have; a missing value is null"
    raise ValueError(msg)


def _syntax(error: json.JSONDecodeError, text: str) -> str:
    if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
        return f"ends too early (line {error.lineno}): it was cut off, or never written to its end"
    return f"is no valid JSON: {error.msg.lower()} (line {error.lineno}, column {error.colno})"


def _first_sentence(error: ValueError) -> str:
    if "int_max_str_digits" in str(error) or "integer string conversion" in str(error):
        return "holds an integer of thousands of digits"
    return str(error).splitlines()[0]


def _unfit(document: dict[str, Any]) -> str | None:
    """Say what a parsed document holds that no document may, without recursion; None where all is well."""
    level: list[Any] = [document]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for container in level:
            for value in container.values() if isinstance(container, dict) else container:
                kind = type(value)
                if kind is float:
                    if not math.isfinite(value):
                        return "holds a number that is not finite; a missing value is null"
                elif kind is int:
                    if not -MAX_INTEGER <= value <= MAX_INTEGER:
                        return f"holds an integer beyond ±{MAX_INTEGER}"
                elif kind is dict or kind is list:
                    below.append(value)
        if not below:
            return None
        level = below
    return f"is nested deeper than {MAX_DEPTH} levels"


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


def _put(temporary: Path, path: Path) -> None:
    """Give a finished file its name, unless the name is taken; a plain rename would replace what is there."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        # No hard links here (FAT, some network file systems): a gap remains between look and rename.
        if path.exists() or path.is_symlink():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from error
        temporary.rename(path)


def _sync_folder(folder: Path) -> None:
    # Not every file system can sync a folder; the file's own content is safe by now.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
