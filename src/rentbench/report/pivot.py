"""Parts of one case each, set together in one table: a line for each metric, a column for each device."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rentbench.core.ids import slug
from rentbench.report.tables import apart_text, case_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rentbench.core.manifests import Metric, SuiteManifest
    from rentbench.report.model import Case, Figure, Result
    from rentbench.report.tables import Part

__all__ = ["Cell", "Line", "Pivot", "pivots"]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A device's figure; `case` is None where the device never ran the case, `figure` where it gave none."""

    result: Result
    case: Case | None
    figure: Figure | None


@dataclass(frozen=True, kw_only=True)
class Line:
    """One metric of one case; `metric` is None where no device gave a figure for the case."""

    case: str
    metric: Metric | None
    cells: tuple[Cell, ...]


@dataclass(frozen=True, kw_only=True)
class Pivot:
    """A table of lines by device, of which none is kept apart from another."""

    key: str
    title: str
    results: tuple[Result, ...]
    lines: tuple[Line, ...]


def pivots(parts: Sequence[Part], manifest: SuiteManifest) -> tuple[list[Pivot], list[Part]]:
    """Return the tables that small parts make together, by what is kept apart, and the parts that stay.

    A part is small where nothing varies but the device. A single small part stays as it is.

    Args:
        parts: Of one group, as `tables.parts` gives them.
        manifest: Of the suite.
    """
    by_apart: dict[str, list[Part]] = {}
    for part in parts:
        if not part.varying:
            by_apart.setdefault(apart_text(part.apart), []).append(part)
    made = []
    merged: set[str] = set()
    for apart, small in by_apart.items():
        if len(small) > 1:
            merged.update(part.key for part in small)
            made.append(_pivot(f"Figures{apart}", small, manifest))
    rest = [part for part in parts if part.key not in merged]
    if rest:
        made = [replace(pivot, title=f"Other {pivot.title.lower()}") for pivot in made]
    return made, rest


def _pivot(title: str, parts: Sequence[Part], manifest: SuiteManifest) -> Pivot:
    results = {row.result.id: row.result for part in parts for row in part.rows}
    return Pivot(
        key=slug(title),
        title=title,
        results=tuple(results.values()),
        lines=tuple(line for part in parts for line in _lines(part, tuple(results.values()), manifest)),
    )


def _lines(part: Part, results: Sequence[Result], manifest: SuiteManifest) -> list[Line]:
    cases = {row.result.id: row.case for row in part.rows}
    others = {name: value for name, value in part.fixed.items() if name not in part.apart}
    words = case_text(others, manifest) or part.title
    lines = []
    for metric in part.metrics or (None,):
        cells = [
            Cell(
                result=result,
                case=(case := cases.get(result.id)),
                figure=case.figures.get(metric.name) if case and metric and case.status == "ok" else None,
            )
            for result in results
        ]
        lines.append(Line(case=words, metric=metric, cells=tuple(cells)))
    return lines
