"""Are two samples of one metric the same within a margin? Two one-sided tests, on the scale of ratios.

Values are compared by their logarithms, so the effect is the ratio of geometric means, the margin is a factor
(1/1.1 to 1.1 for 10 %), and exchanging the two results changes nothing but the sign. Equivalence is shown by
two one-sided Welch tests at 5 % (Schuirmann 1987, J. Pharmacokinet. Biopharm. 15(6), 657-680; Welch 1947). A
difference is shown by Welch's two-sided test at 5 % after Holm's correction over all metrics (Holm 1979), as
one metric that differs is enough to say so. Equivalence needs no correction: all metrics must show it
(intersection-union test, Berger 1982).
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rentbench.core.student import t_quantile, t_tail

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["SIGNIFICANCE", "Comparison", "Finding", "compare_family", "holm", "overall"]

Finding = Literal["reproduced", "differs", "inconclusive"]
SIGNIFICANCE = 0.05
# Below this relative spread of the logarithms, all values are equal but for rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What two samples of one metric show.

    Attributes:
        finding: `reproduced`: equivalence within the margin is shown, even where a small difference is shown
            too. `differs`: a difference is shown, and the effect is outside the margin. Else `inconclusive`.
        reason: Why nothing could be tested; None where it was.
        effect_percent: How far the second's geometric mean is from the first's; None as no ratio exists.
        ci95_percent: Welch's 95 % interval of the effect, low and high; None where nothing was tested.
        p_equivalence: The larger of the two one-sided tests' p-values.
        p_difference: Of the two-sided test, after Holm's correction.
    """

    finding: Finding
    reason: str | None = None
    effect_percent: float | None = None
    ci95_percent: tuple[float, float] | None = None
    p_equivalence: float | None = None
    p_difference: float | None = None


@dataclass(frozen=True, kw_only=True)
class _Difference:
    """The difference of mean logarithms; without any spread `error` is 0 and `df` infinite."""

    estimate: float
    error: float
    df: float

    def tail(self, beyond: float) -> float:
        """Return P(a difference this much larger than `beyond` | the true one is `beyond`)."""
        distance = self.estimate - beyond
        if self.error == 0:
            return 0.0 if distance > 0 else 1.0
        return t_tail(distance / self.error, self.df)

    def interval(self) -> tuple[float, float]:
        half = 0.0 if self.error == 0 else t_quantile(SIGNIFICANCE / 2, self.df) * self.error
        return self.estimate - half, self.estimate + half


def compare_family(
    samples: Sequence[tuple[Sequence[float], Sequence[float]]], *, margin_percent: float
) -> list[Comparison]:
    """Return what each pair of samples shows, corrected for their number.

    Args:
        samples: For each metric, the values of the independent repeats of the first and of the second result.
        margin_percent: How far a ratio may be from 1 to be called the same; above 0.

    Raises:
        ValueError: The margin is not above 0, or a sample is empty.
    """
    if not 0 < margin_percent < math.inf:
        msg = f"the margin is {margin_percent} %"
        raise ValueError(msg)
    reasons = [_untestable(first, second) for first, second in samples]
    differences = [
        None if reason else _difference(first, second)
        for reason, (first, second) in zip(reasons, samples, strict=True)
    ]
    tested = [difference for difference in differences if difference is not None]
    corrected = iter(holm([_two_sided(difference) for difference in tested]))
    limit = math.log1p(margin_percent / 100)
    return [
        Comparison(finding="inconclusive", reason=reason, effect_percent=_effect(*pair))
        if difference is None
        else _decided(difference, limit, next(corrected))
        for reason, difference, pair in zip(reasons, differences, samples, strict=True)
    ]


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number by Holm's step-down method, in the order given."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    corrected = [0.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = highest
    return corrected


def overall(findings: Iterable[Finding], *, complete: bool) -> Finding:
    """Return what all metrics together show.

    Args:
        findings: Of each metric.
        complete: Whether every metric of both results could be held against its counterpart.
    """
    found = set(findings)
    if "differs" in found:
        return "differs"
    return "reproduced" if complete and found == {"reproduced"} else "inconclusive"


def _untestable(first: Sequence[float], second: Sequence[float]) -> str | None:
    if not first or not second:
        msg = "a sample is empty"
        raise ValueError(msg)
    if min(*first, *second) <= 0:
        return "a value is not above 0, so there is no ratio"
    if len(first) < 2 or len(second) < 2:
        return "a single repeat shows no spread"
    return None


def _effect(first: Sequence[float], second: Sequence[float]) -> float | None:
    if min(*first, *second) <= 0:
        return None
    return _percent(_mean_log(second) - _mean_log(first))


def _difference(first: Sequence[float], second: Sequence[float]) -> _Difference:
    """Return the second's mean logarithm less the first's, with Welch's error and degrees of freedom."""
    estimate = _mean_log(second) - _mean_log(first)
    shares = [_variance_of_mean(sample) for sample in (first, second)]
    total = sum(shares)
    if total == 0:
        return _Difference(estimate=estimate, error=0.0, df=math.inf)
    parts = [
        (share / total) ** 2 / (len(sample) - 1)
        for share, sample in zip(shares, (first, second), strict=True)
    ]
    return _Difference(estimate=estimate, error=math.sqrt(total), df=1 / sum(parts))


def _mean_log(values: Sequence[float]) -> float:
    return statistics.fmean(map(math.log, values))


def _variance_of_mean(values: Sequence[float]) -> float:
    if max(values) - min(values) <= _ROUNDING * max(values):
        return 0.0
    return statistics.variance(list(map(math.log, values))) / len(values)


def _two_sided(difference: _Difference) -> float:
    if difference.error == 0:
        return 0.0 if abs(difference.estimate) > _ROUNDING else 1.0
    return 2 * t_tail(abs(difference.estimate) / difference.error, difference.df)


def _decided(difference: _Difference, limit: float, p_difference: float) -> Comparison:
    # Each null says that the true ratio is at or beyond one end of the margin.
    mirrored = _Difference(estimate=-difference.estimate, error=difference.error, df=difference.df)
    p_equivalence = max(difference.tail(-limit), mirrored.tail(-limit))
    finding: Finding = "inconclusive"
    if p_equivalence <= SIGNIFICANCE:
        finding = "reproduced"
    elif p_difference <= SIGNIFICANCE and abs(difference.estimate) > limit:
        finding = "differs"
    low, high = difference.interval()
    return Comparison(
        finding=finding,
        effect_percent=_percent(difference.estimate),
        ci95_percent=(_percent(low), _percent(high)),
        p_equivalence=p_equivalence,
        p_difference=p_difference,
    )


def _percent(logarithm: float) -> float:
    """Return a ratio's logarithm as a difference in %; bounded, so that a document can hold it."""
    return 100 * math.expm1(min(logarithm, 300.0))
