"""Documents of kind `published`: made, checked, kept under the name of their id."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from rentbench.core.documents import write_document
from rentbench.core.errors import InvalidDocumentError
from rentbench.core.ids import slug
from rentbench.core.problems import listing
from rentbench.core.validation import check

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["Case", "Device", "Measured", "Reference", "Statistic", "keep"]

Statistic: TypeAlias = Literal["value", "mean", "median", "p90", "p95", "p99"]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One figure of a case.

    Attributes:
        metric: The suite's name of it, where a suite measures it.
        value: The figure.
        unit: One of the units of documents.
        statistic: What it is of its readings; `value` where that is not said, or it is of the whole run.
    """

    metric: str
    value: float
    unit: str
    statistic: Statistic = "value"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One point of a grid.

    Attributes:
        parameters: What makes it this point.
        status: `ok`, `partial`, `failed` or `out_of_memory`.
        note: What the source says about it.
        measurements: Its figures; none of those that are missing.
        costs: Money as it was printed: figure, `run_day` or `today`, value.
    """

    parameters: Mapping[str, str | float | bool | None]
    status: Literal["ok", "partial", "failed", "out_of_memory"] = "ok"
    note: str | None = None
    measurements: Sequence[Measured] = ()
    costs: Sequence[tuple[str, Literal["run_day", "today"], float]] = ()


@dataclass(frozen=True, kw_only=True)
class Device:
    """What it ran on, as far as the source says.

    Attributes:
        gpu_name: As the source calls it.
        gpu_count: How many.
        gpu_memory_gb: Memory of one.
        detail: Anything else.
    """

    gpu_name: str | None = None
    gpu_count: int | None = None
    gpu_memory_gb: float | None = None
    detail: str | None = None


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A document of kind `published`, before it is written.

    Attributes:
        label: `published` as printed by its authors, `imported` from another tool's output.
        title: What it is, in a line.
        suite: The suite whose metrics these are.
        source: Who says so.
        cases: Its figures.
        tool: What wrote the output that was read.
        sha256: Hash of the file that was read.
        run_date: Day of the run.
        device: What it ran on.
        model: What was run.
        software: Versions that the source names.
        price: Price on the run day, as a run freezes it.
        price_today: What the source shows as today's.
        notes: What a reader must know.
    """

    label: Literal["published", "imported"]
    title: str
    suite: str | None
    source: str
    cases: Sequence[Case]
    tool: str | None = None
    sha256: str | None = None
    run_date: str | None = None
    device: Device = field(default_factory=Device)
    model: str | None = None
    software: Mapping[str, str] = field(default_factory=dict)
    price: Mapping[str, Any] | None = None
    price_today: Mapping[str, Any] | None = None
    notes: Sequence[str] = ()

    @property
    def id(self) -> str:
        """Its name: the same figures from the same file have the same."""
        device = f"{self.device.gpu_count or ''} {self.device.gpu_name or ''}"
        named = slug(f"{self.label} {self.suite or ''} {device} {self.run_date or ''}")
        return f"{named}-{self.sha256[7:15]}" if self.sha256 else named

    def as_document(self) -> dict[str, Any]:
        """Return the document.

        Raises:
            InvalidDocumentError: It would break its schema or its rules.
        """
        document = {
            "document": "published",
            "schema_version": 1,
            "id": self.id,
            "label": self.label,
            "title": self.title,
            "suite": self.suite,
            "source": {"name": self.source, "tool": self.tool, "sha256": self.sha256},
            "run_date": self.run_date,
            "device": {
                "gpu_name": self.device.gpu_name,
                "gpu_count": self.device.gpu_count,
                "gpu_memory_gb": self.device.gpu_memory_gb,
                "detail": self.device.detail,
            },
            "model": self.model,
            "software": dict(self.software),
            "price": None if self.price is None else dict(self.price),
            "price_today": None if self.price_today is None else dict(self.price_today),
            "cases": [_case(case) for case in self.cases],
            "notes": list(self.notes),
        }
        problems = check(document, "published")
        if problems:
            msg = f"{self.source} cannot be imported: {listing(map(str, problems), limit=3)}"
            raise InvalidDocumentError(msg)
        return document


def keep(reference: Reference, folder: Path) -> Path:
    """Write a reference under its id, and never over another one.

    Raises:
        RentbenchError: It is there already, or cannot be written.
    """
    document = reference.as_document()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{document['id']}.json"
    write_document(path, document)
    return path


def _case(case: Case) -> dict[str, Any]:
    return {
        "parameters": dict(case.parameters),
        "status": case.status,
        "note": case.note,
        "measurements": [
            {"metric": one.metric, "statistic": one.statistic, "unit": one.unit, "value": one.value}
            for one in case.measurements
        ],
        "costs": [{"figure": figure, "price": price, "value": value} for figure, price, value in case.costs],
    }
