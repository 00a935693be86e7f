"""Our statistics against NumPy and SciPy, over values that nobody chose."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from rentbench.core.statistics import sample_summary, summarize, t_critical

# Squares of smaller ones underflow in numpy, whose standard deviation then is 0; ours is exact there.
number = st.floats(-1e12, 1e12).filter(lambda value: value == 0 or abs(value) > 1e-140)
values = st.lists(number, min_size=1, max_size=40)


@given(values)
def test_summary_agrees_with_numpy(numbers: list[float]) -> None:
    summary = summarize(numbers)
    scale = max(map(abs, numbers))
    assert summary["values"] == numbers
    assert summary["n"] == len(numbers)
    assert math.isclose(summary["median"], np.median(numbers), rel_tol=1e-9, abs_tol=1e-9 * scale)
    assert math.isclose(summary["mean"], np.mean(numbers), rel_tol=1e-9, abs_tol=1e-9 * scale)
    if len(numbers) > 1:
        assert math.isclose(summary["stdev"], np.std(numbers, ddof=1), rel_tol=1e-6, abs_tol=1e-9 * scale)


@given(st.lists(number, min_size=3, max_size=12, unique=True))
def test_interval_agrees_with_scipy(numbers: list[float]) -> None:
    low, high = summarize(numbers)["ci95"]
    expected = scipy.stats.t.interval(
        0.95, len(numbers) - 1, loc=np.mean(numbers), scale=scipy.stats.sem(numbers)
    )
    scale = max(map(abs, numbers))
    assert low == pytest.approx(expected[0], rel=1e-6, abs=1e-8 * scale)
    assert high == pytest.approx(expected[1], rel=1e-6, abs=1e-8 * scale)


def test_one_value_has_no_spread_and_two_have_no_interval() -> None:
    assert summarize([5.0])["stdev"] is None
    assert summarize([5.0])["ci95"] is None
    assert summarize([5.0, 6.0])["stdev"] == pytest.approx(math.sqrt(0.5))
    assert summarize([5.0, 6.0])["ci95"] is None


@pytest.mark.parametrize("df", [1, 2, 3, 4, 5, 9, 30, 99, 999])
@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95, 0.99])
def test_t_agrees_with_scipy(df: int, confidence: float) -> None:
    assert t_critical(df, confidence) == pytest.approx(scipy.stats.t.ppf((1 + confidence) / 2, df), rel=1e-10)


@given(values)
def test_percentiles_agree_with_numpy(numbers: list[float]) -> None:
    scale = max(map(abs, numbers))
    for name, ours in sample_summary(numbers, "s")["percentiles"].items():
        theirs = np.percentile(numbers, int(name.removeprefix("p")))
        assert math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-9 * scale), name


def test_samples_are_pooled_in_any_order() -> None:
    summary = sample_summary([3.0, 1.0, 2.0], "ms")
    assert (summary["unit"], summary["n"], summary["min"], summary["max"]) == ("ms", 3, 1.0, 3.0)
    assert summary["percentiles"] == pytest.approx({"p10": 1.2, "p50": 2.0, "p90": 2.8, "p99": 2.98})


@pytest.mark.parametrize("bad", [[], [math.nan], [1.0, math.inf]])
def test_what_was_not_measured_is_refused(bad: list[float]) -> None:
    for function in (
        summarize,
        lambda numbers: sample_summary(numbers, "s"),
    ):
        with pytest.raises(ValueError, match=r"no values|not finite"):
            function(bad)


@pytest.mark.parametrize(("df", "confidence"), [(0, 0.95), (3, 0.0), (3, 1.0)])
def test_t_outside_its_range_is_refused(df: int, confidence: float) -> None:
    with pytest.raises(ValueError, match="no t for"):
        t_critical(df, confidence)
