"""Validation: strict reading, then the schema, then what no schema can say, then what lies beside it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from rentbench.core.documents import read_document, read_toml, unfit
from rentbench.core.errors import InvalidDocumentError, UnusableInputError
from rentbench.core.folder_rules import measurement_folder_problems, run_folder_problems
from rentbench.core.manifest_rules import manifest_problems
from rentbench.core.manifests import SuiteManifest, load_suites
from rentbench.core.price_rules import price_problems
from rentbench.core.problems import Problem, show
from rentbench.core.published_rules import published_problems
from rentbench.core.reproduction_rules import reproduction_problems
from rentbench.core.resources import resources_root
from rentbench.core.run_versions import run_version, version_problems
from rentbench.core.schemas import SAID, Kind, kind_of
from rentbench.core.semantics import measurement_problems, run_problems
from rentbench.core.structure import MAX_PROBLEMS, schema_problems
from rentbench.core.upgrade import CURRENT, is_old

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = ["Problem", "Report", "check", "check_bytes", "check_file"]

# What a file must be, by its name; any other says itself what it is.
_KIND_OF_NAME: dict[str, Kind] = {
    "measurement.json": "measurement",
    "suite.toml": "suite",
    "image.toml": "image",
}


@dataclass(frozen=True, kw_only=True)
class Report:
    """What validation found about one file, or about a folder that could not be used.

    Attributes:
        source: The path as it was given or found.
        kind: What kind of document it is; None where that could not be told.
        problems: Its faults.
        unusable: Why it could not be read at all; None where it could.
        document: What was read, for the caller to go on with; None where nothing was.
    """

    source: str
    kind: Kind | None = None
    problems: tuple[Problem, ...] = ()
    unusable: str | None = None
    document: dict[str, Any] | None = None

    @property
    def valid(self) -> bool:
        """Whether the document can be used as it is."""
        return self.unusable is None and not self.problems


def check(
    document: Mapping[str, Any], kind: Kind, *, folder: Path | None = None, source: str = "PATH"
) -> list[Problem]:
    """Return what is wrong with a document, at most `MAX_PROBLEMS`; empty when it is valid.

    Args:
        document: As it was read, or as it is to be written; nothing about it is trusted.
        kind: What it must be.
        folder: Where it lies: then hashes, sizes, the cited measurement and the path are checked too.
        source: What the hint for an old document calls it.

    Raises:
        DependencyMissingError: No validator is installed.
        UnusableInputError: The installation lacks the schema.
    """
    problem = unfit(document)
    return [problem] if problem else _problems(document, kind, folder, source)


def check_bytes(raw: bytes, *, source: str, folder: Path | None = None) -> Report:
    """Return what validation finds about the content of a JSON file.

    Args:
        raw: The content.
        source: What messages call it.
        folder: As in `check`.
    """
    try:
        document = read_document(raw, source=source)
    except UnusableInputError as error:
        return Report(source=source, unusable=error.message)
    return _report(document, source, None, folder)


def check_file(path: Path) -> Report:
    """Return what validation finds about a file, by its name, its content and what lies beside it."""
    source = str(path)
    kind: Kind | None = "run" if run_version(path.name) else _KIND_OF_NAME.get(path.name)
    try:
        document = read_toml(path) if path.suffix == ".toml" else read_document(path)
    except UnusableInputError as error:
        return Report(source=source, kind=kind, unusable=error.message)
    # A manifest belongs to its folder only under its own name.
    folder = None if path.suffix == ".toml" and kind is None else path.parent
    report = _report(document, source, kind, folder)
    if report.kind == "run" and report.valid:
        report = replace(report, problems=tuple(version_problems(document, path)))
    return report


def _report(document: dict[str, Any], source: str, kind: Kind | None, folder: Path | None) -> Report:
    try:
        kind = kind or kind_of(document)
    except InvalidDocumentError as error:
        problem = Problem(pointer="/document", message=f"is not known: {error}", allowed=", ".join(SAID))
        return Report(source=source, problems=(problem,), document=document)
    problems = _problems(document, kind, folder, source)
    return Report(source=source, kind=kind, problems=tuple(problems), document=document)


def _problems(document: Mapping[str, Any], kind: Kind, folder: Path | None, source: str) -> list[Problem]:
    """Return what is wrong with a document that is fit: one that was read, or that `check` looked at."""
    problem = _version_problem(document, kind, source)
    if problem:
        return [problem]
    problems = schema_problems(document, kind)
    if problems:
        return problems  # the rules below may rely on the schema
    problems = list(islice(_semantic_problems(document, kind), MAX_PROBLEMS))
    if folder is not None and not problems:
        problems = list(islice(_folder_problems(document, kind, folder), MAX_PROBLEMS))
    return problems


def _version_problem(document: Mapping[str, Any], kind: Kind, source: str) -> Problem | None:
    version = document.get("schema_version")
    if is_old(document, kind):
        command = f"rentbench upgrade {shlex.quote(source)}"
        return Problem(
            pointer="/schema_version",
            message=f"is {show(version)}, an older version of the format; to upgrade: {command}",
            allowed=str(CURRENT[kind]),
        )
    if type(version) is int and version > CURRENT[kind]:
        return Problem(
            pointer="/schema_version",
            message=f"is {show(version)}, newer than this rentbench",
            allowed=str(CURRENT[kind]),
        )
    return None


def _semantic_problems(document: Mapping[str, Any], kind: Kind) -> Iterator[Problem]:
    if kind == "measurement":
        return measurement_problems(document, _known_suites(resources_root()))
    if kind == "run":
        return run_problems(document)
    if kind == "prices":
        return price_problems(document)
    if kind == "published":
        return published_problems(document)
    if kind == "reproduction":
        return reproduction_problems(document)
    return iter(manifest_problems(document, kind))


def _folder_problems(document: Mapping[str, Any], kind: Kind, folder: Path) -> Iterator[Problem]:
    if kind == "measurement":
        return measurement_folder_problems(document, folder)
    if kind == "run":
        return run_folder_problems(document, folder)
    if kind == "prices" or kind == "published" or kind == "reproduction":
        return iter(())  # they stand alone
    return iter(manifest_problems(document, kind, folder=folder))


@lru_cache(maxsize=4)
def _known_suites(_: Path) -> Mapping[str, SuiteManifest]:
    """Return the suites under a root, once; none where a manifest is broken: its users tell that."""
    try:
        return load_suites()
    except (InvalidDocumentError, UnusableInputError):
        return {}
