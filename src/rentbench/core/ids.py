"""Identifiers, times and the names of result folders."""

from __future__ import annotations

import os
import re
import time
from datetime import UTC, datetime

from rentbench.core.errors import UnusableInputError

__all__ = ["folder_name", "new_id", "parse_time", "slug", "utc_now"]


def new_id() -> str:
    """Return a fresh UUID version 7 (RFC 9562, section 5.7): sortable by time, random otherwise."""
    milliseconds = time.time_ns() // 1_000_000
    value = (milliseconds & (1 << 48) - 1) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 0x7 << 76  # version
    value = value & ~(0x3 << 62) | 0x2 << 62  # variant
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def utc_now() -> str:
    """Return the time now as RFC 3339 in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_time(text: str) -> datetime:
    """Return the moment that an RFC 3339 time with the letter Z names.

    Raises:
        UnusableInputError: It is not such a time, or names a day or hour that does not exist.
    """
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z", text, re.ASCII):
        msg = f"{text!r} is no time in the form 2026-11-30T22:05:00Z"
        raise UnusableInputError(msg)
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError as error:
        msg = f"{text!r} names no real moment: {error}"
        raise UnusableInputError(msg) from error


def slug(text: str) -> str:
    """Return a name that is safe in paths and URLs: a-z, 0-9 and single hyphens, 80 at most."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:80].strip("-") or "unnamed"


def folder_name(started: str, identifier: str) -> str:
    """Return the name of a result's folder, `<UTC>-<id>`: sortable, and unique by the id."""
    return f"{parse_time(started):%Y%m%dT%H%M%SZ}-{identifier}"
