"""A long full load on all cards at once: does the machine keep its speed, and if not, why?

Consumer cards in closed cases were seen to drop from 450 W to 300 W after 20 minutes; a short benchmark does
not show it.
"""

from __future__ import annotations

import statistics
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from preflight_compute import Operands, cards, on_card
from preflight_findings import Finding

from rentbench.harness.load import LoadSample, call_rate, sustain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rentbench.harness.context import Context

__all__ = ["SUSTAINED_CHECKS", "CardLoad", "as_csv", "load_cards", "sustained_findings"]

# Reasons for lower clocks that are a fault of cooling or supply. The power limit is none: it is how a card is
# sold.
_FAULTS = frozenset({"thermal_software", "thermal_hardware", "power_brake", "hardware_slowdown"})


SUSTAINED_CHECKS = ("sustained_load", "sustained_collapse")


@dataclass(frozen=True, kw_only=True)
class CardLoad:
    """One card under a long load.

    Attributes:
        card: CUDA's number; 0 on a CPU.
        work: Floating-point operations of one call.
        window_seconds: What is compared: the first and the last window of this length.
        samples: As `sustain` returns them.
    """

    card: int
    work: int
    window_seconds: float
    samples: Sequence[LoadSample]

    @property
    def first_tflops(self) -> float | None:
        """Throughput in the first window; None where it is too short to hold two samples."""
        return self._tflops(0.0, self.window_seconds)

    @property
    def last_tflops(self) -> float | None:
        """Throughput in the last window."""
        end = self.samples[-1].seconds
        return self._tflops(end - self.window_seconds, end)

    @property
    def loss_percent(self) -> float | None:
        """By how much the last window was slower than the first; below 0 where it was faster."""
        first, last = self.first_tflops, self.last_tflops
        return None if not first or last is None else 100 * (1 - last / first)

    @property
    def throttle(self) -> list[str]:
        """Reasons for lower clocks that were seen."""
        return sorted({reason for sample in self.samples for reason in sample.reading.throttle or ()})

    def median(self, sensor: str, *, last: bool) -> float | None:
        """Return the median of a sensor in the first or the last window; None where it cannot be read."""
        end = self.samples[-1].seconds
        begin, finish = (end - self.window_seconds, end) if last else (0.0, self.window_seconds)
        readings = [
            reading
            for sample in self.samples
            if begin <= sample.seconds <= finish and (reading := getattr(sample.reading, sensor)) is not None
        ]
        return float(statistics.median(readings)) if readings else None

    def highest(self, sensor: str) -> float | None:
        """Return the highest reading of a sensor; None where it cannot be read."""
        readings = [getattr(sample.reading, sensor) for sample in self.samples]
        return max((float(reading) for reading in readings if reading is not None), default=None)

    def _tflops(self, begin: float, end: float) -> float | None:
        rate = call_rate(self.samples, begin, end)
        return None if rate is None else rate * self.work / 1e12


def load_cards(
    context: Context, *, dtype: str, size: int, seconds: float, window_seconds: float, sample_seconds: float
) -> list[CardLoad]:
    """Multiply matrices on all cards at once for some seconds.

    The first window begins when the warm-up, one product, is over; the card is as cool as the probes before
    left it.
    """
    numbers = cards(context)
    for card in numbers:
        context.reading(card)  # opens the sensors before threads share them

    def work(card: int) -> CardLoad:
        with torch.no_grad(), on_card(context, card) as (device, timer):
            operands = Operands(dtype, size, device)
            operands.multiply()
            timer.synchronize()
            samples = sustain(
                operands.multiply,
                device=context.device,
                read=lambda: context.reading(card),
                limit_seconds=seconds,
                sample_seconds=sample_seconds,
            )
        return CardLoad(card=card, work=2 * size**3, window_seconds=window_seconds, samples=samples)

    with ThreadPoolExecutor(len(numbers)) as pool:
        return list(pool.map(work, numbers))


def sustained_findings(
    loads: Sequence[CardLoad], *, limit_percent: float, collapse_percent: float
) -> list[Finding]:
    """Return the checks of a long load: throttled or not, and not worth its money or not.

    Args:
        loads: Of each card.
        limit_percent: A larger loss is a warning.
        collapse_percent: A larger loss is a failure.
    """
    known = [(load.loss_percent, load) for load in loads if load.loss_percent is not None]
    if not known:
        detail = "the load was too short to compare its beginning with its end"
        return [
            Finding(name="sustained_load", passed=None, detail=detail),
            Finding(name="sustained_collapse", passed=None, detail=detail, severity="hard"),
        ]
    loss, worst = max(known, key=lambda pair: pair[0])
    faults = sorted({reason for load in loads for reason in load.throttle} & _FAULTS)
    throttled = loss > limit_percent or bool(faults)
    reasons = ", ".join(worst.throttle) or "no reason was reported by the driver"
    detail = (
        f"{'throttled' if throttled else 'not throttled'} ({reasons}): GPU {worst.card} went from "
        f"{worst.first_tflops:.4g} to {worst.last_tflops:.4g} TFLOPS, a loss of {max(0.0, loss):.1f} %, in "
        f"{worst.samples[-1].seconds:.0f} s"
    )
    if faults:
        detail += f"; cooling or supply limited the clocks: {', '.join(faults)}"
    return [
        Finding(
            name="sustained_load",
            passed=not throttled,
            detail=detail,
            value=round(loss, 2),
            limit=limit_percent,
            unit="%",
        ),
        Finding(
            name="sustained_collapse",
            passed=loss <= collapse_percent,
            detail=f"the largest loss under a long load is {max(0.0, loss):.1f} %",
            severity="hard",
            value=round(loss, 2),
            limit=collapse_percent,
            unit="%",
        ),
    ]


def as_csv(loads: Sequence[CardLoad]) -> str:
    """Return the samples of all cards as CSV; empty where a sensor cannot be read."""
    lines = ["gpu,seconds,calls,power_watts,temperature_celsius,clock_sm_mhz,throttle"]
    for load in loads:
        for sample in load.samples:
            reading = sample.reading
            cells = (
                load.card,
                round(sample.seconds, 3),
                sample.calls,
                reading.power_watts,
                reading.temperature_celsius,
                reading.clock_sm_mhz,
                " ".join(sorted(reading.throttle or ())),
            )
            lines.append(",".join("" if cell is None else str(cell) for cell in cells))
    return "\n".join(lines) + "\n"
