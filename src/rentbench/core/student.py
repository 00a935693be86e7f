"""Student's t distribution for any degrees of freedom, as Welch's test needs it."""

from __future__ import annotations

import math

__all__ = ["t_quantile", "t_tail"]

_SMALLEST = 1e-300
_MOST_TERMS = 10_000


def t_tail(t: float, df: float) -> float:
    """Return P(T > t) for Student's t distribution.

    By the regularised incomplete beta function, DLMF 8.17 and Abramowitz & Stegun 26.7.1.

    Args:
        t: Any number; infinite ones too.
        df: Degrees of freedom, any real number above 0.

    Raises:
        ValueError: An argument is out of range.
    """
    if math.isnan(t) or not 0 < df < math.inf:
        msg = f"no probability for t = {t} with {df} degrees of freedom"
        raise ValueError(msg)
    if math.isinf(t):
        return 0.0 if t > 0 else 1.0
    hypotenuse = math.hypot(t, math.sqrt(df))
    upper = 0.5 * _incomplete_beta(df / hypotenuse / hypotenuse, (t / hypotenuse) ** 2, df / 2, 0.5)
    return upper if t >= 0 else 1 - upper


def t_quantile(tail: float, df: float) -> float:
    """Return t with P(T > t) = tail, for a tail of at most one half, by bisection.

    Raises:
        ValueError: An argument is out of range.
    """
    if not 0 < tail <= 0.5:
        msg = f"no t for a tail of {tail}"
        raise ValueError(msg)
    low, high = 0.0, 1.0
    while t_tail(high, df) > tail:
        low, high = high, high * 2
    for _ in range(100):
        middle = (low + high) / 2
        if t_tail(middle, df) > tail:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _incomplete_beta(x: float, rest: float, a: float, b: float) -> float:
    """Return I_x(a, b); `rest` is 1 − x, given apart so that no digits are lost."""
    if x <= 0 or rest <= 0:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast below this only: DLMF 8.17.4
        return 1 - _incomplete_beta(rest, x, b, a)
    front = math.exp(
        a * math.log(x) + b * math.log(rest) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    )
    return front / a * _continued_fraction(x, a, b)


def _continued_fraction(x: float, a: float, b: float) -> float:
    """Return the fraction of DLMF 8.17.22, by Lentz's method."""
    c, d = 1.0, _away_from_zero(1 - (a + b) * x / (a + 1))
    d = 1 / d
    result = d
    for m in range(1, _MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for coefficient in (even, odd):
            d = 1 / _away_from_zero(1 + coefficient * d)
            c = _away_from_zero(1 + coefficient / c)
            result *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return result


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _SMALLEST else _SMALLEST
