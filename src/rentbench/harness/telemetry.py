"""Power, temperature, clocks and memory while a run lasts, sampled by a process of its own.

File: one header line, then one line for each sample; stamps are `time.monotonic()` seconds, shared by all
processes of a machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["TelemetryProcess", "TelemetrySummary", "summarize"]


@dataclass(frozen=True, kw_only=True)
class TelemetrySummary:
    """What a telemetry file says.

    Attributes:
        telemetry: As measurement documents hold it (`$defs/telemetry`); None where nothing was sampled.
        unavailable: A reason for every null in it; the pointers begin with `/telemetry`.
        link_under_load: For each GPU the highest PCIe generation and width seen; None where not read.
    """

    telemetry: dict[str, Any] | None
    unavailable: list[dict[str, str]]
    link_under_load: list[tuple[int | None, int | None]]


class TelemetryProcess:
    """The sampling process: `with TelemetryProcess(path): …`; it ends with its parent, whatever happens to that.

    Args:
        output: The file to write, JSON lines; worth keeping as an artifact.
        interval_seconds: Between two samples.
    """

    def __init__(self, output: Path, *, interval_seconds: float = 1.0) -> None:
        self.output = output
        self.interval_seconds = interval_seconds

    def start(self) -> None:
        """Start sampling; returns at once."""

    def stop(self, *, timeout_seconds: float = 5.0) -> None:
        """End it after a last sample; kills it when it does not end in time. Calling it twice does nothing more."""
        del timeout_seconds

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def summarize(file: Path, measure_windows: Sequence[tuple[float, float]]) -> TelemetrySummary:
    """Return the telemetry of a run; never raises.

    Args:
        file: What a `TelemetryProcess` wrote; may be missing or cut short.
        measure_windows: Begin and end of each measuring phase, `time.monotonic()` seconds; throttle reasons are
            counted inside them.
    """
    del file, measure_windows
    reason = {"path": "/telemetry", "reason": "nothing was sampled"}
    return TelemetrySummary(telemetry=None, unavailable=[reason], link_under_load=[])
