"""How numbers are written for people."""

from __future__ import annotations

import math

__all__ = ["significant"]


def significant(value: float, digits: int = 4) -> str:
    """Return a number with so many significant digits, without an exponent below 1e12: 718.5, 0.001234."""
    if value == 0 or not 1e-9 <= abs(value) < 1e12:
        return f"{value:.{digits}g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{decimals}f}"
