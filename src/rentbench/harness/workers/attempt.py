"""One worker from start to end, under its guard: events and log come in, time and signals are watched."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rentbench.harness.tools import module_command
from rentbench.harness.workers.events import EventReader
from rentbench.harness.workers.guard import TERMINATE
from rentbench.harness.workers.job import send_job
from rentbench.harness.workers.processes import descendants, kill_descendants

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rentbench.harness.interruption import Interruption
    from rentbench.harness.logfile import LogFile
    from rentbench.harness.workers.job import Job

__all__ = ["WorkerEnd", "run_worker"]

# Docker waits 10 s between SIGTERM and SIGKILL: both steps and the writing of the result must fit in.
TERMINATE_SECONDS = 3.0
KILL_SECONDS = 6.0
_TICK_SECONDS = 1.0
_CHUNK = 1024**2


@dataclass(frozen=True, kw_only=True)
class WorkerEnd:
    """How a worker ended.

    Attributes:
        cause: "exited" by itself or by a signal of others; ended by us for "timeout" or when we were
            "interrupted".
        code: As `subprocess` gives it; None where nobody could tell.
        log_tail: The last lines of its last case, redacted.
        kernel_oom_kills: How many processes of this machine the kernel killed meanwhile to regain memory.
    """

    cause: Literal["exited", "timeout", "interrupted"]
    code: int | None
    log_tail: str
    kernel_oom_kills: int


def run_worker(
    job: Job,
    *,
    environment: Mapping[str, str],
    deadline: float,
    interruption: Interruption,
    log: LogFile,
    take: Callable[[dict[str, Any]], None],
) -> WorkerEnd:
    """Run a worker until it ends, and leave no process of it behind.

    Args:
        job: What it must do.
        environment: Of the worker.
        deadline: `time.monotonic()` after which it is ended.
        interruption: Ends it early.
        log: Takes its output.
        take: Called with each of its events.
    """
    kills_before = _kernel_oom_kills()
    log.begin_tail()
    worker = _Worker(job, environment, interruption, log, take)
    try:
        cause = worker.watch(deadline)
    finally:
        worker.close()
    return WorkerEnd(
        cause=cause,
        code=worker.code,
        log_tail=log.end_tail(),
        kernel_oom_kills=_kernel_oom_kills() - kills_before,
    )


class _Worker:
    def __init__(
        self,
        job: Job,
        environment: Mapping[str, str],
        interruption: Interruption,
        log: LogFile,
        take: Callable[[dict[str, Any]], None],
    ) -> None:
        self.code: int | None = None
        self._exited = False
        self._before = descendants(os.getpid())
        self._take = take
        self._reader = EventReader()
        self._interruption = interruption
        self._log = log
        self._events, events_writer = os.pipe()
        self._output, output_writer = os.pipe()
        lifeline_reader, lifeline = os.pipe()
        self._lifeline: int | None = lifeline
        job_descriptor = send_job(job)
        guard = module_command("rentbench.harness.workers.guard", str(events_writer))
        worker = module_command("rentbench.harness.workers.worker", str(events_writer), str(job_descriptor))
        try:
            self._guard = subprocess.Popen(
                [*guard, *worker],
                stdin=lifeline_reader,
                stdout=output_writer,
                stderr=output_writer,
                pass_fds=(events_writer, job_descriptor),
                env=environment,
                start_new_session=True,
            )
        except BaseException:
            for descriptor in (self._events, self._output, lifeline):
                os.close(descriptor)
            raise
        finally:
            for descriptor in (events_writer, output_writer, lifeline_reader, job_descriptor):
                os.close(descriptor)
        self._selector = selectors.DefaultSelector()
        for source in (self._events, self._output):
            os.set_blocking(source, False)
            self._selector.register(source, selectors.EVENT_READ)
        self._selector.register(interruption, selectors.EVENT_READ)

    def watch(self, deadline: float) -> Literal["exited", "timeout", "interrupted"]:
        """Return once the worker and all that it started have ended, and say who ended it."""
        cause: Literal["exited", "timeout", "interrupted"] = "exited"
        kill_at = give_up_at = float("inf")
        while not self._exited and time.monotonic() < give_up_at:
            wake = min(deadline, kill_at, give_up_at, time.monotonic() + _TICK_SECONDS)
            self._read(max(0.0, wake - time.monotonic()))
            now = time.monotonic()
            if cause == "exited" and (self._interruption or now >= deadline):
                cause = "interrupted" if self._interruption else "timeout"
                self._terminate()
                kill_at, deadline = now + TERMINATE_SECONDS, float("inf")
            if now >= kill_at or self._interruption.count > 1:
                self._kill()
                kill_at, give_up_at = float("inf"), min(give_up_at, now + KILL_SECONDS)
        return cause

    def close(self) -> None:
        """End everything at once, read what is left, and let the descriptors go."""
        self._kill()
        try:
            self._guard.wait(KILL_SECONDS)
        except subprocess.TimeoutExpired:  # it waits for a process that hangs inside a driver
            self._guard.kill()
            self._guard.wait()
        if self._guard.returncode != 0:  # it was killed; its orphans come to us, who adopt them
            kill_descendants(keep=self._before)
        while self._read(0.0):
            pass
        self._selector.close()
        os.close(self._events)
        os.close(self._output)

    def _read(self, timeout: float) -> bool:
        """Take what has come in; says whether anything has."""
        anything = False
        # Events first: a case's beginning is told before anything that the case prints.
        for key, _ in sorted(self._selector.select(timeout), key=lambda found: found[0].fd != self._events):
            if key.fileobj is self._interruption:
                self._interruption.drain()
                continue
            data = os.read(key.fd, _CHUNK)
            anything = anything or bool(data)
            if not data:
                self._selector.unregister(key.fd)
                # The guard holds both pipes until its end, so it has ended too, and was killed if it said
                # nothing.
                self._exited = self._exited or key.fd == self._events
            elif key.fd == self._output:
                self._log.feed(data)
            else:
                for event in self._reader.feed(data):
                    self._take_event(event)
        return anything

    def _take_event(self, event: dict[str, Any]) -> None:
        if event["event"] == "exited":
            self._exited = True
            self.code = event["code"]
            if event["left"]:
                self._log.write(f"[{event['left']} processes that the workload left behind were ended]")
        else:
            self._take(event)

    def _terminate(self) -> None:
        if self._lifeline is not None:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._lifeline, TERMINATE)

    def _kill(self) -> None:
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None


def _kernel_oom_kills(vmstat: Path = Path("/proc/vmstat")) -> int:
    with contextlib.suppress(OSError):
        for line in vmstat.read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0
