"""The two states in which a card is measured.

`burst`: the card is near its idle temperature, and only a few operations run. `steady`: after a long load the
card keeps the clocks that its power limit and its cooling allow. On one H200 the same product differed by 15
% between the two.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rentbench.harness.load import LoadSample, settled, sustain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rentbench.harness.context import Context
    from rentbench.harness.nvml import GpuReading

__all__ = ["Card", "Readings", "cooled_down"]

_POLL_SECONDS = 0.25
_PLATEAU_SECONDS = 4.0
_PLATEAU_CELSIUS = 1.0


@dataclass(frozen=True, kw_only=True)
class Readings:
    """Sensors beside a measurement; None where they cannot be read."""

    temperature_start_celsius: float | None
    clock_sm_mhz: float | None
    power_watts: float | None

    @classmethod
    def of(cls, start: GpuReading, during: Sequence[GpuReading]) -> Readings:
        """Return the temperature before, and the medians of clock and power under the load."""
        clocks = [reading.clock_sm_mhz for reading in during if reading.clock_sm_mhz is not None]
        powers = [reading.power_watts for reading in during if reading.power_watts is not None]
        return cls(
            temperature_start_celsius=start.temperature_celsius,
            clock_sm_mhz=statistics.median(clocks) if clocks else None,
            power_watts=statistics.median(powers) if powers else None,
        )


def cooled_down(history: Sequence[tuple[float, float]]) -> bool:
    """Say whether a card has stopped cooling: at most 1 °C lower than 4 s ago.

    Args:
        history: Seconds and °C, in order.
    """
    now, temperature = history[-1]
    earlier = [celsius for seconds, celsius in history if seconds <= now - _PLATEAU_SECONDS]
    return bool(earlier) and earlier[-1] - temperature <= _PLATEAU_CELSIUS


@dataclass(kw_only=True)
class Card:
    """The card's heat in the course of one repeat.

    Attributes:
        context: The harness.
        heat: The operation that heats the card up, made when it is first needed.
        too_warm: Burst cases that had to start on a warm card.
        unsettled: Steady cases whose clocks had not settled within the limit.
        bursts: Burst cases that began with a temperature.
        steadies: Steady cases begun.
        now: The clock, seconds.
        sleep: Waits some seconds.
        hold: Holds a load.
    """

    context: Context
    heat: Callable[[], Callable[[], object]]
    too_warm: list[str] = field(default_factory=list)
    unsettled: list[str] = field(default_factory=list)
    bursts: int = 0
    steadies: int = 0
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    hold: Callable[..., list[LoadSample]] = sustain
    _rested: bool = False
    _idle_celsius: float | None = None
    _loaded_at: float | None = None

    def start_cool(self, name: str) -> GpuReading:
        """Wait until the card is near its idle temperature; then raise the clocks with a light load.

        Returns:
            The reading before the light load.
        """
        settings = self.context.settings
        if not self._rested:
            self._rest(float(settings["cool_start_limit_seconds"]))
        reading = self._await_cool(float(settings["cool_limit_seconds"]), name)
        self._load(self.context.timer.flush_cache, float(settings["wake_seconds"]))
        return reading

    def start_hot(self, call: Callable[[], object], name: str, *, minimum_calls: int) -> list[LoadSample]:
        """Bring the card to the heat of this very load, and return the samples of the settling.

        The first steady case is preceded by the long heat-up. Every case is then preceded by its own load,
        for at least as long as the card has rested since the last load, until the clocks have settled.
        """
        settings = self.context.settings
        if not self.steadies:
            self._load(self.heat(), float(settings["heat_seconds"]))
        self.steadies += 1
        rested = 0.0 if self._loaded_at is None else self.now() - self._loaded_at

        def ready(samples: Sequence[LoadSample]) -> bool:
            last = samples[-1]
            return last.seconds >= rested and last.calls >= minimum_calls and self._has_settled(samples)

        limit = float(settings["settle_limit_seconds"]) + min(rested, float(settings["heat_seconds"]))
        samples = self._load(call, limit, until=ready)
        if not self._has_settled(samples):
            self.unsettled.append(name)
        return samples

    def mark_loaded(self) -> None:
        """Note that the card was under load until now."""
        self._loaded_at = self.now()

    def _has_settled(self, samples: Sequence[LoadSample]) -> bool:
        settings = self.context.settings
        return settled(
            samples,
            window_seconds=float(settings["settle_window_seconds"]),
            percent=float(settings["settle_percent"]),
        )

    def _rest(self, limit_seconds: float) -> None:
        """Wait until the card has stopped cooling from whatever ran before: that is its idle temperature."""
        self._rested = True
        temperature = self.context.reading().temperature_celsius
        if temperature is None:
            return
        begin = self.now()
        history = [(0.0, temperature)]
        while not cooled_down(history) and self.now() - begin < limit_seconds:
            self.sleep(_POLL_SECONDS)
            temperature = self.context.reading().temperature_celsius
            if temperature is not None:
                history.append((self.now() - begin, temperature))
        self._idle_celsius = history[-1][1]

    def _await_cool(self, limit_seconds: float, name: str) -> GpuReading:
        reading = self.context.reading()
        if self._idle_celsius is None or reading.temperature_celsius is None:
            return reading
        self.bursts += 1
        allowed = self._idle_celsius + float(self.context.settings["cool_tolerance_celsius"])
        deadline = self.now() + limit_seconds
        while reading.temperature_celsius is not None and reading.temperature_celsius > allowed:
            if self.now() >= deadline:
                self.too_warm.append(f"{name} at {reading.temperature_celsius:g} °C")
                break
            self.sleep(_POLL_SECONDS)
            reading = self.context.reading()
        return reading

    def _load(
        self,
        call: Callable[[], object],
        limit_seconds: float,
        until: Callable[[Sequence[LoadSample]], bool] | None = None,
    ) -> list[LoadSample]:
        samples = self.hold(
            call,
            device=self.context.device,
            read=self.context.reading,
            limit_seconds=limit_seconds,
            until=until,
        )
        self.mark_loaded()
        return samples
