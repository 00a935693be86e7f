"""Cool and hot cards, on a simulated one: its heat and its clock follow a clock that the test turns."""

from __future__ import annotations

import math
from typing import Any

import pytest
from gemm_heat import Card, Readings, cooled_down

from rentbench.harness.load import LoadSample
from support.suites import reading


class SimulatedCard:
    """A card that warms under load and cools at rest, exponentially; its clock falls with the temperature."""

    def __init__(
        self, celsius: float, *, idle: float = 35.0, hot: float = 75.0, tau_seconds: float = 8.0
    ) -> None:
        self.seconds = 0.0
        self.celsius = celsius
        self.idle, self.hot, self.tau = idle, hot, tau_seconds

    def pass_time(self, seconds: float, *, loaded: bool = False) -> None:
        target = self.hot if loaded else self.idle
        self.celsius = target + (self.celsius - target) * math.exp(-seconds / self.tau)
        self.seconds += seconds

    def read(self) -> Any:
        return reading(
            temperature_celsius=float(round(self.celsius)), clock_sm_mhz=1980 - 8 * (self.celsius - self.idle)
        )


class SimulatedContext:
    """What `Card` asks of the harness."""

    device = "cuda"

    def __init__(self, card: SimulatedCard, **settings: float) -> None:
        self.card = card
        self.timer = self
        self.settings = {
            "cool_start_limit_seconds": 60.0,
            "cool_limit_seconds": 30.0,
            "cool_tolerance_celsius": 3.0,
            "wake_seconds": 0.1,
            "heat_seconds": 30.0,
            "settle_window_seconds": 0.5,
            "settle_percent": 1.0,
            "settle_limit_seconds": 4.0,
            **settings,
        }

    def reading(self) -> Any:
        return self.card.read()

    def flush_cache(self) -> None:
        pass


@pytest.fixture
def make() -> Any:
    """Return a function that makes a simulated card; loads pass its time instead of the real one."""

    def build(celsius: float, **settings: float) -> tuple[Card, SimulatedCard, list[float]]:
        simulated = SimulatedCard(celsius)
        context: Any = SimulatedContext(simulated, **settings)
        loads: list[float] = []

        def hold(call: Any, *, limit_seconds: float, until: Any = None, **_: Any) -> list[LoadSample]:
            call()
            begin, samples = simulated.seconds, []
            while not samples or samples[-1].seconds < limit_seconds:
                simulated.pass_time(0.1, loaded=True)
                seconds = simulated.seconds - begin
                samples.append(
                    LoadSample(seconds=seconds, calls=round(100 * seconds), reading=simulated.read())
                )
                if until is not None and until(samples):
                    break
            loads.append(samples[-1].seconds)
            return samples

        card = Card(
            context=context,
            heat=lambda: lambda: None,
            now=lambda: simulated.seconds,
            sleep=simulated.pass_time,
            hold=hold,
        )
        return card, simulated, loads

    return build


def test_a_card_that_was_hot_is_waited_for_before_the_first_burst(make: Any) -> None:
    card, simulated, _ = make(75.0)
    start = card.start_cool("bf16 8192 burst")
    assert 15 < simulated.seconds < 60
    assert start.temperature_celsius < 42
    assert card.too_warm == []


def test_a_cool_card_waits_only_until_that_is_known(make: Any) -> None:
    card, simulated, loads = make(35.0)
    card.start_cool("first")
    assert simulated.seconds < 5
    before = simulated.seconds
    card.start_cool("second")
    assert simulated.seconds - before < 1
    assert loads == [pytest.approx(0.1, abs=0.11)] * 2  # the simulation's step is 0.1 s


def test_each_burst_waits_for_the_card_to_cool(make: Any) -> None:
    card, simulated, _ = make(35.0)
    card.start_cool("first")
    simulated.pass_time(10, loaded=True)
    warm = simulated.celsius
    start = card.start_cool("second")
    assert warm > 60
    assert start.temperature_celsius <= 35 + 3
    assert card.too_warm == []
    assert card.bursts == 2


def test_a_card_that_stays_warm_is_reported(make: Any) -> None:
    card, simulated, _ = make(35.0, cool_limit_seconds=2.0)
    card.start_cool("first")
    simulated.pass_time(30, loaded=True)
    card.start_cool("fp32 16384 burst")
    assert len(card.too_warm) == 1
    assert card.too_warm[0].startswith("fp32 16384 burst at 6")


def test_the_long_heat_comes_once(make: Any) -> None:
    card, simulated, loads = make(35.0)
    card.start_hot(lambda: None, "first", minimum_calls=50)
    card.start_hot(lambda: None, "second", minimum_calls=50)
    assert loads[0] == pytest.approx(30)
    assert len(loads) == 3
    assert simulated.celsius > 73
    assert card.unsettled == []


def test_a_card_that_rested_is_loaded_for_as_long_again(make: Any) -> None:
    card, simulated, loads = make(35.0)
    card.start_hot(lambda: None, "first", minimum_calls=50)
    simulated.pass_time(6.0)
    card.start_hot(lambda: None, "second", minimum_calls=50)
    assert loads[-1] >= 6.0


def test_all_warm_up_calls_are_made(make: Any) -> None:
    card, _, loads = make(75.0, settle_limit_seconds=20.0)
    samples = card.start_hot(lambda: None, "first", minimum_calls=500)
    assert samples[-1].calls >= 500
    assert loads[-1] < 20


def test_clocks_that_do_not_settle_are_reported(make: Any) -> None:
    card, _, _ = make(35.0, heat_seconds=0.0, settle_limit_seconds=2.0, settle_percent=0.1)
    card.start_hot(lambda: None, "bf16 8192 steady", minimum_calls=1)
    assert card.unsettled == ["bf16 8192 steady"]


def test_cooled_down_needs_four_seconds_of_history() -> None:
    assert not cooled_down([(0.0, 40.0), (3.0, 40.0)])
    assert cooled_down([(0.0, 40.0), (4.0, 39.0)])
    assert not cooled_down([(0.0, 40.0), (4.0, 38.0)])
    assert cooled_down([(0.0, 60.0), (4.0, 40.0), (8.0, 40.0)])
    assert cooled_down([(0.0, 40.0), (4.0, 41.0)])  # warming is not cooling


def test_readings_that_are_missing_stay_missing() -> None:
    start, empty = reading(temperature_celsius=35.0), reading()
    assert Readings.of(start, [empty]) == Readings(
        temperature_start_celsius=35.0, clock_sm_mhz=None, power_watts=None
    )
    during = [empty, reading(power_watts=690.0, clock_sm_mhz=1500.0), reading(power_watts=700.0)]
    assert Readings.of(empty, during) == Readings(
        temperature_start_celsius=None, clock_sm_mhz=1500.0, power_watts=695.0
    )
