"""Numbers, units and times as readers see them; one way for each, used by every page.

Four significant digits, thousands separated, the unit behind a space that does not break, and a dash for what
is missing: the reason stands beside the dash, and that is the caller's part.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rentbench.core.ids import parse_time

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "MISSING",
    "byte_count",
    "day",
    "duration",
    "interval",
    "moment",
    "number",
    "quantity",
    "scalar",
    "unit_text",
]

MISSING = "—"
SIGNIFICANT_DIGITS = 4
_SPACE = "\N{NO-BREAK SPACE}"
_DASH = "–\N{WORD JOINER}"  # keeps both bounds of an interval on one line
_LARGEST_PLAIN = 1e15
_SMALLEST_PLAIN = 1e-6
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_UNITS = {"x real time": "× real time", "ratio": "", "count": ""}


def number(value: float | None, *, digits: int = SIGNIFICANT_DIGITS) -> str:
    """Return a number with so many significant digits; whole numbers, and digits before the point, are kept.

    Args:
        value: Finite, or None for a missing one.
        digits: Significant digits of a number with a fraction.
    """
    if value is None:
        return MISSING
    if isinstance(value, int) and abs(value) < _LARGEST_PLAIN:
        return _signed(f"{value:,d}")
    if value == 0:
        return "0"
    magnitude = abs(value)
    if not _SMALLEST_PLAIN <= magnitude < _LARGEST_PLAIN:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return _signed(f"{mantissa}{_SPACE}×{_SPACE}10{str(int(exponent)).translate(_SUPERSCRIPT)}")
    return _signed(f"{value:,.{_decimals(value, digits)}f}")


def quantity(value: float | None, unit: str, *, digits: int = SIGNIFICANT_DIGITS) -> str:
    """Return a number with its unit; bytes are given in binary multiples, short times in ms and µs."""
    if value is None:
        return MISSING
    if unit == "bytes":
        return byte_count(value)
    if unit == "s" and 0 < abs(value) < 1:
        value, unit = (value * 1e6, "µs") if abs(value) < 1e-3 else (value * 1e3, "ms")
    label = unit_text(unit)
    return f"{number(value, digits=digits)}{_SPACE}{label}" if label else number(value, digits=digits)


def unit_text(unit: str) -> str:
    """Return a document's unit as readers see it; empty where the number stands for itself."""
    return _UNITS.get(unit, unit)


def interval(bounds: Sequence[float] | None, *, digits: int = SIGNIFICANT_DIGITS) -> str:
    """Return `low–high`; both bounds have as many decimals as the larger one needs."""
    if bounds is None:
        return MISSING
    low, high = bounds
    largest = max(abs(low), abs(high))
    if largest and not _SMALLEST_PLAIN <= largest < _LARGEST_PLAIN:
        return f"{number(low, digits=digits)} to {number(high, digits=digits)}"
    decimals = _decimals(largest, digits) if largest else 0
    return (
        f"{_signed(f'{low:,.{decimals}f}')}{_DASH if low >= 0 else ' to '}{_signed(f'{high:,.{decimals}f}')}"
    )


def byte_count(value: float | None) -> str:
    """Return a size in binary multiples: `141.0 GiB`, `512 bytes`."""
    if value is None:
        return MISSING
    size = float(value)
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{number(int(value))}{_SPACE}bytes" if unit == "bytes" else f"{number(size)}{_SPACE}{unit}"


def duration(seconds: float | None) -> str:
    """Return a span of time by its two largest units: `2 h 05 min`, `3 min 12 s`, `4.210 s`."""
    if seconds is None:
        return MISSING
    if seconds < 60:
        return quantity(float(seconds), "s")
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}{_SPACE}min{_SPACE}{whole % 60:02d}{_SPACE}s"
    return f"{whole // 3600:,}{_SPACE}h{_SPACE}{whole % 3600 // 60:02d}{_SPACE}min"


def day(time: str | None) -> str:
    """Return the UTC day of an RFC 3339 time."""
    return MISSING if time is None else f"{parse_time(time):%Y-%m-%d}"


def moment(time: str | None) -> str:
    """Return an RFC 3339 time to the second, with its zone."""
    return MISSING if time is None else f"{parse_time(time):%Y-%m-%d %H:%M:%S} UTC"


def scalar(value: object) -> str:
    """Return a parameter's value: numbers by the rules above, truth values as yes and no, text as it is."""
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number(value)
    return str(value)


def _decimals(value: float, digits: int) -> int:
    rounded = float(f"{abs(value):.{digits - 1}e}")  # 999.96 becomes 1,000, which needs no decimals
    return max(0, digits - 1 - math.floor(math.log10(rounded)))


def _signed(text: str) -> str:
    return text.replace("-", "−", 1) if text.startswith("-") else text
