"""From a telemetry file to what a measurement document keeps of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from rentbench.harness.privacy import redact
from rentbench.harness.throttle import reasons_from_bits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = ["TelemetrySummary", "summarize"]

_SERIES: Final = (
    "power_watts",
    "temperature_celsius",
    "clock_sm_mhz",
    "clock_memory_mhz",
    "utilization_percent",
    "memory_used_bytes",
)
# So many intervals may pass without a reading before what happened in between counts as unknown.
_MAX_GAP_INTERVALS: Final = 3.0
_MAX_REASON: Final = 1000

Stamped = list[tuple[float, float]]


@dataclass(frozen=True, kw_only=True)
class TelemetrySummary:
    """What a telemetry file says.

    Attributes:
        telemetry: As measurement documents hold it (`$defs/telemetry`); None where nothing was sampled.
        unavailable: A reason for every null in it; the pointers begin with `/telemetry`.
        link_under_load: For each GPU the highest PCIe generation and width while measuring (in the whole run
            where nothing was sampled then); None where not read.
        throttle_samples: For each GPU how many samples while measuring told its throttle reasons; with 0,
            `throttle` is null.
        utilization_samples: For each GPU how many samples while measuring told its utilisation.
        power_kinds: For each GPU what its power readings are: `instant`, or `average` (over a second); None
            where the driver's documentation does not say, or both came.
    """

    telemetry: dict[str, Any] | None
    unavailable: list[dict[str, str]]
    link_under_load: list[tuple[int | None, int | None]]
    throttle_samples: list[int] = field(default_factory=list)
    utilization_samples: list[int] = field(default_factory=list)
    power_kinds: list[str | None] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class _File:
    started: str
    monotonic: float
    interval: float
    columns: list[str]
    count: int
    problem: str | None
    samples: list[tuple[float, list[list[Any] | None]]]
    gaps: dict[tuple[int, str], str]


def summarize(
    file: Path, measure_windows: Sequence[tuple[float, float]], *, gpu_count: int | None = None
) -> TelemetrySummary:
    """Return the telemetry of a run; never raises.

    Args:
        file: What a `TelemetryProcess` wrote; may be missing or cut short.
        measure_windows: Begin and end of each measuring phase, `time.monotonic()` seconds; throttle reasons
            are counted inside them.
        gpu_count: How many GPUs the host has; with another number of them the telemetry is of no use.
    """
    found = _read(file)
    if isinstance(found, str):
        return _nothing(found)
    if not found.count or not found.samples:
        return _nothing(found.problem or "no sample was taken")
    if gpu_count is not None and gpu_count != found.count:
        return _nothing(f"{found.count} GPUs were sampled, and the host has {gpu_count}")
    gpus = [_Gpu(found, index, measure_windows) for index in range(found.count)]
    return TelemetrySummary(
        telemetry={
            "interval_seconds": found.interval,
            "started": found.started,
            "gpus": [gpu.document for gpu in gpus],
        },
        unavailable=[reason for gpu in gpus for reason in gpu.unavailable],
        link_under_load=[gpu.link for gpu in gpus],
        throttle_samples=[gpu.throttle_samples for gpu in gpus],
        utilization_samples=[gpu.utilization_samples for gpu in gpus],
        power_kinds=[gpu.power_kind for gpu in gpus],
    )


def _nothing(reason: str) -> TelemetrySummary:
    entry = {"path": "/telemetry", "reason": redact(reason)[:_MAX_REASON]}
    return TelemetrySummary(telemetry=None, unavailable=[entry], link_under_load=[])


def _read(file: Path) -> _File | str:
    """Return the file's content, or why it has none."""
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError as error:
        return f"the telemetry file cannot be read: {error.strerror}"
    documents = list(_documents(lines))
    header = next((line for line in documents if "telemetry" in line), None)
    opened = next((line for line in documents if "gpus" in line and "t" not in line), None)
    if header is None:
        said = [line for line in lines if line.strip()]
        return "the telemetry process did not start" + (f": {said[-1]}" if said else "")
    if opened is None:
        return "the telemetry process ended before NVML answered"
    return _File(
        started=header["started"],
        monotonic=header["monotonic"],
        interval=header["interval"],
        columns=header["columns"],
        count=opened["gpus"],
        problem=opened["problem"],
        samples=[
            (line["t"], line["gpus"])
            for line in documents
            if "t" in line and len(line["gpus"]) == opened["gpus"]
        ],
        gaps={(line["gap"], line["column"]): line["reason"] for line in documents if "gap" in line},
    )


def _documents(lines: Sequence[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            found = json.loads(line)
        except ValueError:
            continue  # what the interpreter printed, or the line being written when the process was killed
        if isinstance(found, dict):
            yield found


class _Gpu:
    """One GPU's part of the document."""

    def __init__(self, found: _File, index: int, windows: Sequence[tuple[float, float]]) -> None:
        self._found = found
        self._index = index
        self.unavailable: list[dict[str, str]] = []
        self._rows = [
            (stamp, dict(zip(found.columns, row, strict=True)) if (row := rows[index]) else {})
            for stamp, rows in found.samples
        ]
        measuring = [row for stamp, row in self._rows if any(begin <= stamp <= end for begin, end in windows)]
        bits = [row["throttle_bits"] for row in measuring if row.get("throttle_bits") is not None]
        self.throttle_samples = len(bits)
        self.utilization_samples = sum(row.get("utilization_percent") is not None for row in measuring)
        loaded = measuring or [row for _, row in self._rows]
        self.link = (_highest(loaded, "pcie_generation"), _highest(loaded, "pcie_width"))
        kinds = {row["power_kind"] for _, row in self._rows if row.get("power_watts") is not None}
        self.power_kind = kinds.pop() if len(kinds) == 1 else None
        series = {name: [row.get(name) for _, row in self._rows] for name in _SERIES}
        foreign = [
            row["foreign_processes"] for _, row in self._rows if row.get("foreign_processes") is not None
        ]
        self.document = {
            "offsets_seconds": [round(max(0.0, stamp - found.monotonic), 3) for stamp, _ in self._rows],
            "series": series,
            "summary": {name: _range(values) for name, values in series.items()},
            "energy": self._energy(),
            "throttle": _count(bits) if bits else None,
            "foreign_processes": max(foreign, default=None),
        }
        self._explain(series, measuring=bool(measuring), foreign=bool(foreign))

    def _stamped(self, column: str) -> Stamped:
        return [(stamp, row[column]) for stamp, row in self._rows if row.get(column) is not None]

    def _energy(self) -> dict[str, Any] | None:
        """Return the energy from first to last sample: by the counter, else from the power, else None."""
        longest = _MAX_GAP_INTERVALS * self._found.interval
        counter = self._stamped("energy_millijoules")
        if self._whole(counter, longest, inside=False) and all(
            b >= a for (_, a), (_, b) in pairwise(counter)
        ):
            joules = (counter[-1][1] - counter[0][1]) / 1000
            if joules > 0:  # some GPUs have a counter that never moves
                return {"joules": round(joules, 3), "source": "counter"}
        power = self._stamped("power_watts")
        if not self._whole(power, longest, inside=True):
            return None
        joules = sum((b - a) * (watts + more) / 2 for (a, watts), (b, more) in pairwise(power))
        return {"joules": round(joules, 3), "source": "integrated_power"}

    def _whole(self, readings: Stamped, longest: float, *, inside: bool) -> bool:
        """Tell whether the readings reach from first to last sample, and where asked without a gap."""
        if len(readings) < 2:
            return False
        first, last = self._rows[0][0], self._rows[-1][0]
        if readings[0][0] - first > longest or last - readings[-1][0] > longest:
            return False
        return not inside or all(
            later - earlier <= longest for (earlier, _), (later, _) in pairwise(readings)
        )

    def _explain(self, series: dict[str, list[float | None]], *, measuring: bool, foreign: bool) -> None:
        for name, values in series.items():
            missing = values.count(None)
            if missing:
                reason = self._reason(name)
                self._note(f"series/{name}", f"{missing} of {len(values)} readings failed: {reason}")
                if missing == len(values):
                    self._note(f"summary/{name}", reason)
        if self.document["energy"] is None:
            counter = self._reason("energy_millijoules")
            self._note("energy", f"no energy counter that works ({counter}), and too few power readings")
        if self.document["throttle"] is None:
            sampled = "no sample was taken while measuring"
            self._note("throttle", self._reason("throttle_bits") if measuring else sampled)
        if not foreign:
            self._note("foreign_processes", self._reason("foreign_processes"))

    def _reason(self, column: str) -> str:
        gaps = self._found.gaps
        return gaps.get((self._index, column)) or gaps.get((self._index, "")) or "no reading"

    def _note(self, place: str, reason: str) -> None:
        path = f"/telemetry/gpus/{self._index}/{place}"
        self.unavailable.append({"path": path, "reason": redact(reason)[:_MAX_REASON]})


def _highest(rows: Sequence[dict[str, Any]], column: str) -> int | None:
    return max((row[column] for row in rows if row.get(column) is not None), default=None)


def _range(values: Sequence[float | None]) -> dict[str, float] | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    low, high = min(known), max(known)
    # Rounding in the mean must not take it out of the range.
    return {"min": low, "mean": min(high, max(low, sum(known) / len(known))), "max": high}


def _count(masks: Sequence[int]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for mask in masks:
        for reason in sorted(reasons_from_bits(mask)):
            counts[reason] = counts.get(reason, 0) + 1
    return counts
