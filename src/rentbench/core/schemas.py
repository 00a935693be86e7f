"""The schemas of the documents, and which of them a document belongs to."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, get_args

from rentbench.core.errors import InvalidDocumentError, UnusableInputError
from rentbench.core.resources import resources_root

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["KINDS", "SAID", "Kind", "kind_of", "schema"]

Kind = Literal["measurement", "run", "prices", "published", "reproduction", "suite", "image"]
KINDS: tuple[Kind, ...] = get_args(Kind)

# The kinds that a document names itself, in its key "document".
SAID: tuple[Kind, ...] = ("measurement", "run", "prices", "published", "reproduction")


def schema(kind: Kind) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a kind of document; not to be changed by the caller.

    Raises:
        UnusableInputError: The installation lacks it: images carry those of measurements and suites only.
    """
    return _read(resources_root(), kind)


@lru_cache(maxsize=16)
def _read(root: Path, kind: Kind) -> dict[str, Any]:
    path = root / "schema" / f"{kind}.schema.json"
    try:
        loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        msg = f"the schema of {kind} documents cannot be read: {path}: {error.strerror}"
        raise UnusableInputError(msg, hint="install rentbench again") from error
    return loaded


def kind_of(document: Mapping[str, Any]) -> Kind:
    """Return the kind of a document: what it says itself, or what a manifest's keys show.

    Raises:
        InvalidDocumentError: It is none of the known ones.
    """
    named = document.get("document")
    for kind in SAID:
        if named == kind:
            return kind
    if named is None and "metrics" in document and "presets" in document:
        return "suite"
    if named is None and "platform" in document and "base" in document:
        return "image"
    msg = (
        f'the key "document" must say {" or ".join(SAID)}'
        if named is None
        else 'the key "document" names no known kind'
    )
    raise InvalidDocumentError(msg, hint=f"known kinds: {', '.join(SAID)}")
