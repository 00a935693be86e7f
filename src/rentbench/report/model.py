"""What the site knows of each result: small, flat and frozen, so that ten thousand of them fit in memory.

The two documents themselves are read again when a result's page is written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rentbench.core.manifests import Scalar

__all__ = ["Case", "Collection", "Concern", "Device", "Failure", "Figure", "Rejected", "Result", "Sources"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One metric of one case, over its independent repeats; numbers as the document holds them."""

    metric: str
    unit: str
    direction: str
    median: float
    mean: float
    n: int
    stdev: float | None
    ci95: tuple[float, float] | None
    values: tuple[float, ...]

    @property
    def plain_median(self) -> float:
        """The median, as an integer where every value is whole, as a count or a sensor's reading is."""
        whole = all(float(value).is_integer() for value in (self.median, *self.values))
        return int(self.median) if whole else self.median


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """What went wrong: a kind of the closed list, and the first words about it."""

    kind: str
    message: str
    hint: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One point of the parameter grid, with what was measured there or why nothing was."""

    index: int
    parameters: Mapping[str, Scalar]
    status: str
    failure: Failure | None
    reason: str | None
    figures: Mapping[str, Figure]
    peak_memory_bytes: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """What the work ran on, as results are compared by it.

    Attributes:
        key: Equal for equal devices: canonical model (or the raw name's folder name), slice and count.
        title: For readers, such as `8 × H200 SXM 141 GB`; untrusted where the model is not in the table.
        models: Keys of the GPU models, without number and slice; empty on a CPU.
        count: Number of GPUs; 0 on a CPU.
        slice: MIG profile, or empty.
        vgpu: Whether any of the GPUs is a virtual one.
    """

    key: str
    title: str
    models: frozenset[str]
    count: int
    slice: str
    vgpu: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Concern:
    """A validity check that failed."""

    name: str
    severity: str
    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Sources:
    """The files behind a result; folders are relative to the collection.

    Attributes:
        hashes: sha256 of the documents' bytes as they were checked, by file name.
    """

    root: Path
    folder: str
    measurement: str | None
    run: str | None
    run_note: str | None
    hashes: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """The result's folder."""
        return self.root / self.folder


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """One run of one suite on one host.

    Attributes:
        container: The container's options in force, as the run document holds them.
    """

    id: str
    sources: Sources
    suite: str
    suite_version: str | None
    preset: str
    status: str
    failure: Failure | None
    started: str | None
    finished: str | None
    runner: str | None
    device: Device | None
    seed: int | None
    repeats: int | None
    settings: Mapping[str, Scalar]
    weights: str | None
    software: Mapping[str, str]
    driver_version: str | None
    cases: tuple[Case, ...]
    concerns: tuple[Concern, ...]
    recipe_id: str | None
    image_reference: str | None
    image_digest: str | None
    container: Mapping[str, Any] | None
    provider: str | None
    price_recorded: bool

    @property
    def is_demo(self) -> bool:
        """Whether it proves the path and nothing else: smoke's sizes say nothing about a device."""
        return self.preset == "smoke"

    @property
    def measured(self) -> bool:
        """Whether it holds figures that may be compared: a case is ok, and no hard check failed."""
        return self.status in ("ok", "partial") and any(case.status == "ok" for case in self.cases)

    @property
    def verdict(self) -> str:
        """The verdict of the run: `pass`, `warn`, `fail`, or `skipped`.

        `fail` where it gave no figure that may be used or a hard check failed, `warn` where a soft check or
        some of the cases failed.
        """
        failed = {concern.severity for concern in self.concerns}
        if self.status in ("failed", "invalid") or "hard" in failed:
            return "fail"
        if self.status == "skipped":
            return "skipped"
        return "warn" if failed or self.status == "partial" else "pass"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rejected:
    """A file that is not on the site, and why; the path is relative to the collection."""

    path: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Collection:
    """Everything that was found in a folder of results, newest first."""

    results: tuple[Result, ...]
    rejected: tuple[Rejected, ...]
