"""The end of a run: what a container left is collected and checked, and the run document is written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rentbench.core.documents import write_document
from rentbench.core.errors import ErrorKind, ExitCode, RentbenchError
from rentbench.core.status import exit_code
from rentbench.driver.archives import unpack
from rentbench.driver.failures import Failure, RunFailedError
from rentbench.driver.options import RESULTS, options_in_force
from rentbench.driver.results import place_measurement, place_without_measurement

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rentbench.core.status import Status
    from rentbench.driver.containers import SuiteContainer
    from rentbench.driver.output import Log
    from rentbench.driver.records import Measurement, RunRecord
    from rentbench.driver.results import Incoming

__all__ = ["RunOutcome", "conclude"]


@dataclass(frozen=True, kw_only=True)
class RunOutcome:
    """How a run ended.

    Attributes:
        folder: Where its documents are.
        status: The measurement's, or `failed`.
        failure: What went wrong around the workload.
        measurement: What it left, where that is valid.
        run: The run document.
    """

    folder: Path
    status: Status
    failure: Failure | None
    measurement: Measurement | None
    run: dict[str, Any]

    @property
    def exit_code(self) -> ExitCode:
        """The exit code that the run alone would have."""
        if self.failure is None or self.status == "partial":
            return exit_code(self.status)
        return ExitCode.USAGE if self.failure.kind is ErrorKind.USAGE else ExitCode.FAILED


def conclude(
    container: SuiteContainer | None,
    record: RunRecord,
    incoming: Incoming,
    *,
    failure: Failure | None,
    log: Log,
    redact: Callable[[str], str],
) -> RunOutcome:
    """Collect what a container left, put it in place, and write the run document.

    Args:
        container: One that has ended; None where none was made.
        record: What is known of the run.
        incoming: Where to unpack.
        failure: What is known to have gone wrong.
        log: The container's output.
        redact: Removes from a text what must not leave this machine.

    Raises:
        RentbenchError: The caller's disk refuses. The container is then kept, with all that it measured.
    """
    try:
        placed = None
        if container is not None:
            try:
                placed = _collect(container, record, incoming)
            except RunFailedError as error:
                failure = failure or _explained(error.failure, record, log)
            else:
                failure = failure or _contradiction(record, placed[1], log)
        if placed is None:
            folder, measurement = place_without_measurement(incoming, record, redact(log.text())), None
        else:
            folder, measurement = placed
        status: Status = measurement.document["status"] if measurement else "failed"
        run = record.document(status=status, failure=failure, measurement=measurement, redact=redact)
        write_document(folder / "run.json", run)
    except (OSError, RentbenchError) as error:
        msg = f"the results cannot be written: {error}"
        hint = None
        if container is not None:
            container.keep = True
            hint = (
                f"they are kept in the container {container.name}. Once the cause is gone: rentbench reap "
                f"--results {incoming.root}; by hand: docker cp {container.name}:{RESULTS} TARGET"
            )
        raise RentbenchError(msg, hint=hint) from error
    return RunOutcome(folder=folder, status=status, failure=failure, measurement=measurement, run=run)


def _collect(container: SuiteContainer, record: RunRecord, incoming: Incoming) -> tuple[Path, Measurement]:
    record.container = options_in_force(container.inspect(), record.gpus)
    unpack(container.results(), incoming.path)
    record.mark("collected")
    return place_measurement(incoming, record)


def _explained(failure: Failure, record: RunRecord, log: Log) -> Failure:
    """Return a failure to find a result, told by how the container ended and what it said last."""
    code = record.container["exit_code"] if record.container else None
    if failure.kind is not ErrorKind.NO_RESULT or code is None:
        return failure
    if code == ExitCode.USAGE:
        message = "the workload refused its command line"
        return Failure(
            kind=ErrorKind.USAGE,
            message=message,
            hint=" ".join(log.last(2).split()) or None,
            log_tail=log.last() or None,
        )
    return replace(
        failure,
        message=f"the container ended with exit code {code} and left no result",
        hint="its last lines are in log.txt beside run.json; can it write to /results?",
        log_tail=log.last() or None,
    )


def _contradiction(record: RunRecord, measurement: Measurement, log: Log) -> Failure | None:
    """Return a failure where a container's exit code and its result do not agree."""
    code = record.container["exit_code"] if record.container else None
    status = measurement.document["status"]
    if code is None or code == exit_code(status):
        return None
    message = f"the container ended with exit code {code}, though its result says {status}"
    return Failure(kind=ErrorKind.CRASHED, message=message, log_tail=log.last() or None)
