"""Figures from elsewhere: documents of kind `published`, shown with their label and ranked with nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rentbench.core.documents import read_bytes, read_document
from rentbench.core.errors import RentbenchError
from rentbench.core.schemas import kind_of
from rentbench.core.validation import check
from rentbench.report.format import MISSING, scalar, unit_text
from rentbench.report.model import Rejected

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from rentbench.core.manifests import SuiteManifest

__all__ = ["FOLDER", "Reference", "ReferenceTable", "load_references", "reference_table"]

FOLDER = "published"
_STATUS = {"out_of_memory": "out of memory", "failed": "failed", "partial": "partial", "ok": ""}
_PRICES = {"run_day": "at the run day's price", "today": "at the later price"}


@dataclass(frozen=True, kw_only=True)
class Reference:
    """One document from elsewhere.

    Attributes:
        raw: Its bytes, as they are offered for download.
        document: What they say; every text in it is untrusted.
    """

    raw: bytes
    document: Mapping[str, Any]

    @property
    def id(self) -> str:
        """Its name: lower-case letters, digits and dashes."""
        return str(self.document["id"])

    @property
    def suite(self) -> str | None:
        """The suite whose metrics these are; None where there is none."""
        suite: str | None = self.document["suite"]
        return suite

    @property
    def device(self) -> str:
        """What it ran on, in the source's own words."""
        device = self.document["device"]
        if device["detail"]:
            return str(device["detail"])
        if not device["gpu_name"]:
            return MISSING
        counted = f"{device['gpu_count']} × " if device["gpu_count"] else ""
        return f"{counted}{device['gpu_name']}"

    @property
    def prices(self) -> list[str]:
        """The prices behind its costs, each as a phrase."""
        return [
            f"{words}: {_price(self.document[key])}"
            for key, words in (("price", "price of the run day"), ("price_today", "the source's later price"))
            if self.document[key]
        ]


@dataclass(frozen=True, kw_only=True)
class ReferenceTable:
    """A reference's figures as text: one row a case.

    Attributes:
        columns: Their titles: first parameters, then figures, last the note where there is one.
        rows: As many texts as there are columns.
        parameters: How many columns are parameters.
        has_notes: Whether the last column is the note.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    parameters: int
    has_notes: bool

    def is_figure(self, column: int) -> bool:
        """Say whether a column holds figures."""
        return self.parameters <= column < len(self.columns) - self.has_notes


def load_references(root: Path, rejected: list[Rejected]) -> list[Reference]:
    """Return what lies in the folder `published` of a collection; what cannot be used goes to `rejected`."""
    found = []
    folder = root / FOLDER
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        name = f"{FOLDER}/{path.name}"
        try:
            raw = read_bytes(path, source=name)
            document = read_document(raw, source=name)
            kind = kind_of(document)
            problems = [str(problem) for problem in check(document, "published")] if kind == FOLDER else []
        except RentbenchError as error:
            rejected.append(Rejected(path=name, reason=error.message.removeprefix(f"{name} ")))
            continue
        if kind != FOLDER:
            problems = [f"is a {kind}, not a {FOLDER}"]
        elif path.stem != document.get("id"):
            problems = problems or [f"its name is not its id, {document['id']}"]
        if problems:
            rejected.append(Rejected(path=name, reason=problems[0]))
            continue
        found.append(Reference(raw=raw, document=document))
    return found


def reference_table(reference: Reference, manifest: SuiteManifest | None) -> ReferenceTable:
    """Return a reference's figures: parameters, metrics and money in the order in which they come up.

    Args:
        reference: Whose cases.
        manifest: Gives metrics their titles; None where no suite of ours has them.
    """
    cases = reference.document["cases"]
    parameters = list(dict.fromkeys(name for case in cases for name in case["parameters"]))
    measured = list(dict.fromkeys(_measured(one) for case in cases for one in case["measurements"]))
    costs = list(dict.fromkeys((cost["figure"], cost["price"]) for case in cases for cost in case["costs"]))
    notes = any(case["note"] or _STATUS[case["status"]] for case in cases)
    columns = [
        *(name.replace("_", " ") for name in parameters),
        *(_title(metric, statistic, unit, manifest) for metric, statistic, unit in measured),
        *(f"{figure.replace('_', ' ')}, {_PRICES[price]}" for figure, price in costs),
        *(["note"] if notes else []),
    ]
    rows = [tuple(_cells(case, parameters, measured, costs, notes=notes)) for case in cases]
    return ReferenceTable(
        columns=tuple(columns), rows=tuple(rows), parameters=len(parameters), has_notes=notes
    )


def _cells(
    case: Mapping[str, Any],
    parameters: list[str],
    measured: list[tuple[str, str, str]],
    costs: list[tuple[str, str]],
    *,
    notes: bool,
) -> Iterator[str]:
    for name in parameters:
        value = case["parameters"].get(name)
        yield MISSING if value is None else scalar(value)
    values = {_measured(one): one["value"] for one in case["measurements"]}
    for key in measured:
        yield _as_printed(values[key]) if key in values else MISSING
    printed = {(cost["figure"], cost["price"]): cost["value"] for cost in case["costs"]}
    for figure in costs:
        yield _money(printed[figure]) if figure in printed else MISSING
    if notes:
        yield "; ".join(text for text in (_STATUS[case["status"]], case["note"] or "") if text)


def _as_printed(value: float) -> str:
    """Return a figure with all of its digits and no more: they are part of what was published."""
    return f"{value:,}"


def _money(value: float) -> str:
    """Return an amount with its digits, two decimals at least."""
    return f"{value:,.2f}" if value == round(value, 2) else _as_printed(value)


def _measured(one: Mapping[str, Any]) -> tuple[str, str, str]:
    return one["metric"], one["statistic"], one["unit"]


def _title(metric: str, statistic: str, unit: str, manifest: SuiteManifest | None) -> str:
    known = manifest.metrics.get(metric) if manifest else None
    title = known.title if known else metric.replace("_", " ")
    which = "" if statistic == "value" else f" ({statistic})"
    shown = unit_text(unit)
    return f"{title}{which}, {shown}" if shown else f"{title}{which}"


def _price(price: Mapping[str, Any]) -> str:
    gpus = price["gpu_count"]
    whole = f" for {gpus} GPUs" if price["per"] == "machine-hour" and gpus else ""
    machine = f" on a machine with {gpus} GPUs" if price["per"] == "gpu-hour" and (gpus or 1) > 1 else ""
    per = price["per"].replace("1M-tokens", "1M tokens")
    day = price["retrieved_at"][:10]
    return f"{price['amount']} {price['currency']} per {per}{whole}{machine} ({day})"
