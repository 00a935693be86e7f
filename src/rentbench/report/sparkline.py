"""Telemetry as small line drawings: paths for the template, no chart engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rentbench.report.format import duration, quantity

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["HEIGHT", "WIDTH", "Sparkline", "sparklines"]

WIDTH, HEIGHT = 320, 64
_INSET = 3
_MOST_POINTS = 320
_SERIES = {
    "power_watts": ("Power", "W"),
    "temperature_celsius": ("Temperature", "°C"),
    "clock_sm_mhz": ("SM clock", "MHz"),
    "clock_memory_mhz": ("Memory clock", "MHz"),
    "utilization_percent": ("Utilisation", "%"),
    "memory_used_bytes": ("Memory in use", "bytes"),
}


@dataclass(frozen=True, kw_only=True)
class Sparkline:
    """One series.

    Attributes:
        title: What it is.
        label: Text alternative of the drawing.
        path: SVG path data in a box of WIDTH × HEIGHT; empty where nothing was read.
        low: Smallest reading with its unit.
        mean: Mean of the readings.
        high: Largest reading.
    """

    title: str
    label: str
    path: str
    low: str
    mean: str
    high: str


def sparklines(gpu: dict[str, Any]) -> list[Sparkline]:
    """Return every series of one GPU's telemetry (`telemetry.gpus[]`)."""
    return [_sparkline(gpu["offsets_seconds"], gpu["series"][name], *_SERIES[name]) for name in _SERIES]


def _sparkline(
    offsets: Sequence[float], readings: Sequence[float | None], title: str, unit: str
) -> Sparkline:
    known = [value for value in readings if value is not None]
    if not known:
        return Sparkline(title=title, label=f"{title}: not read", path="", low="", mean="", high="")
    low, high = min(known), max(known)
    mean = quantity(sum(known) / len(known), unit)
    span = duration(offsets[-1] - offsets[0]) if len(offsets) > 1 else "one reading"
    label = f"{title} over {span}: {quantity(low, unit)} to {quantity(high, unit)}, mean {mean}"
    return Sparkline(
        title=title,
        label=label,
        path=_path(_thinned(offsets, readings), low, high),
        low=quantity(low, unit),
        mean=mean,
        high=quantity(high, unit),
    )


def _thinned(offsets: Sequence[float], readings: Sequence[float | None]) -> list[tuple[float, float | None]]:
    """Keep the smallest and the largest reading of each stretch of time, so that no peak is lost."""
    points = list(zip(offsets, readings, strict=True))
    if len(points) <= _MOST_POINTS:
        return points
    size = -(-len(points) // (_MOST_POINTS // 2))
    kept: list[tuple[float, float | None]] = []
    for start in range(0, len(points), size):
        stretch = [point for point in points[start : start + size] if point[1] is not None]
        if not stretch:
            kept.append((points[start][0], None))
            continue
        ends = {
            min(stretch, key=lambda point: point[1] or 0.0),
            max(stretch, key=lambda point: point[1] or 0.0),
        }
        kept.extend(sorted(ends, key=lambda point: point[0]))
    return kept


def _path(points: Sequence[tuple[float, float | None]], low: float, high: float) -> str:
    start, end = points[0][0], points[-1][0]
    width, height = WIDTH - 2 * _INSET, HEIGHT - 2 * _INSET
    commands = []
    pen_down = False
    for offset, value in points:
        if value is None:
            pen_down = False
            continue
        x = _INSET + (width * (offset - start) / (end - start) if end > start else width / 2)
        y = _INSET + (height * (high - value) / (high - low) if high > low else height / 2)
        commands.append(f"{'L' if pen_down else 'M'}{x:.1f} {y:.1f}")
        pen_down = True
    if len(commands) == 1:
        commands.append("h0.01")  # a single reading shows as a dot under round line caps
    return "".join(commands)
