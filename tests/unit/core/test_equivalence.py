"""Equivalence and difference of two samples: against SciPy, and what must hold for all samples."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rentbench.core.equivalence import compare_family, holm, overall
from rentbench.core.student import t_quantile, t_tail

SAMPLE = st.lists(st.floats(0.5, 2.0), min_size=2, max_size=8)


@pytest.mark.parametrize("df", [1, 1.3, 2, 3.7, 10, 55.5, 1000])
@pytest.mark.parametrize("t", [-5, -0.3, 0, 0.1, 1, 2, 5, 40])
def test_the_tail_is_scipys(t: float, df: float) -> None:
    assert t_tail(t, df) == pytest.approx(stats.t.sf(t, df), rel=1e-10)


@pytest.mark.parametrize("df", [1, 1.3, 2, 3.7, 10, 55.5, 1000])
def test_the_quantile_is_scipys(df: float) -> None:
    assert t_quantile(0.025, df) == pytest.approx(stats.t.isf(0.025, df), rel=1e-10)


@pytest.mark.parametrize(("t", "df"), [(math.nan, 3), (1, 0), (1, math.inf)])
def test_the_tail_refuses_what_has_none(t: float, df: float) -> None:
    with pytest.raises(ValueError, match="no probability"):
        t_tail(t, df)


def test_the_tail_at_the_ends() -> None:
    assert (t_tail(math.inf, 3), t_tail(-math.inf, 3)) == (0, 1)
    assert t_tail(1e200, 2) == pytest.approx(0, abs=1e-100)


@settings(deadline=None)
@given(first=SAMPLE, second=SAMPLE)
def test_one_metric_is_what_scipy_says(first: list[float], second: list[float]) -> None:
    logs = [list(map(math.log, sample)) for sample in (first, second)]
    if any(max(sample) - min(sample) < 1e-6 for sample in logs):
        return
    (one,) = compare_family([(first, second)], margin_percent=10)
    limit = math.log(1.1)
    welch = stats.ttest_ind(logs[1], logs[0], equal_var=False)
    shifted = [[value + limit for value in logs[1]], [value - limit for value in logs[1]]]
    above = stats.ttest_ind(shifted[0], logs[0], equal_var=False, alternative="greater").pvalue
    below = stats.ttest_ind(shifted[1], logs[0], equal_var=False, alternative="less").pvalue
    interval = welch.confidence_interval()
    assert one.p_difference == pytest.approx(welch.pvalue, abs=1e-9)
    assert one.p_equivalence == pytest.approx(max(above, below), abs=1e-9)
    assert one.ci95_percent is not None
    assert [math.log1p(end / 100) for end in one.ci95_percent] == pytest.approx(
        [interval.low, interval.high], rel=1e-6, abs=1e-9
    )


@settings(deadline=None)
@given(first=SAMPLE, second=SAMPLE)
def test_exchanging_the_two_turns_the_sign_only(first: list[float], second: list[float]) -> None:
    (one,) = compare_family([(first, second)], margin_percent=10)
    (other,) = compare_family([(second, first)], margin_percent=10)
    assert one.finding == other.finding
    assert one.effect_percent is not None
    assert other.effect_percent is not None
    assert (1 + one.effect_percent / 100) * (1 + other.effect_percent / 100) == pytest.approx(1)
    assert one.p_equivalence == pytest.approx(other.p_equivalence, abs=1e-9)


@settings(deadline=None)
@given(first=SAMPLE, second=SAMPLE, power=st.integers(-20, 20))
def test_the_unit_does_not_matter(first: list[float], second: list[float], power: int) -> None:
    (one,) = compare_family([(first, second)], margin_percent=10)
    scaled = [[value * 2.0**power for value in sample] for sample in (first, second)]
    (other,) = compare_family([(scaled[0], scaled[1])], margin_percent=10)
    assert one.effect_percent == pytest.approx(other.effect_percent, abs=1e-6)
    assert one.p_equivalence == pytest.approx(other.p_equivalence, abs=1e-6)


@pytest.mark.parametrize(
    ("first", "second", "finding"),
    [
        ([100, 101, 99], [100, 99, 101], "reproduced"),
        ([100, 100.1, 99.9], [103, 103.1, 102.9], "reproduced"),  # a difference is shown, within the margin
        ([100, 101, 99], [150, 151, 149], "differs"),
        ([100, 130, 70], [110, 80, 140], "inconclusive"),
        ([100], [100, 101, 99], "inconclusive"),
        ([0, 0, 0], [0, 0, 0], "inconclusive"),
        ([5, 5, 5], [5, 5, 5], "reproduced"),
        ([5, 5, 5], [6, 6, 6], "differs"),
    ],
)
def test_findings(first: list[float], second: list[float], finding: str) -> None:
    (one,) = compare_family([(first, second)], margin_percent=10)
    assert one.finding == finding


def test_what_cannot_be_tested_says_why() -> None:
    single, zero = compare_family([([1], [1.2, 1.3]), ([0, 1], [1, 1])], margin_percent=10)
    assert single.reason == "a single repeat shows no spread"
    assert single.effect_percent is not None
    assert (single.ci95_percent, single.p_equivalence) == (None, None)
    assert zero.reason == "a value is not above 0, so there is no ratio"
    assert zero.effect_percent is None


def test_a_margin_must_be_one() -> None:
    with pytest.raises(ValueError, match="margin"):
        compare_family([], margin_percent=0)


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


def test_the_whole_follows_from_all() -> None:
    assert overall(["reproduced", "reproduced"], complete=True) == "reproduced"
    assert overall(["reproduced"], complete=False) == "inconclusive"
    assert overall(["reproduced", "inconclusive"], complete=True) == "inconclusive"
    assert overall(["reproduced", "differs"], complete=True) == "differs"
    assert overall([], complete=True) == "inconclusive"


@pytest.mark.parametrize("repeats", [3, 5, 10])
def test_false_findings_are_rare(repeats: int) -> None:
    """At the margin `reproduced` is false, on equal distributions `differs` is: each in 5 % at most."""
    source = random.Random(repeats)
    trials = 800

    def sample(mean: float) -> list[float]:
        return [math.exp(source.gauss(math.log(mean), 0.03)) for _ in range(repeats)]

    false_same = sum(
        compare_family([(sample(1), sample(1.1))], margin_percent=10)[0].finding == "reproduced"
        for _ in range(trials)
    )
    false_unlike = sum(
        any(
            one.finding == "differs"
            for one in compare_family([(sample(1), sample(1)) for _ in range(5)], margin_percent=10)
        )
        for _ in range(trials // 4)
    )
    # 5 %, and three standard errors of the simulation.
    assert false_same / trials <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / trials)
    assert false_unlike / (trials // 4) <= 0.05
