"""Untrusted text made fit to show.

Escaping for HTML is done by the templates. What escaping leaves alone is handled here: control characters,
which no HTML document may hold; characters that turn the direction of the text around them; and cells that a
spreadsheet would run.
"""

from __future__ import annotations

import re

__all__ = ["clean", "safe_cell", "shorten"]

# Control characters but for tab and line feed, surrogates, and the marks that set the direction of text.
_ACTING = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\ud800-\\udfff\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]"
)
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%")
_REPLACEMENT = "\ufffd"


def clean(text: str) -> str:
    """Return text with a visible replacement for every control, surrogate and text-direction character.

    Line feeds and tabs stay; a carriage return before a line feed is dropped.
    """
    return _ACTING.sub(_REPLACEMENT, text.replace("\r\n", "\n"))


def safe_cell(text: str) -> str:
    """Return text for a CSV cell that no spreadsheet takes for a formula: an apostrophe marks it as text.

    Spaces before the sign do not help an attacker: some programs strip them first, so they are looked
    through.
    """
    cleaned = clean(text)
    return (
        f"'{cleaned}"
        if cleaned.startswith(_FORMULA_STARTS) or cleaned.lstrip().startswith(_FORMULA_STARTS)
        else cleaned
    )


def shorten(text: str, limit: int) -> str:
    """Return text of at most `limit` characters on one line; what was cut is marked by an ellipsis."""
    line = " ".join(clean(text).split())
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"
