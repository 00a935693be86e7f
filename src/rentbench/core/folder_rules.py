"""What a document says against what lies beside it: hashes, sizes, and the folder's own name."""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING, Any

from rentbench.core.documents import read_bytes, read_document, sha256_bytes, sha256_file
from rentbench.core.errors import UnusableInputError
from rentbench.core.gpus import gpu_folder
from rentbench.core.ids import folder_name
from rentbench.core.problems import Problem, pointer, show

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = ["is_result_folder", "measurement_folder_problems", "run_folder_problems"]

# A result's own folder is told by its name; a document that was copied elsewhere is held to no path.
_RESULT_FOLDER = re.compile(r"[0-9]{8}T[0-9]{6}Z-")


def is_result_folder(folder: Path) -> bool:
    """Say whether a folder is named as a result's own is, `<UTC>-<id>`."""
    return _RESULT_FOLDER.match(folder.name) is not None


def measurement_folder_problems(document: Mapping[str, Any], folder: Path) -> Iterator[Problem]:
    """Yield where a measurement document and its folder disagree.

    Args:
        document: One that fits its schema and its semantics.
        folder: Where it lies.
    """
    for index, artifact in enumerate(document["artifacts"]):
        yield from _artifact_problems(artifact, index, folder)
    place = folder.resolve()
    if not is_result_folder(place):
        return
    expected = (
        document["suite"]["name"],
        gpu_folder(document["host"]["gpus"]),
        folder_name(document["started"], document["id"]),
    )
    yield from _path_problems(place, expected)


def run_folder_problems(document: Mapping[str, Any], folder: Path) -> Iterator[Problem]:
    """Yield where a run document, the measurement beside it, and their folder disagree.

    Args:
        document: One that fits its schema and its semantics.
        folder: Where it lies.
    """
    place = folder.resolve()
    own_folder = is_result_folder(place)
    path = folder / "measurement.json"
    if document["measurement"] is None:
        if own_folder:
            yield from _path_problems(place, (document["suite"], "unknown", f"…-{document['id']}"))
    elif os.path.lexists(path):
        yield from _citation_problems(document, path)
    elif own_folder:
        yield Problem(
            pointer="/measurement", message="is cited, but there is no measurement.json beside the run"
        )


def _artifact_problems(artifact: Mapping[str, Any], index: int, folder: Path) -> Iterator[Problem]:
    path = folder / artifact["name"]
    if not os.path.lexists(path):
        return
    try:
        status = path.lstat()
        if stat.S_ISREG(status.st_mode) and status.st_size != artifact["bytes"]:
            # No hash of what is wrong already: a file can be endlessly large.
            yield Problem(
                pointer=pointer("artifacts", index, "bytes"),
                message=f"is {artifact['bytes']}, but {artifact['name']} has {status.st_size}",
            )
            return
        found = sha256_file(path)
    except (OSError, UnusableInputError) as error:
        yield Problem(pointer=pointer("artifacts", index), message=f"cannot be checked: {error}")
        return
    if found != artifact["sha256"]:
        yield Problem(
            pointer=pointer("artifacts", index, "sha256"),
            message=f"is not the hash of {artifact['name']}",
            allowed=found,
        )


def _path_problems(place: Path, expected: tuple[str, str, str]) -> Iterator[Problem]:
    found = (place.parent.parent.name, place.parent.name, place.name)
    for what, here, wanted in zip(("suite", "GPU", "time and id"), found, expected, strict=True):
        agrees = here.endswith(wanted[1:]) if wanted.startswith("…") else here == wanted
        if not agrees:
            yield Problem(
                pointer="", message=f"lies in a folder of another {what}: {show(here)}", allowed=show(wanted)
            )


def _citation_problems(run: Mapping[str, Any], path: Path) -> Iterator[Problem]:
    try:
        raw = read_bytes(path)
        measurement = read_document(raw, source=str(path))
    except UnusableInputError as error:
        yield Problem(pointer="/measurement", message=f"cannot be checked: {error}")
        return
    if run["measurement"]["sha256"] != sha256_bytes(raw):
        yield Problem(
            pointer="/measurement/sha256",
            message="is not the hash of the measurement.json beside it",
            allowed=sha256_bytes(raw),
        )
    suite = measurement.get("suite")
    pairs = [
        ("/measurement/id", run["measurement"]["id"], measurement.get("id")),
        ("/suite", run["suite"], suite.get("name") if isinstance(suite, dict) else None),
        ("/preset", run["preset"], measurement.get("preset")),
        ("/status", run["status"], measurement.get("status")),
    ]
    if run["image"]["recipe_id"] is not None and measurement.get("recipe_id") is not None:
        pairs.append(("/image/recipe_id", run["image"]["recipe_id"], measurement["recipe_id"]))
    for place, here, there in pairs:
        if here != there:
            yield Problem(
                pointer=place, message=f"is {show(here)}, not as in the measurement", allowed=show(there)
            )
