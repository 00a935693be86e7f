"""From older versions of the format to the present one: one pure function a step."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from rentbench.core.errors import InvalidDocumentError, UnusableInputError
from rentbench.core.problems import show
from rentbench.core.schemas import Kind, kind_of

__all__ = ["CURRENT", "STEPS", "is_old", "upgrade"]

Document: TypeAlias = dict[str, Any]
Step: TypeAlias = Callable[[Document], Document]

# The version that each schema describes.
CURRENT: dict[Kind, int] = {
    "measurement": 1,
    "run": 1,
    "prices": 1,
    "published": 1,
    "reproduction": 1,
    "suite": 1,
    "image": 1,
}

# A step takes a document of its version to the next, by (kind, version). History of the format:
# 1  the first.
STEPS: dict[tuple[Kind, int], Step] = {}


def is_old(document: Mapping[str, Any], kind: Kind) -> bool:
    """Say whether a document is of an older version than this rentbench writes."""
    version = document.get("schema_version")
    return type(version) is int and version < CURRENT[kind]


def upgrade(document: Mapping[str, Any]) -> Document:
    """Return a document in the present version of the format; the one given stays as it is.

    Raises:
        InvalidDocumentError: It is of no known kind, or was not valid in its own version.
        UnusableInputError: Its version is not known, or newer than this rentbench.
    """
    kind = kind_of(document)
    result = copy.deepcopy(dict(document))
    version = result.get("schema_version")
    if type(version) is not int:
        msg = f"schema_version is {show(version)}, not a number"
        raise UnusableInputError(msg)
    if version > CURRENT[kind]:
        msg = (
            f"version {version} of {kind} documents is newer than this rentbench, which knows {CURRENT[kind]}"
        )
        raise UnusableInputError(msg, hint="install a newer rentbench")
    while version < CURRENT[kind]:
        step = STEPS.get((kind, version))
        if step is None:
            msg = f"there is no upgrade of {kind} documents from version {version}"
            raise UnusableInputError(msg)
        try:
            result = step(result)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            # The document was not valid in its own version, or the step would have found what it looks for.
            msg = f"cannot be upgraded from version {version}: {error!r}"
            raise InvalidDocumentError(msg) from error
        version += 1
        result["schema_version"] = version
    return result
