"""The static data beside the pages: an index, every figure as JSON and CSV, and each result's own files.

`report/pages/data.md` documents it for readers; the two change together.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from rentbench.core.documents import read_bytes, sha256_bytes
from rentbench.core.errors import UnusableInputError
from rentbench.report.text import safe_cell

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rentbench.report.model import Result
    from rentbench.report.site import Site

__all__ = [
    "FORMAT",
    "MAX_ARTIFACT_BYTES",
    "Published",
    "figure_rows",
    "index",
    "write_data",
    "write_result_files",
]

FORMAT = 1
MAX_ARTIFACT_BYTES = 2 * 1024 * 1024
_SHOWN_AS_TEXT = {".txt", ".log", ".json", ".jsonl", ".csv"}
_COLUMNS = (
    "result", "suite", "suite_version", "preset", "status", "started", "runner", "device", "gpus",
    "mig_slice", "vgpu", "weights", "case", "parameters", "case_status", "error_kind", "reason",
    "metric", "unit", "direction", "n", "median", "mean", "stdev", "ci95_low", "ci95_high",
    "peak_memory_bytes",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Published:
    """What became of a result's artifacts.

    Attributes:
        files: The name of the copy, by the artifact's name.
        reasons: Why there is no copy, by the artifact's name.
    """

    files: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)


def write_data(site: Site, folder: Path) -> None:
    """Write the index, all results, one file a suite, and the documents from elsewhere below `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "suites").mkdir(exist_ok=True)
    _write_json(folder / "index.json", index(site))
    rows = [row for result in site.collection.results for row in figure_rows(result)]
    _write_json(folder / "results.json", {"format": FORMAT, "rows": rows})
    (folder / "results.csv").write_text(_csv(rows), encoding="utf-8", newline="")
    if site.references:
        (folder / "published").mkdir(exist_ok=True)
    for reference in site.references:
        (folder / "published" / f"{reference.id}.json").write_bytes(reference.raw)
    for name in site.suites:
        of_suite = [row for row in rows if row["suite"] == name]
        _write_json(folder / "suites" / f"{name}.json", {"format": FORMAT, "suite": name, "rows": of_suite})


def write_result_files(result: Result, artifacts: Sequence[dict[str, Any]], folder: Path) -> Published:
    """Copy a result's documents and its smaller artifacts; return which are there, and why others are not.

    A file that a browser could run (HTML, SVG, XML) gets `.txt` behind its name, so that it is shown as text;
    and once more where another artifact has that name. An artifact need not lie beside its result: large ones
    are often kept elsewhere.

    Args:
        result: Whose files.
        artifacts: The measurement's `artifacts`, checked when it was loaded.
        folder: Made if it is not there.

    Raises:
        UnusableInputError: A document cannot be read any more.
    """
    folder.mkdir(parents=True, exist_ok=True)
    documents = [name for name in (result.sources.measurement, result.sources.run) if name is not None]
    for name in documents:
        (folder / name).write_bytes(read_bytes(result.sources.path / name))
    published = Published()
    taken = {*documents, *(artifact["name"] for artifact in artifacts)}
    for artifact in artifacts:
        name = artifact["name"]
        if name in documents:
            continue
        content = _artifact(result.sources.path / name, artifact)
        if isinstance(content, str):
            published.reasons[name] = content
            continue
        shown = name
        if Path(name).suffix not in _SHOWN_AS_TEXT:
            while shown in taken:
                shown += ".txt"
            taken.add(shown)
        (folder / shown).write_bytes(content)
        published.files[name] = shown
    return published


def index(site: Site) -> dict[str, Any]:
    """Return what the site holds: suites, results with the places of their pages and files, refused files."""
    return {
        "format": FORMAT,
        "generator": f"rentbench {site.version}",
        "built": site.built,
        "suites": [
            {
                "name": suite.manifest.name,
                "version": suite.manifest.version,
                "title": suite.manifest.title,
                "category": suite.manifest.category,
                "page": f"suites/{suite.manifest.name}.html",
                "data": f"data/suites/{suite.manifest.name}.json",
                "results": len(suite.results),
                "headline": [
                    {
                        "result": standing.result.id,
                        "device": standing.result.device.title if standing.result.device else None,
                        "case": dict(standing.case.parameters),
                        "metric": standing.figure.metric,
                        "unit": standing.figure.unit,
                        "median": standing.figure.median,
                        "n": standing.figure.n,
                        "ci95": standing.figure.ci95,
                    }
                    for standing in suite.standings
                ],
            }
            for suite in site.suites.values()
        ],
        "results": [
            {
                "id": result.id,
                "suite": result.suite,
                "preset": result.preset,
                "status": result.status,
                "started": result.started,
                "device": result.device.title if result.device else None,
                "page": f"results/{result.id}.html",
                "measurement": f"data/results/{result.id}/{name}"
                if (name := result.sources.measurement)
                else None,
                "run": f"data/results/{result.id}/{run}" if (run := result.sources.run) else None,
            }
            for result in site.collection.results
        ],
        "published": [
            {
                "id": reference.id,
                "label": reference.document["label"],
                "suite": reference.suite,
                "document": f"data/published/{reference.id}.json",
            }
            for reference in site.references
        ],
        "left_out": [{"path": item.path, "reason": item.reason} for item in site.collection.rejected],
    }


def figure_rows(result: Result) -> Iterator[dict[str, Any]]:
    """Yield one row for each figure of a result, and one for each case or result that has none."""
    base = {
        "result": result.id,
        "suite": result.suite,
        "suite_version": result.suite_version,
        "preset": result.preset,
        "status": result.status,
        "started": result.started,
        "runner": result.runner,
        "device": result.device.title if result.device else None,
        "gpus": result.device.count if result.device else None,
        "mig_slice": result.device.slice or None if result.device else None,
        "vgpu": result.device.vgpu if result.device else None,
        "weights": result.weights,
    }
    for case in result.cases:
        failure = case.failure
        of_case = base | {
            "case": case.index,
            "parameters": dict(case.parameters),
            "case_status": case.status,
            "error_kind": failure.kind if failure else None,
            "reason": failure.message if failure else case.reason,
            "peak_memory_bytes": case.peak_memory_bytes,
        }
        for figure in case.figures.values():
            low, high = figure.ci95 or (None, None)
            yield _row(
                of_case,
                metric=figure.metric,
                unit=figure.unit,
                direction=figure.direction,
                n=figure.n,
                median=figure.median,
                mean=figure.mean,
                stdev=figure.stdev,
                ci95_low=low,
                ci95_high=high,
            )
        if not case.figures:
            yield _row(of_case)
    if not result.cases:
        failure = result.failure
        reason = failure.message if failure else None
        yield _row(base, error_kind=failure.kind if failure else None, reason=reason)


def _artifact(path: Path, entry: dict[str, Any]) -> bytes | str:
    """Return an artifact's content, or why it is not published."""
    if entry["bytes"] > MAX_ARTIFACT_BYTES:
        return "too large for the site" if path.is_file() else "not beside the result"
    try:
        content = read_bytes(path)
    except UnusableInputError:
        return "not beside the result"
    return content if sha256_bytes(content) == entry["sha256"] else "changed while the site was built"


def _row(known: dict[str, Any], **more: object) -> dict[str, Any]:
    return {column: more.get(column, known.get(column)) for column in _COLUMNS}


def _csv(rows: Iterable[dict[str, Any]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow(_COLUMNS)
    writer.writerows([_cell(row[column]) for column in _COLUMNS] for row in rows)
    return buffer.getvalue()


def _cell(value: object) -> str | int | float:
    """Return a cell's content; numbers stay numbers, so a minus sign is no formula there."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return value
    if isinstance(value, dict):
        return safe_cell("; ".join(f"{name}={item}" for name, item in value.items()))
    return safe_cell(str(value))


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_bytes(orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE))
