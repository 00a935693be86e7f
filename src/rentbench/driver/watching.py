"""Watching a container until it ends: its output as it comes, two clocks, and stopping it within bounds."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, Protocol

from docker.errors import DockerException
from requests.exceptions import RequestException
from urllib3.exceptions import HTTPError

from rentbench.core.errors import ErrorKind
from rentbench.driver.failures import Failure, RunFailedError
from rentbench.driver.output import LineSplitter
from rentbench.driver.replays import Heard

if TYPE_CHECKING:
    from collections.abc import Callable

    from docker.types import CancellableStream

    from rentbench.driver.containers import Chunk, Ending, SuiteContainer
    from rentbench.driver.interrupts import Interrupts
    from rentbench.driver.replays import Replay

__all__ = ["Clocks", "OnLine", "StopReason", "Watch"]

Stream = Literal["stdout", "stderr"]
_TICK = 0.1  # seconds between looks at the clocks and at interrupts
_KILL_PATIENCE = 15.0  # seconds from SIGKILL until the container must be gone
_LOST = 1.0  # seconds from the end of the output to that of the container from which on some may be missed
_LOG_DELAY = 0.3  # seconds
_ASK_EVERY = 10.0  # seconds without output until the engine is asked whether the container has ended
_SETTLE = 5.0  # seconds from the end of the output until the container has ended


class OnLine(Protocol):
    """Takes a line of a container's output."""

    def __call__(self, stream: Stream, line: str, /) -> None:
        """Take it."""


class StopReason(StrEnum):
    """Why a container was stopped from here."""

    WALL = "wall"
    IDLE = "idle"
    INTERRUPT = "interrupt"


@dataclass(frozen=True, kw_only=True)
class Clocks:
    """Limits in seconds.

    Attributes:
        wall: For the whole run.
        idle: Without a line of output.
        grace: From SIGTERM to SIGKILL.
        engine: Without an answer of the engine, as when it restarts.
        now: The clock itself.
    """

    wall: float
    idle: float
    grace: float = 20.0
    engine: float = 60.0
    now: Callable[[], float] = time.monotonic


class Watch:
    """One container under watch, from before its start to its end.

    Args:
        container: The container, not started yet.
        clocks: The limits.
        interrupts: What asks to stop; a second one kills at once.
        on_line: Gets every line of output.
    """

    def __init__(
        self, container: SuiteContainer, *, clocks: Clocks, interrupts: Interrupts, on_line: OnLine
    ) -> None:
        self._container = container
        self._clocks = clocks
        self._interrupts = interrupts
        self._on_line = on_line
        self._splitters: dict[Stream, LineSplitter] = {"stdout": LineSplitter(), "stderr": LineSplitter()}
        self._heard: dict[Stream, Heard] = {"stdout": Heard(), "stderr": Heard()}
        self._stop: StopReason | None = None
        self._deadline = 0.0
        self._killed = False

    @property
    def stop_reason(self) -> StopReason | None:
        """Why the container was stopped from here; None where it ended by itself."""
        return self._stop

    def run(self) -> Ending:
        """Start the container and return how it ended.

        Raises:
            RunFailedError: It cannot be started, cannot be ended, or the engine went away for good.
        """
        output = _Reader(self._container.attach())
        self._container.start()
        self._wall = self._line = self._asked = self._clocks.now()
        while True:
            self._follow(output)
            ended = self._clocks.now()
            ending = self._ending()
            if ending is not None:
                break
            # The connection broke, or the program closed its output; the container goes on. The engine sends
            # a line before it writes it to its log: asked at once, the log is short of what was heard.
            time.sleep(_LOG_DELAY)
            replays = {stream: heard.replay() for stream, heard in self._heard.items()}
            output = _Reader(self._container.attach(replay=True), replays)
        # By our own clock alone: the engine's may be another machine's.
        if not output.whole or self._clocks.now() - ended > _LOST:
            self._catch_up()
        for stream, splitter in self._splitters.items():
            for line in splitter.close():
                self._on_line(stream, line)
        return ending

    def _catch_up(self) -> None:
        """Read what a container that has ended said after the connection to it broke."""
        for stream, heard in self._heard.items():
            replay = heard.replay()
            for chunk in self._container.output(stream):
                self._take(stream, replay.fresh(chunk))

    def _take(self, stream: Stream, content: bytes) -> None:
        self._heard[stream].add(content)
        for line in self._splitters[stream].feed(content):
            self._line = self._clocks.now()
            self._on_line(stream, line)

    def _follow(self, output: _Reader) -> None:
        """Pass the output on until it ends, and stop the container when it must be."""
        while True:
            self._tick()
            chunk = output.next(timeout=_TICK)
            if chunk is None or (not chunk and self._ended_unheard()):
                return
            if chunk:
                self._asked = self._clocks.now()
            for stream, content in chunk:
                self._take(stream, content)

    def _tick(self) -> None:
        """Stop the container when a clock has run out, harder when it does not end."""
        now = self._clocks.now()
        if self._stop is None:
            if self._interrupts.count:
                self._stop = StopReason.INTERRUPT
            elif now - self._wall > self._clocks.wall:
                self._stop = StopReason.WALL
            elif now - self._line > self._clocks.idle:
                self._stop = StopReason.IDLE
            if self._stop is not None:
                self._deadline = now + self._clocks.grace
                self._signal("SIGTERM")
        elif not self._killed and (now > self._deadline or self._interrupts.count > 1):
            self._killed = True
            self._deadline = now + _KILL_PATIENCE
            self._signal("SIGKILL")
        elif self._killed and now > self._deadline:
            message = f"the container {self._container.name} does not end, though it was killed"
            hint = "a process that waits for a device cannot be killed: restart the engine, or the host"
            raise RunFailedError(Failure(kind=ErrorKind.HOST_FAULT, message=message, hint=hint))

    def _ended_unheard(self) -> bool:
        """Say whether a silent container has ended; a connection that is only half there never says so."""
        now = self._clocks.now()
        if now - self._asked < _ASK_EVERY:
            return False
        self._asked = now
        with contextlib.suppress(RunFailedError):
            return self._container.ending() is not None
        return False

    def _signal(self, name: str) -> None:
        # An engine that is away for a moment must not end the watch; the deadlines go on.
        with contextlib.suppress(RunFailedError):
            self._container.signal(name)

    def _ending(self) -> Ending | None:
        """Return how the container ended, once its output has; None when it runs on.

        An engine that does not answer is waited for: it may be restarting.
        """
        output_ended = self._clocks.now()
        pause = 0.02
        while True:
            waited = self._clocks.now() - output_ended
            try:
                ending = self._container.ending()
            except RunFailedError as error:
                gone = "No such container" in error.message
                if gone or waited > self._clocks.engine or self._interrupts.count > 1:
                    raise
            else:
                if ending is not None or waited > _SETTLE:
                    return ending
                self._tick()
            time.sleep(pause)
            pause = min(2 * pause, 0.5)


class _Reader:
    """Reads an attached stream in a thread, so that a silent container does not hold up the clocks.

    Args:
        stream: The stream.
        replays: What leaves out of each stream what is known already.

    Attributes:
        whole: Whether the stream has ended, and without an error.
    """

    def __init__(self, stream: CancellableStream[Chunk], replays: dict[Stream, Replay] | None = None) -> None:
        # Bounded: who writes faster than lines are handled is slowed down, and memory stays small.
        self._queue: queue.Queue[list[tuple[Stream, bytes]] | None] = queue.Queue(maxsize=64)
        self._replays = replays or {}
        self._stream = stream
        self.whole = False
        threading.Thread(target=self._read, name="container-output", daemon=True).start()

    def next(self, *, timeout: float) -> list[tuple[Stream, bytes]] | None:
        """Return what came within the time, perhaps nothing; None when the stream has ended."""
        try:
            return self._queue.get(timeout=timeout)
        except queue.Empty:
            return []

    def _read(self) -> None:
        try:
            for output, errors in self._stream:
                parts: list[tuple[Stream, bytes]] = []
                if output:
                    parts.append(("stdout", self._fresh("stdout", output)))
                if errors:
                    parts.append(("stderr", self._fresh("stderr", errors)))
                self._queue.put([(stream, content) for stream, content in parts if content])
            self.whole = True
        except (DockerException, RequestException, HTTPError, OSError, ValueError):
            pass  # a connection that broke; what became of the container is asked then
        finally:
            self._queue.put(None)

    def _fresh(self, stream: Stream, content: bytes) -> bytes:
        replay = self._replays.get(stream)
        return content if replay is None else replay.fresh(content)
