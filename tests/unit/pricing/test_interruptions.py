"""Expected time and cost of interrupted jobs, against arithmetic, limits, and a simulation."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rentbench.pricing.interruptions import (
    InterruptibleJob,
    daly_interval_seconds,
    expected_cost,
    expected_hours,
    on_demand_cost,
    young_interval_seconds,
)

HOUR = 3600.0


def job(**changes: float) -> InterruptibleJob:
    usual = {
        "work_hours": 10.0,
        "interruptions_per_hour": 0.5,
        "interval_seconds": 600.0,
        "save_seconds": 20.0,
        "restart_seconds": 180.0,
    }
    return InterruptibleJob(**{**usual, **changes})


def simulated_hours(which: InterruptibleJob, random_numbers: random.Random) -> float:
    """Play one job in seconds, moment by moment, with no formula in it."""
    work = which.work_hours * HOUR * (1 + which.slowdown)
    rate = which.interruptions_per_hour / HOUR
    done = now = 0.0
    next_interruption = random_numbers.expovariate(rate)

    def restart() -> None:
        nonlocal now, next_interruption
        while True:
            next_interruption = now + random_numbers.expovariate(rate)
            if next_interruption >= now + which.restart_seconds:
                now += which.restart_seconds
                return
            now = next_interruption

    while done < work - 1e-6:
        left = min(which.interval_seconds, work - done) + which.save_seconds
        whole = left
        while left > 0:
            if now + left <= next_interruption:
                now, left = now + left, 0.0
                continue
            left -= next_interruption - now
            now = next_interruption
            if random_numbers.random() < which.announced_share:
                now += which.announced_seconds  # nothing interrupts the time of grace
            else:
                left = whole
            restart()
        done += which.interval_seconds
    return now / HOUR


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"interruptions_per_hour": 4.0, "restart_seconds": 300.0},
        {"interval_seconds": 3600.0, "interruptions_per_hour": 1.0},
        {"announced_share": 0.7, "announced_seconds": 25.0, "interruptions_per_hour": 3.0},
        {"announced_share": 1.0, "announced_seconds": 15.0},
        {"work_hours": 1.3, "interval_seconds": 1000.0, "slowdown": 0.05},
        {"work_hours": 0.1, "interval_seconds": 1000.0, "interruptions_per_hour": 6.0},
    ],
)
def test_the_expectation_is_that_of_a_simulation(changes: dict[str, float]) -> None:
    which = job(**changes)
    random_numbers = random.Random(20261201)  # the seed makes the verdict the same every time
    hours = [simulated_hours(which, random_numbers) for _ in range(4000)]
    error = statistics.stdev(hours) / math.sqrt(len(hours))
    assert abs(expected_hours(which) - statistics.fmean(hours)) < 3 * error
    assert error < 0.03 * statistics.fmean(hours)  # the simulation is sharp enough to mean something


def test_without_interruptions_time_is_work_and_saves() -> None:
    assert expected_hours(job(interruptions_per_hour=0.0)) == pytest.approx(10 + 60 * 20 / HOUR)
    assert expected_hours(job(interruptions_per_hour=1e-12)) == pytest.approx(10 + 60 * 20 / HOUR)


def test_the_rest_of_the_work_is_saved_too() -> None:
    assert expected_hours(job(interruptions_per_hour=0.0, work_hours=0.25)) == pytest.approx(0.25 + 40 / HOUR)
    exact = expected_hours(job(interruptions_per_hour=0.0, work_hours=0.3, interval_seconds=360.0))
    assert exact == pytest.approx(0.3 + 60 / HOUR)  # three whole intervals, whatever binary fractions say


def test_daly_s_complete_model_comes_out() -> None:
    mean, restart, interval, save = 2.0, 0.05, 600 / HOUR, 20 / HOUR
    daly = mean * math.exp(restart / mean) * math.expm1((interval + save) / mean) * 10 / interval
    assert expected_hours(job()) == pytest.approx(daly, rel=1e-12)


def test_costs() -> None:
    assert expected_cost(job(), 1.5) == pytest.approx(1.5 * expected_hours(job()))
    assert on_demand_cost(10, 3.0) == 30.0
    # Half the price, an interruption every two hours: it pays, but not half.
    assert 15 < expected_cost(job(), 1.5) < 30


def test_a_job_that_never_gets_anywhere_is_infinite() -> None:
    assert expected_hours(job(interruptions_per_hour=1e4, interval_seconds=HOUR)) == math.inf


def test_young_s_interval() -> None:
    # δ = 20 s, M = 2 h: √(2 · 20 · 7200) = 536.7 s
    assert young_interval_seconds(20, 0.5) == pytest.approx(536.656, abs=1e-3)
    assert young_interval_seconds(20, 0) == math.inf


def test_daly_s_interval() -> None:
    # √(2δM) = 536.656; δ ÷ 2M = 1/720: 536.656 · (1 + 0.0124226 + 0.0001543) − 20
    assert daly_interval_seconds(20, 0.5) == pytest.approx(523.406, abs=1e-3)
    assert daly_interval_seconds(20, 0) == math.inf
    assert daly_interval_seconds(2 * HOUR, 1.0) == HOUR  # saves of twice M: the interval is M


@given(save=st.floats(0.5, 600), per_hour=st.floats(0.01, 5))
def test_daly_s_interval_is_within_a_thousandth_of_the_best_cost(save: float, per_hour: float) -> None:
    mean = HOUR / per_hour

    def time_per_work(interval: float) -> float:
        return math.expm1((interval + save) / mean) / interval

    low, high = 1e-3 * mean, 10 * mean
    for _ in range(200):  # the function has one minimum
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if time_per_work(left) < time_per_work(right) else (left, high)
    best = time_per_work((low + high) / 2)
    assert time_per_work(daly_interval_seconds(save, per_hour)) <= 1.001 * best
    if save < mean / 100:
        assert time_per_work(young_interval_seconds(save, per_hour)) <= 1.001 * best


@given(per_hour=st.floats(0, 3), save=st.floats(0, 100), restart=st.floats(0, 900), announced=st.floats(0, 1))
def test_more_trouble_never_takes_less_time(
    per_hour: float, save: float, restart: float, announced: float
) -> None:
    which = {
        "interruptions_per_hour": per_hour,
        "save_seconds": save,
        "restart_seconds": restart,
        "announced_share": announced,
    }
    hours = expected_hours(job(**which))
    assert hours >= 10 * (1 - 1e-12)  # rounding shows at rates that are nearly no number
    for worse in (
        {"interruptions_per_hour": per_hour + 0.1},
        {"save_seconds": save + 1},
        {"restart_seconds": restart + 10},
        {"slowdown": 0.01},
        {"announced_share": announced / 2},
    ):
        assert expected_hours(job(**{**which, **worse})) >= hours * (1 - 1e-12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"interval_seconds": 0.0}, "interval_seconds is 0"),
        ({"save_seconds": -1.0}, "save_seconds is -1.0"),
        ({"work_hours": math.nan}, "work_hours is nan"),
        ({"restart_seconds": math.inf}, "restart_seconds is inf"),
        ({"announced_share": 1.5}, "announced_share is 1.5"),
    ],
)
def test_impossible_jobs_are_refused(changes: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        job(**changes)
