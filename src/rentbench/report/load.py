"""Reading a folder of results: each document is untrusted, checked, flattened; a bad one stops no other."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rentbench.core.documents import read_bytes, read_document, sha256_bytes
from rentbench.core.errors import RentbenchError, UnusableInputError
from rentbench.core.run_versions import run_version
from rentbench.core.schemas import Kind, kind_of
from rentbench.core.validation import check
from rentbench.report.flatten import flatten
from rentbench.report.model import Collection, Rejected, Result, Sources

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Documents", "load", "read_again"]

Documents = tuple[dict[str, Any] | None, dict[str, Any] | None]
MEASUREMENT = "measurement.json"


def load(root: Path) -> Collection:
    """Return every result below a folder, and every file that was refused.

    A folder that is not there is an empty collection: a site without results is a site.

    Args:
        root: The collection's folder, `<suite>/<gpu>/<UTC>-<id>/` below it.
    """
    rejected: list[Rejected] = []
    results: dict[str, Result] = {}
    for folder, names in _folders(root):
        result = _result(root, folder, names, rejected)
        if result is None:
            continue
        other = results.setdefault(result.id, result)
        if other is not result:
            reason = f"has the same id as {other.sources.folder}"
            rejected.append(Rejected(path=result.sources.folder, reason=reason))
    newest_first = sorted(
        results.values(), key=lambda result: (result.started or "", result.id), reverse=True
    )
    return Collection(
        results=tuple(newest_first), rejected=tuple(sorted(rejected, key=lambda item: item.path))
    )


def read_again(result: Result) -> Documents:
    """Return the measurement and the run behind a result, as they were read and checked before.

    Raises:
        UnusableInputError: A file changed or vanished since.
    """
    sources = result.sources
    return _again(sources, sources.measurement), _again(sources, sources.run)


def _again(sources: Sources, name: str | None) -> dict[str, Any] | None:
    if name is None:
        return None
    raw = read_bytes(sources.path / name, source=f"{sources.folder}/{name}")
    if sha256_bytes(raw) != sources.hashes.get(name):
        msg = f"{sources.folder}/{name} changed while the site was built"
        raise UnusableInputError(msg, hint="build the site again")
    return read_document(raw, source=name)


def _folders(root: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yield every folder below `root` that holds documents; links are not followed."""
    for path, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        documents = sorted(name for name in files if name == MEASUREMENT or run_version(name) is not None)
        if documents:
            yield Path(path), documents


def _result(root: Path, folder: Path, names: list[str], rejected: list[Rejected]) -> Result | None:
    relative = folder.relative_to(root).as_posix()
    measurement, measurement_hash = None, None
    if MEASUREMENT in names:
        read = _read(folder / MEASUREMENT, f"{relative}/{MEASUREMENT}", "measurement", rejected)
        if read is None:
            return None  # the run beside it cites a document that nobody can trust
        measurement, measurement_hash = read
    run_name, run, run_hash, run_note = _newest_run(
        folder, relative, [name for name in names if run_version(name) is not None], rejected
    )
    if measurement is None and run is None:
        return None
    if run is not None and measurement is None and run["measurement"] is not None:
        reason = f"cites measurement {run['measurement']['id']}, which is not beside it"
        rejected.append(Rejected(path=f"{relative}/{run_name}", reason=reason))
        return None
    if (
        run is not None
        and measurement is not None
        and (run["measurement"] or {}).get("sha256") != measurement_hash
    ):
        reason = f"does not cite the {MEASUREMENT} beside it"
        rejected.append(Rejected(path=f"{relative}/{run_name}", reason=reason))
        run_name, run, run_note = None, None, f"{run_name} was left out: it {reason}"
    sources = Sources(
        root=root,
        folder=relative,
        measurement=MEASUREMENT if measurement is not None else None,
        run=run_name,
        run_note=run_note,
        hashes={
            name: digest
            for name, digest in ((MEASUREMENT, measurement_hash), (run_name, run_hash))
            if name is not None and digest is not None
        },
    )
    return flatten(measurement, run, sources)


def _read(path: Path, name: str, kind: Kind, rejected: list[Rejected]) -> tuple[dict[str, Any], str] | None:
    try:
        raw = read_bytes(path, source=name)
        document = read_document(raw, source=name)
        found = kind_of(document)
        problems = (
            [str(problem) for problem in check(document, kind, folder=path.parent)] if found == kind else []
        )
    except RentbenchError as error:
        rejected.append(Rejected(path=name, reason=error.message.removeprefix(f"{name} ")))
        return None
    if found != kind:
        problems = [f"is a {found}, not a {kind}"]
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        rejected.append(Rejected(path=name, reason=f"{problems[0]}{more}"))
        return None
    return document, sha256_bytes(raw)


def _newest_run(
    folder: Path, relative: str, names: list[str], rejected: list[Rejected]
) -> tuple[str | None, dict[str, Any] | None, str | None, str | None]:
    """Return name, document and hash of the run that no other one replaces; else a note why there is none."""
    versions: dict[str, tuple[str, dict[str, Any]]] = {}
    refused = len(rejected)
    replaced: set[str | None] = set()
    for name in names:
        read = _read(folder / name, f"{relative}/{name}", "run", rejected)
        if read is not None:
            document, digest = read
            versions[digest] = (name, document)
            replaced.add(document["replaces"])
    if not versions:
        if len(rejected) > refused:
            note = f"{rejected[-1].path.rsplit('/', 1)[-1]} was left out: {rejected[-1].reason}"
            return None, None, None, note
        return None, None, None, None
    newest = [(*version, digest) for digest, version in versions.items() if digest not in replaced]
    if len(newest) != 1:
        names = [name for name, *_ in newest]
        reason = f"{len(newest)} versions of the run claim to be the newest: {', '.join(names)}"
        rejected.append(Rejected(path=relative, reason=reason))
        return None, None, None, reason
    return *newest[0], None
