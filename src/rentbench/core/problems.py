"""What validation finds: one problem, its place in the document, and what would be right."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Problem", "listing", "pointer", "printable", "show"]


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One fault of a document.

    Attributes:
        pointer: JSON pointer (RFC 6901) to the value; empty for the whole document.
        message: What is wrong, as a sentence's end: "is 'fast'".
        allowed: What would be right; None where the message says it.
    """

    pointer: str
    message: str
    allowed: str | None = None

    def __str__(self) -> str:
        allowed = f" (allowed: {self.allowed})" if self.allowed else ""
        return printable(f"{self.pointer or '/'} {self.message}{allowed}")


def pointer(*parts: str | int) -> str:
    """Return the JSON pointer made of keys and indices."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def printable(text: str) -> str:
    """Return text with every character escaped that acts on a terminal or a log instead of being shown."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def show(value: object) -> str:
    """Return a value for a message: short, on one line, and without characters that act on a terminal."""
    if isinstance(value, dict | list):
        what = "an object" if isinstance(value, dict) else "an array"
        return f"{what} of {len(value)}" if value else f"{what} without content"
    if isinstance(value, str):
        value = value[:100]  # enough to be cut below, however long it is
    text = json.dumps(value, default=str)
    return text if len(text) <= 80 else f"{text[:76]}…{text[-1]}"


def listing(names: Iterable[str], *, limit: int = 12) -> str:
    """Return names for a message, and how many more there are beyond the limit."""
    every = list(names)
    shown = ", ".join(every[:limit])
    return f"{shown}, and {len(every) - limit} more" if len(every) > limit else shown
