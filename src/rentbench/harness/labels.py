"""How values and cases are written for people."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["case_label", "scalar_text", "significant"]


def scalar_text(value: object) -> str:
    """Return a parameter's value as the command line takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def case_label(parameters: Mapping[str, object]) -> str:
    """Return a case as `--case` takes it: `dtype=bf16,size=8192`."""
    return ",".join(f"{name}={scalar_text(value)}" for name, value in parameters.items())


def significant(value: float, digits: int = 4) -> str:
    """Return a number with so many significant digits, without an exponent below 1e12: 718.5, 0.001234."""
    if value == 0 or not 1e-9 <= abs(value) < 1e12:
        return f"{value:.{digits}g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{decimals}f}"
