"""Upgrades of whole result folders: the old ones stay as they are, new ones are written elsewhere.

The unit is a result's folder, because its documents belong together: a run cites the hash of the measurement
and of the run that it replaces, which an upgrade changes.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rentbench.core.documents import read_document, render_document
from rentbench.core.errors import InvalidDocumentError, UnusableInputError
from rentbench.core.files import sha256_bytes, sha256_file, write_new
from rentbench.core.folder_rules import is_result_folder
from rentbench.core.run_versions import run_version
from rentbench.core.schemas import kind_of
from rentbench.core.upgrade import upgrade
from rentbench.core.validation import check

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["Upgraded", "upgrade_path"]

_MEASUREMENT = "measurement.json"


@dataclass(frozen=True, kw_only=True)
class Upgraded:
    """What became of one document.

    Attributes:
        source: Where it lies.
        target: Where the upgraded one was written; None where it is of the present version already.
    """

    source: Path
    target: Path | None


def upgrade_path(path: Path, output: Path) -> Iterator[Upgraded]:
    """Upgrade a document, or all result folders below a folder, into another folder.

    Args:
        path: A document, or a folder that is searched to its end.
        output: Where the new files go, under `<suite>/<gpu>/<result>/` as they lay; it is made when needed.

    Raises:
        InvalidDocumentError: What the upgrade made is not valid, so nothing of that folder was written.
        UnusableInputError: A document cannot be read, its version is not known, or the folder holds none.
        RentbenchError: A file to be written is there already.
    """
    if os.path.isdir(path):  # noqa: PTH112 - Path.is_dir raises where it may not look
        found = False
        for place, folders, files in os.walk(path):
            folders.sort()
            names = _documents(files)
            folder = Path(place)
            if names:
                found = True
                yield from _upgrade_folder(folder, names, _target(folder, path, output))
        if not found:
            msg = f"{path} holds no documents"
            raise UnusableInputError(msg)
    elif _documents([path.name]):
        folder = path.parent
        yield from _upgrade_folder(folder, _documents(os.listdir(folder)), _target(folder, folder, output))  # noqa: PTH208
    else:
        yield from _upgrade_folder(path.parent, [path.name], output)


def _documents(names: Iterable[str]) -> list[str]:
    """Return the documents of a result among file names: the measurement, then the runs from the first on."""
    found = {name: 0 if name == _MEASUREMENT else run_version(name) for name in names}
    return [name for _, name in sorted((order, name) for name, order in found.items() if order is not None)]


def _target(folder: Path, root: Path, output: Path) -> Path:
    """Return where a result folder goes; below the root other folders keep their relative path."""
    place = folder.resolve()
    if is_result_folder(place):
        return output.joinpath(*place.parts[-3:])
    return output / folder.relative_to(root)


def _upgrade_folder(folder: Path, names: list[str], target: Path) -> Iterator[Upgraded]:
    documents = {name: read_document(folder / name) for name in names}
    upgraded = {name: _upgrade(document, folder / name) for name, document in documents.items()}
    if upgraded == documents:
        yield from (Upgraded(source=folder / name, target=None) for name in names)
        return
    hashes: dict[str, str] = {}  # new by old, of what a later document may cite
    for name, document in upgraded.items():
        _cite_again(document, hashes)
        hashes[sha256_file(folder / name)] = sha256_bytes(render_document(document))
    for name, document in upgraded.items():
        problems = check(document, kind_of(document))
        if problems:
            msg = f"{folder / name}: upgraded, it is not valid: {problems[0]}"
            raise InvalidDocumentError(msg, hint="the document was not valid before either")
    target.mkdir(parents=True, exist_ok=True)
    for artifact in upgraded.get(_MEASUREMENT, {}).get("artifacts", ()):
        _copy(folder / artifact["name"], target / artifact["name"])
    for name, document in upgraded.items():
        write_new(target / name, render_document(document))
        yield Upgraded(source=folder / name, target=target / name)


def _upgrade(document: dict[str, Any], path: Path) -> dict[str, Any]:
    try:
        return upgrade(document)
    except (InvalidDocumentError, UnusableInputError) as error:
        msg = f"{path}: {error.message}"
        raise type(error)(msg, hint=error.hint) from error


def _cite_again(document: dict[str, Any], hashes: Mapping[str, str]) -> None:
    """Let a run cite the upgraded measurement and run before it, if it cited the old ones rightly."""
    citation = document.get("measurement")
    if isinstance(citation, dict) and citation.get("sha256") in hashes:
        citation["sha256"] = hashes[citation["sha256"]]
    if document.get("replaces") in hashes:
        document["replaces"] = hashes[document["replaces"]]


def _copy(source: Path, target: Path) -> None:
    if source.is_file() and not source.is_symlink() and not os.path.lexists(target):
        shutil.copyfile(source, target, follow_symlinks=False)
