"""What may stand side by side: results are grouped by everything that makes two figures unlike each other.

Only the device differs inside a group. Precision, sizes and the other case parameters are kept apart by the
tables, which compare equal cases only.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rentbench.report.model import Figure, Result

__all__ = ["Group", "Likeness", "group", "labels", "within_noise"]

_PRESETS = {"standard": 0, "full": 1, "smoke": 2}
_RUNNERS = {"container": 0, "driver": 0, "process": 1}
NOISE_OF_SINGLE_RUNS = 0.10


@dataclass(frozen=True, kw_only=True)
class Likeness:
    """What two results share before their figures may be compared."""

    preset: str
    suite_version: str
    runner: str
    gpus: int
    slice: str
    vgpu: bool
    weights: str | None
    settings: str

    @classmethod
    def of(cls, result: Result) -> Likeness:
        """Return what a result must share with another one; it holds a measurement."""
        if result.device is None or result.suite_version is None or result.runner is None:
            msg = f"{result.id} has no measurement"
            raise ValueError(msg)
        return cls(
            preset=result.preset,
            suite_version=result.suite_version,
            runner=result.runner,
            gpus=result.device.count,
            slice=result.device.slice,
            vgpu=result.device.vgpu,
            weights=result.weights,
            settings=json.dumps(result.settings, sort_keys=True),
        )

    @property
    def is_demo(self) -> bool:
        """Whether the group proves the path only."""
        return self.preset == "smoke"


@dataclass(frozen=True, kw_only=True)
class Group:
    """Results that differ in their device and day only.

    Attributes:
        likeness: What they share.
        current: The newest result of each device that has figures, by device.
        without_figures: The newest result of each device that never gave a figure, by device.
        older: All others, newest first.
    """

    likeness: Likeness
    current: tuple[Result, ...]
    without_figures: tuple[Result, ...]
    older: tuple[Result, ...]


def group(results: Iterable[Result]) -> list[Group]:
    """Return the results that hold a measurement, in groups; the group that speaks for the suite comes first.

    Published presets come before smoke, runs in an image before runs outside, newer suite versions before
    older ones, few GPUs before many.

    Args:
        results: Of one suite, newest first.
    """
    members: dict[Likeness, list[Result]] = defaultdict(list)
    for result in results:
        if result.device is not None:
            members[Likeness.of(result)].append(result)
    groups = [_group(likeness, found) for likeness, found in members.items()]
    return sorted(groups, key=_preference)


def labels(result: Result) -> list[tuple[str, str]]:
    """Return what a reader must know before believing a result's figures, as (word, explanation)."""
    found = []
    if result.is_demo:
        found.append(
            (
                "Demo run",
                "The smoke preset proves that everything works; its sizes say nothing about a device.",
            )
        )
    if result.runner == "process":
        found.append(
            ("Outside an image", "It ran as a plain process: the software is recorded, but no image pins it.")
        )
    if result.weights == "random":
        found.append(
            ("Random weights", "Full-size model without trained weights: speed is real, answers are not.")
        )
    if result.device and result.device.slice:
        found.append((f"MIG {result.device.slice}", "A slice of a GPU, compared with equal slices only."))
    if result.device and result.device.vgpu:
        found.append(("vGPU", "A virtual GPU, compared with virtual GPUs only."))
    return found


def within_noise(one: Figure, other: Figure) -> bool:
    """Say whether two figures of equal cases are too close to call.

    With 95 % intervals on both sides: the intervals overlap. Without: the medians differ by less than 10 %.
    """
    if one.ci95 and other.ci95:
        return one.ci95[0] <= other.ci95[1] and other.ci95[0] <= one.ci95[1]
    larger = max(abs(one.median), abs(other.median))
    return larger == 0 or abs(one.median - other.median) / larger < NOISE_OF_SINGLE_RUNS


def _group(likeness: Likeness, results: Sequence[Result]) -> Group:
    newest: dict[str, Result] = {}
    for result in results:
        key = result.device.key if result.device else ""
        standing = newest.get(key)
        if standing is None or (result.measured and not standing.measured):
            newest[key] = result
    chosen = sorted(newest.values(), key=lambda result: result.device.title if result.device else "")
    kept = {result.id for result in chosen}
    return Group(
        likeness=likeness,
        current=tuple(result for result in chosen if result.measured),
        without_figures=tuple(result for result in chosen if not result.measured),
        older=tuple(result for result in results if result.id not in kept),
    )


def _preference(group: Group) -> tuple[object, ...]:
    likeness = group.likeness
    version = tuple(-int(part) for part in likeness.suite_version.split("."))
    return (
        _PRESETS[likeness.preset],
        not group.current,
        _RUNNERS[likeness.runner],
        version,
        likeness.vgpu,
        bool(likeness.slice),
        likeness.gpus,
        likeness.weights or "",
        likeness.settings,
    )
