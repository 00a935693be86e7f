"""Exact numbers for money: what may enter a formula, and how a figure is rounded when it is shown.

Every formula of this package takes any number and answers with a `Decimal`. A float enters as the shortest
decimal that reads back as the same float, as it stands in a document: 0.1 is 0.1, not 0.1000000000000000055….
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import NoReturn, TypeAlias

from rentbench.core.errors import UsageError
from rentbench.core.problems import show

__all__ = ["Number", "exact", "not_negative", "positive", "rounded", "whole"]

Number: TypeAlias = int | float | Decimal

# As JSON and people write numbers; Decimal itself would take digits of other scripts and underscores too.
_WRITTEN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)

# Nothing that is paid or measured lies outside, and a result within them always fits a document.
_LARGEST = Decimal("1e18")
_SMALLEST = Decimal("1e-18")
_DIGITS = 400  # all that a float holds before the point, and any number of decimals after it


def exact(name: str, value: Number | str) -> Decimal:
    """Return a number as a decimal.

    Args:
        name: What messages call it, with its unit: `usd_per_hour`.
        value: A number, or a text that holds one.

    Raises:
        UsageError: It is no finite number, or one beyond all that is meant here (±1e18; ±1e-18 unless zero).
    """
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        _refuse(name, value, "a number")
    if isinstance(value, str) and not _WRITTEN.fullmatch(value.strip()):
        _refuse(name, value, "a number")
    number = Decimal(repr(value) if isinstance(value, float) else value)
    if not number.is_finite():
        _refuse(name, value, "a finite number")
    if number and not _SMALLEST <= abs(number) <= _LARGEST:
        _refuse(name, value, f"a number between {_SMALLEST} and {_LARGEST}")
    return number


def positive(**values: Number) -> tuple[Decimal, ...]:
    """Return numbers as decimals, in the order given.

    A price or a rate of zero is a missing one, and refused as well: no provider gives GPUs away, and no run
    that worked took no time.

    Raises:
        UsageError: One is no number, or not greater than zero; its name is told.
    """
    numbers = tuple(exact(name, value) for name, value in values.items())
    for name, number in zip(values, numbers, strict=True):
        if number <= 0:
            _refuse(name, values[name], "greater than zero")
    return numbers


def not_negative(**values: Number) -> tuple[Decimal, ...]:
    """Return numbers as decimals, in the order given: of what can be free, or not be there at all.

    Raises:
        UsageError: One is no number, or less than zero; its name is told.
    """
    numbers = tuple(exact(name, value) for name, value in values.items())
    for name, number in zip(values, numbers, strict=True):
        if number < 0:
            _refuse(name, values[name], "zero or more")
    return numbers


def whole(*, least: int = 1, **values: Number) -> tuple[Decimal, ...]:
    """Return counts as decimals, in the order given.

    Raises:
        UsageError: One is no whole number, or less than `least`; its name is told.
    """
    numbers = tuple(exact(name, value) for name, value in values.items())
    for name, number in zip(values, numbers, strict=True):
        if number != number.to_integral_value() or number < least:
            _refuse(name, values[name], f"a whole number, {least} or more")
    return numbers


def rounded(value: Decimal, decimals: int) -> Decimal:
    """Return a figure as it is printed: the one place that rounds, and always the last step.

    A figure that lies exactly between two goes to the even one, as IEEE 754 and Python's own `round` have it:
    the published training cost of 210 s at 1.14 USD per hour, 0.0665, is printed as 0.066.

    Args:
        value: The figure as it was computed.
        decimals: Digits after the point.
    """
    # The usual 28 digits would be an error for a large figure with many decimals.
    return value.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_EVEN, Context(prec=_DIGITS))


def _refuse(name: str, value: object, allowed: str) -> NoReturn:
    shown = str(value) if isinstance(value, Decimal | float) else show(value)
    msg = f"{name} is {shown}"
    raise UsageError(msg, hint=f"{name} must be {allowed}")
