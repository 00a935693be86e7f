"""Every document under some paths, with what is wrong with each: what `rentbench validate` shows."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rentbench.core.problems import Problem, show
from rentbench.core.run_versions import run_version
from rentbench.core.validation import Report, check_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rentbench.core.schemas import Kind

__all__ = ["validate_paths"]

_NAMED = ("measurement.json", "suite.toml", "image.toml")


def validate_paths(paths: Iterable[Path]) -> Iterator[Report]:
    """Yield a report of each document in files and folders, as they are found.

    A folder is searched to its end, but not through links and not in hidden folders: for `measurement.json`,
    `run.json` and its later versions, `suite.toml`, `image.toml`, and other JSON files that say they are a
    document. What a measurement lists as its artifacts is no document. An id that was seen before is a fault,
    except among the versions of one run.
    """
    seen_files: set[str] = set()
    seen_ids: dict[tuple[Kind, str], str] = {}
    for report in chain.from_iterable(map(_validate_path, paths)):
        folder, name = os.path.split(report.source)
        location = os.path.join(os.path.realpath(folder), name)  # noqa: PTH118 - a link must stay one
        if location not in seen_files:
            seen_files.add(location)
            yield _with_unique_id(report, seen_ids)


def _validate_path(path: Path) -> Iterator[Report]:
    if not os.path.isdir(path):  # noqa: PTH112 - Path.is_dir raises where it may not look
        yield check_file(path)
        return
    found = False
    for report in _validate_folder(path):
        found = True
        yield report
    if not found:
        yield Report(source=str(path), unusable=f"{path} holds no documents")


def _validate_folder(root: Path) -> Iterator[Report]:
    unreadable: list[OSError] = []
    for place, folders, files in os.walk(root, onerror=unreadable.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        artifacts: set[str] = set()
        # A measurement comes first: it says which files beside it are its raw outputs.
        for name in sorted(files, key=lambda name: (name != "measurement.json", name)):
            if name in artifacts or not (_is_named(name) or (name.endswith(".json") and name[0] != ".")):
                continue
            report = check_file(Path(place, name))
            if name == "measurement.json" and report.document is not None:
                artifacts = _artifact_names(report.document)
            if _is_named(name) or not _says_nothing(report):
                yield report
    for error in unreadable:
        message = f"{error.filename} cannot be searched: {error.strerror}"
        yield Report(source=str(error.filename), unusable=message)


def _is_named(name: str) -> bool:
    """Say whether a file must be a document, by its name."""
    return name in _NAMED or run_version(name) is not None


def _says_nothing(report: Report) -> bool:
    """Say whether a JSON file does not even claim to be a document of ours."""
    return report.kind is None and report.document is not None and "document" not in report.document


def _artifact_names(measurement: Mapping[str, Any]) -> set[str]:
    """Return the names of a measurement's artifacts; the document may be anything."""
    artifacts = measurement.get("artifacts")
    entries = artifacts if isinstance(artifacts, list) else []
    names = (entry.get("name") for entry in entries if isinstance(entry, dict))
    return {name for name in names if isinstance(name, str) and not _is_named(name)}


def _with_unique_id(report: Report, seen: dict[tuple[Kind, str], str]) -> Report:
    identifier = report.document.get("id") if report.document is not None else None
    if report.kind is None or not isinstance(identifier, str):
        return report
    first = seen.setdefault((report.kind, identifier), report.source)
    if first == report.source or _versions_of_one_run(first, report.source):
        return report
    problem = Problem(
        pointer="/id", message=f"is {show(identifier)}, which {first} has too", allowed="an id of its own"
    )
    return replace(report, problems=(*report.problems, problem))


def _versions_of_one_run(first: str, second: str) -> bool:
    """Say whether two files are versions of one run; whether they follow each other is checked elsewhere."""
    (one, name), (other, other_name) = os.path.split(first), os.path.split(second)
    return one == other and run_version(name) is not None and run_version(other_name) is not None
