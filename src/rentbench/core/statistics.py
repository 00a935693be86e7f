"""The statistics of a measurement: of independent repeats, and of the single readings below them."""

from __future__ import annotations

import math
import statistics
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["sample_summary", "summarize", "t_critical"]


def summarize(values: Sequence[float]) -> dict[str, Any]:
    """Return `values`, `n`, `median`, `mean`, `stdev` and `ci95` as a measurement holds them.

    Args:
        values: One value of each independent repeat, finite, at least one.

    Returns:
        `stdev` is the sample standard deviation (n − 1) and null for n = 1; `ci95` is Student's t interval of
        the mean, [low, high], and null for n < 3: an interval of two values says nothing.

    Raises:
        ValueError: No values, or one that is not finite.
        OverflowError: The values are too large to add up.
    """
    numbers = _finite(values)
    mean = statistics.fmean(numbers)
    stdev = statistics.stdev(numbers) if len(numbers) > 1 else None
    interval = None
    if stdev is not None and len(numbers) > 2:
        half = t_critical(len(numbers) - 1) * stdev / math.sqrt(len(numbers))
        interval = [mean - half, mean + half]
    return {
        "values": numbers,
        "n": len(numbers),
        "median": statistics.median(numbers),
        "mean": mean,
        "stdev": stdev,
        "ci95": interval,
    }


def sample_summary(samples: Sequence[float], unit: str) -> dict[str, Any]:
    """Return the summary of single readings as `measurements[].samples` holds it.

    Args:
        samples: The readings, pooled over the repeats, finite, at least one.
        unit: Their unit.

    Raises:
        ValueError: No samples, or one that is not finite.
        OverflowError: The samples are too large to add up.
    """
    numbers = sorted(_finite(samples))
    return {
        "unit": unit,
        "n": len(numbers),
        "min": numbers[0],
        "max": numbers[-1],
        "mean": statistics.fmean(numbers),
        "percentiles": {f"p{q}": _percentile_of_sorted(numbers, q) for q in (10, 50, 90, 99)},
    }


@lru_cache(maxsize=1024)
def t_critical(df: int, confidence: float = 0.95) -> float:
    """Return t with P(|T| ≤ t) = confidence for Student's t distribution.

    Args:
        df: Degrees of freedom, at least 1.
        confidence: Two-sided, between 0 and 1.

    Raises:
        ValueError: An argument is out of range.
    """
    if df < 1 or not 0 < confidence < 1:
        msg = f"no t for {df} degrees of freedom at confidence {confidence}"
        raise ValueError(msg)
    # Bisection over the angle θ = atan(t / √df), in which the distribution is bounded and smooth.
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        if _probability_within(middle, df) < confidence:
            low = middle
        else:
            high = middle
    return math.tan((low + high) / 2) * math.sqrt(df)


def _probability_within(theta: float, df: int) -> float:
    """Return P(|T| ≤ √df · tan θ): finite sums, Abramowitz & Stegun 26.7.3 (odd df) and 26.7.4 (even df)."""
    sine, cosine = math.sin(theta), math.cos(theta)
    odd = df % 2 == 1
    term = cosine if odd else 1.0
    total = 0.0
    for k in range(3 if odd else 2, df + 1, 2):
        total += term
        term *= cosine * cosine * (k - 1) / k
    return 2 / math.pi * (theta + sine * total) if odd else sine * total


def _finite(values: Sequence[float]) -> list[float]:
    numbers = [float(value) for value in values]
    if not numbers:
        msg = "no values"
        raise ValueError(msg)
    if not all(map(math.isfinite, numbers)):
        msg = "a value is not finite"
        raise ValueError(msg)
    return numbers


def _percentile_of_sorted(numbers: list[float], q: float) -> float:
    """Return the q-th percentile by linear interpolation between closest ranks, as NumPy does by default."""
    position = (len(numbers) - 1) * q / 100
    below = math.floor(position)
    above = min(below + 1, len(numbers) - 1)
    return numbers[below] + (numbers[above] - numbers[below]) * (position - below)
