"""From a container's results folder to the caller's: checked as untrusted input, then put in place."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rentbench.core.documents import read_bytes, read_document, sha256_bytes, sha256_file
from rentbench.core.errors import ErrorKind, UnusableInputError, UsageError
from rentbench.core.files import write_new
from rentbench.core.folder_rules import is_result_folder
from rentbench.core.ids import folder_name
from rentbench.core.validation import check
from rentbench.driver.failures import Failure, RunFailedError
from rentbench.driver.records import Measurement, RunRecord

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "Incoming",
    "discard",
    "find_run",
    "place_measurement",
    "place_without_measurement",
    "prepare_results",
]

_REFUSED = ".refused"  # hidden, so that no reader of results takes it for one


@dataclass(frozen=True, kw_only=True)
class Incoming:
    """A folder beside the results, on the same file system, that a container's results are unpacked into."""

    root: Path
    path: Path


def prepare_results(root: Path, run_id: str) -> Incoming:
    """Make the results folder and an empty place in it for what comes.

    What a driver of the same run left there when it died is thrown away: the container has it still.

    Raises:
        UsageError: It cannot be written.
    """
    path = root / f".incoming-{run_id}"
    try:
        root.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.rmtree(path)
        path.mkdir()
    except OSError as error:
        msg = f"results cannot be written to {root}: {error.strerror or error}"
        raise UsageError(msg, hint="another folder: --results DIR") from error
    return Incoming(root=root, path=path)


def place_measurement(incoming: Incoming, record: RunRecord) -> tuple[Path, Measurement]:
    """Check the measurement that a run left, and put its folder in place.

    Where a driver that died has put the same measurement there already, it stays as it is.

    Returns:
        The folder, and the measurement.

    Raises:
        RunFailedError: There is none, or more than one, or it is not valid, or not of this run.
    """
    found = sorted(incoming.path.glob("*/*/*/measurement.json"))
    if len(found) != 1:
        kind = ErrorKind.INVALID_RESULT if found else ErrorKind.NO_RESULT
        message = (
            f"the container left {len(found)} measurements in place of one" if found else "it left no result"
        )
        raise RunFailedError(Failure(kind=kind, message=message))
    folder = found[0].parent
    measurement = _read(folder, record)
    target = incoming.root / folder.relative_to(incoming.path)
    if target.exists():
        if _holds(target, measurement):
            return target, measurement
        message = f"{target} is there already, and is not overwritten"
        raise RunFailedError(Failure(kind=ErrorKind.INVALID_RESULT, message=message))
    target.parent.mkdir(parents=True, exist_ok=True)
    folder.rename(target)
    return target, measurement


def place_without_measurement(incoming: Incoming, record: RunRecord, log: str) -> Path:
    """Make the folder of a run that left no valid measurement: with its log, and what it left besides.

    A driver of the same run that died may have begun with it: then the rest is added.

    Returns:
        The folder.
    """
    folder = incoming.root / record.suite / "unknown" / folder_name(record.begun, record.id)
    folder.mkdir(parents=True, exist_ok=True)
    refused, log_file = folder / _REFUSED, folder / "log.txt"
    # Renamed before anything is written: that needs no space, where a full disk may be what went wrong.
    if any(incoming.path.iterdir()) and not refused.exists():
        incoming.path.rename(refused)
    if log and not log_file.exists():
        write_new(log_file, log.encode())
    return folder


def find_run(root: Path, suite: str, run_id: str) -> Path | None:
    """Return the folder that holds the document of a run; None where the run was not concluded."""
    for path in sorted(root.glob(f"{suite}/*/*/run.json")):
        with contextlib.suppress(UnusableInputError):
            if read_document(path).get("id") == run_id:
                return path.parent
    return None


def discard(incoming: Incoming) -> None:
    """Remove the place for what comes, where it is still there."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(incoming.path)


def _read(folder: Path, record: RunRecord) -> Measurement:
    if not is_result_folder(folder):  # of another name, its path would not be held against the document
        message = f"the container left a measurement in {folder.name}, which is no result's folder"
        raise RunFailedError(Failure(kind=ErrorKind.INVALID_RESULT, message=message))
    try:
        raw = read_bytes(folder / "measurement.json")
        document = read_document(raw, source="measurement.json")
    except UnusableInputError as error:
        raise RunFailedError(Failure(kind=ErrorKind.INVALID_RESULT, message=error.message)) from error
    problems = [str(problem) for problem in check(document, "measurement", folder=folder)]
    problems = problems or _foreign(document, record)
    if problems:
        more = f", and {len(problems) - 1} more problems" if len(problems) > 1 else ""
        message = f"the measurement is not valid: {problems[0]}{more}"
        hint = f"rentbench validate shows them all; it is kept in {_REFUSED} beside run.json"
        raise RunFailedError(Failure(kind=ErrorKind.INVALID_RESULT, message=message, hint=hint))
    return Measurement(id=document["id"], sha256=sha256_bytes(raw), document=document)


def _holds(target: Path, measurement: Measurement) -> bool:
    """Say whether a folder of results holds this very measurement."""
    with contextlib.suppress(UnusableInputError):
        return sha256_file(target / "measurement.json") == measurement.sha256
    return False


def _foreign(document: dict[str, Any], record: RunRecord) -> list[str]:
    """Return where a valid measurement is not of this run."""
    pairs = [
        ("/suite/name", document["suite"]["name"], record.suite),
        ("/preset", document["preset"], record.preset),
    ]
    if document["recipe_id"] is not None and record.recipe_id is not None:
        pairs.append(("/recipe_id", document["recipe_id"], record.recipe_id))
    return [f"{path} is {here!r}, and the run was {there!r}" for path, here, there in pairs if here != there]
