"""What a long load tells, from made-up samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.suites import reading

pytest.importorskip("torch")

from preflight_sustained import CardLoad, as_csv, sustained_findings

from rentbench.harness.load import LoadSample

if TYPE_CHECKING:
    from collections.abc import Callable

WORK = 2 * 8192**3


def load(
    tflops_at: Callable[[float], float],
    *,
    card: int = 0,
    seconds: int = 60,
    **sensors: Callable[[float], Any],
) -> CardLoad:
    """Return a load whose throughput follows a function of time, sampled four times a second."""
    calls, samples = 0.0, []
    for step in range(4 * seconds):
        time = (step + 1) / 4
        calls += tflops_at(time) * 1e12 / WORK / 4
        values = {name: sensor(time) for name, sensor in sensors.items()}
        samples.append(LoadSample(seconds=time, calls=round(calls), reading=reading(**values)))
    return CardLoad(card=card, work=WORK, window_seconds=5, samples=samples)


def judge(*loads: CardLoad) -> tuple[bool | None, bool | None, str]:
    slight, collapse = sustained_findings(loads, limit_percent=5, collapse_percent=25)
    assert (slight.severity, collapse.severity) == ("soft", "hard")
    return slight.passed, collapse.passed, slight.detail


def test_a_steady_card_passes() -> None:
    steady = load(lambda _: 680)
    assert steady.first_tflops == pytest.approx(680, rel=0.01)
    assert steady.loss_percent == pytest.approx(0, abs=0.5)
    passed, alive, detail = judge(steady)
    assert (passed, alive) == (True, True)
    assert detail.startswith("not throttled")


def test_a_loss_is_taken_from_the_first_to_the_last_window() -> None:
    # Full speed for the first 5 s, then falling, then 10 % below: only the two windows count.
    falling = load(lambda time: 700 if time <= 5 else 300 if time <= 50 else 630)
    assert falling.loss_percent == pytest.approx(10, abs=0.5)
    passed, alive, detail = judge(falling)
    assert (passed, alive) == (False, True)
    assert "from 700 to 630 TFLOPS, a loss of 10" in detail


def test_the_reason_is_named() -> None:
    hot = load(
        lambda time: 700 if time < 30 else 600,
        throttle=lambda time: frozenset({"power_cap"} if time < 30 else {"power_cap", "thermal_software"}),
    )
    _, _, detail = judge(hot)
    assert detail.startswith("throttled (power_cap, thermal_software)")
    assert "cooling or supply limited the clocks: thermal_software" in detail


def test_the_power_limit_alone_is_how_the_card_is_sold() -> None:
    capped = load(lambda _: 680, throttle=lambda _: frozenset({"power_cap"}))
    assert judge(capped)[0] is True


def test_a_fault_of_cooling_is_a_warning_even_without_a_loss() -> None:
    assert judge(load(lambda _: 680, throttle=lambda _: frozenset({"thermal_hardware"})))[0] is False


def test_a_collapse_is_a_failure() -> None:
    assert judge(load(lambda time: 165 - 2 * time))[:2] == (False, False)


def test_the_worst_of_several_cards_counts() -> None:
    passed, alive, detail = judge(load(lambda _: 680), load(lambda time: 680 if time < 30 else 400, card=1))
    assert (passed, alive) == (False, False)
    assert "GPU 1" in detail


def test_a_card_that_became_faster_passes() -> None:
    faster = load(lambda time: 500 + time)
    assert faster.loss_percent is not None
    assert faster.loss_percent < 0
    assert judge(faster)[0] is True


def test_too_short_a_load_is_not_judged() -> None:
    short = CardLoad(
        card=0, work=WORK, window_seconds=5, samples=[LoadSample(seconds=0.1, calls=3, reading=reading())]
    )
    assert judge(short)[:2] == (None, None)


def test_sensors_are_taken_from_their_windows() -> None:
    card = load(
        lambda _: 680,
        clock_sm_mhz=lambda time: 1980 if time <= 5 else 1500,
        temperature_celsius=lambda time: 40 + time / 2,
        power_watts=lambda _: None,
    )
    assert card.median("clock_sm_mhz", last=False) == 1980
    assert card.median("clock_sm_mhz", last=True) == 1500
    assert card.highest("temperature_celsius") == 70
    assert card.median("power_watts", last=True) is None
    assert card.highest("power_watts") is None


def test_the_csv_leaves_missing_readings_empty() -> None:
    card = load(
        lambda _: 680, seconds=1, clock_sm_mhz=lambda _: 1500.0, throttle=lambda _: frozenset({"power_cap"})
    )
    lines = as_csv([card]).splitlines()
    assert lines[0].startswith("gpu,seconds,calls,power_watts")
    assert len(lines) == 5
    assert lines[1].endswith(",,,1500.0,power_cap")
