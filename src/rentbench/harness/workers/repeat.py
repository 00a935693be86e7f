"""One repeat: a worker for its cases, and another one for the rest where a case took the worker with it."""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rentbench.core.errors import ErrorKind
from rentbench.core.selection import case_label
from rentbench.harness.failures.documents import error_document, explain_end, not_run
from rentbench.harness.workers.attempt import run_worker
from rentbench.harness.workers.job import Job

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rentbench.harness.arguments import Request
    from rentbench.harness.interruption import Interruption
    from rentbench.harness.logfile import LogFile
    from rentbench.harness.progress import Progress
    from rentbench.harness.workers.attempt import WorkerEnd
    from rentbench.harness.workers.collector import Collector

__all__ = ["Surroundings", "run_repeat"]

MAX_REPLACEMENTS = 3
# What no fresh process can mend.
_LASTING = {ErrorKind.GPU_LOST, ErrorKind.HOST_FAULT, ErrorKind.DISK_FULL, ErrorKind.DRIVER_MISMATCH}


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What all repeats of a run share."""

    request: Request
    device: Literal["cuda", "cpu"]
    host: dict[str, Any]
    environment: Mapping[str, str]
    scratch: Path
    interruption: Interruption
    log: LogFile
    progress: Progress


def run_repeat(around: Surroundings, number: int, wanted: Sequence[int], collector: Collector) -> None:
    """Run cases in fresh processes until all have an outcome; `collector` holds the outcomes afterwards.

    One process takes all cases, or each case gets its own where the suite says so.

    Args:
        around: What all repeats share.
        number: Of this repeat, from 0.
        wanted: Indices of the cases to run.
        collector: An empty one.
    """
    suite = around.request.suite
    limit = suite.presets[around.request.preset].timeout_seconds
    deadline = time.monotonic() + limit
    batches = [[index] for index in wanted] if suite.process_per == "case" else [wanted]
    for batch in batches:
        _run_batch(around, number, batch, collector, limit, deadline)
    _settle(collector, wanted)


def _run_batch(
    around: Surroundings,
    number: int,
    batch: Sequence[int],
    collector: Collector,
    limit: float,
    deadline: float,
) -> None:
    """Run cases in one process after the other until all have an outcome, or nothing more can run."""
    for _ in range(1 + MAX_REPLACEMENTS):
        left = [index for index in batch if index not in collector.cases]
        if not left or collector.error or collector.skip_reason is not None:
            break
        end = _run_worker(around, number, left, collector, deadline)
        if not _came_to_its_end(end, left, collector):
            error = explain_end(
                end, phase=collector.phase, limit_seconds=limit, signal_name=around.interruption.signal
            )
            took_one_case = end.cause == "exited" and collector.running is not None
            collector.end_running(error)
            if not took_one_case or error["kind"] in _LASTING:
                collector.error = collector.error or error


def _run_worker(
    around: Surroundings, number: int, left: Sequence[int], collector: Collector, deadline: float
) -> WorkerEnd:
    request = around.request

    def take(event: dict[str, Any]) -> None:
        collector.take(event)
        if event["event"] == "case_started":
            around.log.begin_tail()  # what an earlier case survived does not explain a later one's end
            repeat = f", repeat {number + 1} of {request.repeats}" if request.repeats > 1 else ""
            around.progress.say(f"{case_label(request.cases[event['case']])}{repeat}")
        elif event["event"] == "case_finished":
            around.progress.done()

    collector.abandoned = False
    scratch = tempfile.mkdtemp(dir=around.scratch)
    try:
        return run_worker(
            Job(
                suite_folder=str(request.suite.folder),
                metrics=list(request.suite.metrics),
                packages=list(request.suite.needs.packages),
                cases=[(index, dict(request.cases[index])) for index in left],
                device=around.device,
                preset=request.preset,
                settings=dict(request.settings),
                seed=request.seed,
                repeat=number,
                scratch=scratch,
                host=around.host,
            ),
            environment=around.environment,
            deadline=deadline,
            interruption=around.interruption,
            log=around.log,
            take=take,
        )
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _came_to_its_end(end: WorkerEnd, left: Sequence[int], collector: Collector) -> bool:
    """Say whether a worker did all that it could: its cases, or up to what it has told itself."""
    if end.cause != "exited" or end.code != 0 or collector.running is not None:
        return False
    told = collector.abandoned or collector.error is not None or collector.skip_reason is not None
    return told or all(index in collector.cases for index in left)


def _settle(collector: Collector, wanted: Sequence[int]) -> None:
    """Give the cases that no worker came to an outcome as well."""
    missing = [index for index in wanted if index not in collector.cases]
    if missing and collector.skip_reason is None and collector.error is None:
        failed = [outcome.error for outcome in collector.cases.values() if outcome.error is not None]
        unknown = error_document(ErrorKind.CRASHED, "an earlier case left the GPU unusable")
        collector.error = failed[-1] if failed else unknown
    for index in missing:
        collector.cases[index] = not_run(collector.error, collector.skip_reason)
