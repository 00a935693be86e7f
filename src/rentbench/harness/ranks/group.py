"""A group of ranks, as a workload starts, asks and ends it.

torchrun runs under a guard of its own, so that every process of the group ends with it: also a rank that
hangs, and also when the worker itself is killed. No fixed port is used, and no interface but the loopback.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

from rentbench.harness.ranks.endings import RankEnd, first_failure, hung, unexplained
from rentbench.harness.ranks.rank import events_path, jobs_path
from rentbench.harness.ranks.shared_memory import shortage
from rentbench.harness.ranks.torchrun import Torchrun
from rentbench.harness.workers.events import EventReader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from rentbench.harness.context import Context

__all__ = ["RankGroup", "run_ranks"]

# After a failure the other ranks need a moment to end, or to fail as well and say so.
_FAILURE_SECONDS = 5.0
_TERMINATE_SECONDS = 3.0
_STACK_SECONDS = 0.5
_LOG_TAIL_BYTES = 60_000
_CHUNK = 1 << 16


def run_ranks(
    context: Context,
    script: Path,
    job: Mapping[str, Any],
    *,
    ranks: int,
    timeout_seconds: float,
    collective_timeout_seconds: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Run a script once in several processes, and return what each of them returned, in the order of ranks.

    Args:
        context: Of the case. It gets the phases of rank 0 and the peak memory of the rank that held most.
        script: A file with `run(rank: Rank, job: dict) -> dict`; job and result travel as JSON.
        job: For every rank the same.
        ranks: How many processes; on GPUs each has one of its own.
        timeout_seconds: For all of it. Whatever has not ended then is ended.
        collective_timeout_seconds: How long a rank waits for the others in one operation; four fifths of
            `timeout_seconds` by default, so that NCCL names what hangs before the time is over.
        environment: Variables for the ranks beside those of this process.

    Raises:
        CaseFailed: A rank failed, was killed or hung, or torchrun did not start. Message, kind, part and log
            are those of the rank that failed first. No process is left.
        CaseSkipped: There are fewer GPUs than ranks.
    """
    with RankGroup(
        context,
        script,
        ranks=ranks,
        environment=environment,
        collective_timeout_seconds=collective_timeout_seconds or 0.8 * timeout_seconds,
    ) as group:
        return group.ask(job, timeout_seconds=timeout_seconds)


class RankGroup:
    """Processes that wait for jobs, so that many short ones share one start of torchrun.

    For one job there is `run_ranks`. A context manager; `close` ends it as well. It cannot be used after a
    failure.

    Args:
        context: Of the first case; `ask` may be given that of a later one.
        script: See `run_ranks`, as for all that follows.
        ranks: How many processes.
        collective_timeout_seconds: How long a rank waits for the others in one operation.
        environment: Variables for the ranks.
    """

    def __init__(
        self,
        context: Context,
        script: Path,
        *,
        ranks: int,
        collective_timeout_seconds: float,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        if context.device == "cuda" and context.device_count < ranks:
            context.skip(f"needs {ranks} GPUs, found {context.device_count}")
        self.ranks = ranks
        self._context = context
        self._shm_shortage = None
        if context.device == "cuda" and ranks > 1:
            self._shm_shortage = shortage(context.host, ranks)
            context.check(
                "shared_memory",
                self._shm_shortage is None,
                self._shm_shortage or "/dev/shm is large enough",  # noqa: S108
            )
        self._processes: dict[int, int] = {}
        self._ready: set[int] = set()
        self._answers: dict[int, dict[str, Any]] = {}
        self._errors: dict[int, tuple[float, dict[str, Any]]] = {}
        self._codes: dict[int, int] = {}
        self._launcher_error: str | None = None
        self._ended = False
        self._phases = ExitStack()
        self._folder = Path(tempfile.mkdtemp(prefix="ranks-", dir=context.scratch))
        self._resources = ExitStack()
        self._resources.callback(shutil.rmtree, self._folder, ignore_errors=True)
        self._selector = self._resources.enter_context(selectors.DefaultSelector())
        self._jobs = [self._pipe(jobs_path(self._folder, rank)) for rank in range(ranks)]
        for rank in range(ranks):
            self._listen(self._pipe(events_path(self._folder, rank)), self._take_from_rank, rank)
        self._torchrun = Torchrun(
            *(str(script), str(self._folder), context.device, str(collective_timeout_seconds)),
            ranks=ranks,
            folder=self._folder,
            environment=environment or {},
        )
        self._listen(self._torchrun.events, self._take_from_launcher, -1)

    def __enter__(self) -> Self:
        """Return the group."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the group."""
        self.close()

    def ask(
        self, job: Mapping[str, Any], *, timeout_seconds: float, context: Context | None = None
    ) -> list[dict[str, Any]]:
        """Give every rank a job and return what each returned, in the order of ranks.

        Args:
            job: Travels as JSON.
            timeout_seconds: For the answer, and with the first job for the start of the ranks as well.
            context: Of the case that the job belongs to, where it is not the one that the group began with.

        Raises:
            CaseFailed: See `run_ranks`. The group has ended then.
        """
        self._context = context or self._context
        deadline = time.monotonic() + timeout_seconds
        self._answers = {}
        # Outermost, so that an error ends the open phase and the case knows in which phase it was.
        with ExitStack() as self._phases:
            if len(self._ready) < self.ranks:
                with self._context.phase("load"):
                    self._wait(lambda: len(self._ready) == self.ranks, deadline, timeout_seconds)
            line = f"{json.dumps(dict(job), allow_nan=False)}\n".encode()
            for descriptor in self._jobs:
                os.write(descriptor, line)
            self._wait(lambda: len(self._answers) == self.ranks, deadline, timeout_seconds)
        answers = [self._answers[rank] for rank in range(self.ranks)]
        peaks = [answer["peak_memory_bytes"] for answer in answers if answer["peak_memory_bytes"] is not None]
        if peaks:
            self._context.report_peak_memory(max(peaks))
        return [answer["result"] for answer in answers]

    def close(self) -> None:
        """End every process of the group; does nothing where that has happened already."""
        for descriptor in self._jobs:
            os.close(descriptor)  # a rank that has no more jobs ends by itself
        self._jobs = []
        if not self._torchrun.is_gone:
            self._listen_until(lambda: self._ended, time.monotonic() + _FAILURE_SECONDS)
            self._end()
        self._resources.close()

    def _pipe(self, path: Path) -> int:
        """Make a named pipe and hold both of its ends, so that opening never blocks and data survives."""
        os.mkfifo(path, 0o600)
        return os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def _listen(self, descriptor: int, take: Callable[[int, dict[str, Any]], None], rank: int) -> None:
        self._resources.callback(os.close, descriptor)
        self._selector.register(descriptor, selectors.EVENT_READ, (EventReader(), take, rank))

    def _wait(self, done: Callable[[], bool], deadline: float, timeout_seconds: float) -> None:
        """Return when it is done; otherwise end the group and the case, with the reason."""
        self._listen_until(lambda: done() or self._failing(), deadline)
        if done() and not self._failing():
            return
        if not self._failing():
            logs = self._logs_with_stacks()
            # Before anything is ended: what ranks say of that is no cause.
            error = self._explain() or hung(logs, timeout_seconds)
            self._end()
            self._fail(error)
        self._listen_until(lambda: self._ended, time.monotonic() + _FAILURE_SECONDS)
        self._end()
        self._fail(self._explain() or unexplained(self._launcher_error))

    def _failing(self) -> bool:
        return self._ended or bool(self._errors or self._codes or self._launcher_error)

    def _listen_until(self, done: Callable[[], bool], deadline: float) -> None:
        while not done() and (left := deadline - time.monotonic()) > 0:
            self._take_events(min(left, 1.0))

    def _take_events(self, wait_seconds: float) -> bool:
        """Take what has come in; says whether anything has."""
        anything = False
        for key, _ in self._selector.select(wait_seconds):
            reader, take, rank = key.data
            data = os.read(key.fd, _CHUNK)
            anything = anything or bool(data)
            if not data:  # only the launcher's pipe can end: the guard is gone
                self._ended = True
                self._selector.unregister(key.fd)
            for event in reader.feed(data):
                take(rank, event)
        return anything

    def _take_from_rank(self, rank: int, event: dict[str, Any]) -> None:
        name = event["event"]
        if name == "started":
            self._processes[rank] = event["process"]
        elif name == "ready":
            self._ready.add(rank)
        elif name == "answer":
            self._answers[rank] = event
        elif name == "failed":
            self._errors[rank] = (event["at"], event["error"])
        elif name == "phase_started":
            self._phases.enter_context(self._context.phase(event["phase"]))
        else:
            self._phases.close()

    def _take_from_launcher(self, _: int, event: dict[str, Any]) -> None:
        name = event["event"]
        if name == "rank_exited":
            self._codes[event["rank"]] = event["code"]
        elif name == "launcher_failed":
            self._launcher_error = event["text"]
        else:
            self._ended = True

    def _end(self) -> None:
        """End every process that is left: asked first, then killed."""
        if self._torchrun.is_gone:
            return
        if not self._ended:
            self._torchrun.terminate()
            self._listen_until(lambda: self._ended, time.monotonic() + _TERMINATE_SECONDS)
        self._torchrun.kill()
        while self._take_events(0.0):  # last words
            pass

    def _logs_with_stacks(self) -> dict[int, str]:
        """Let every rank print where it is, and return what each has printed last."""
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGUSR1)
        self._listen_until(self._failing, time.monotonic() + _STACK_SECONDS)
        return {rank: self._log_tail(rank) for rank in range(self.ranks)}

    def _log_tail(self, rank: int) -> str:
        texts = []
        for name in ("stdout.log", "stderr.log"):
            for path in (self._folder / "log").glob(f"**/{rank}/{name}"):
                with path.open("rb") as file:
                    file.seek(max(0, path.stat().st_size - _LOG_TAIL_BYTES))
                    texts.append(file.read().decode(errors="replace"))
        return "".join(texts)

    def _explain(self) -> dict[str, Any] | None:
        ends = []
        for rank in range(self.ranks):
            told_at, error = self._errors.get(rank, (float("inf"), None))
            ends.append(
                RankEnd(
                    rank=rank,
                    error=error,
                    told_at=told_at,
                    code=self._codes.get(rank),
                    log_tail=self._log_tail(rank),
                )
            )
        return first_failure(ends, count=self.ranks, shm_too_small=self._shm_shortage is not None)

    def _fail(self, error: dict[str, Any]) -> NoReturn:
        try:
            raise _RankError(error["log_tail"] or error["message"])
        except _RankError:  # so that the rank's own words are in the log of the case's error
            self._context.fail(
                error["kind"],
                error["message"],
                error["hint"],
                part=error["phase"],
                memory_allocated_bytes=error["memory_allocated_bytes"],
            )


class _RankError(Exception):
    """What the rank that failed had printed last."""
