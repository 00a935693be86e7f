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
    from collections.abc import Callable, Iterable, Iterator

    from rentbench.driver.containers import Ending, SuiteContainer
    from rentbench.driver.interrupts import Interrupts

__all__ = ["Clocks", "OnLine", "StopReason", "Watch"]

Stream = Literal["stdout", "stderr"]
Piece = tuple[Stream, bytes]
_TICK = 0.1  # seconds between looks at the clocks and at interrupts
_KILL_PATIENCE = 15.0  # seconds from SIGKILL until the container must be gone
_LOST = 1.0  # seconds from the end of the output to that of the container from which on some may be missed
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
        output = _Reader(_pieces(self._container.attach()))
        self._container.start()
        self._wall = self._line = self._asked = self._clocks.now()
        while True:
            self._follow(output)
            ended = self._clocks.now()
            ending = self._ending()
            if ending is not None:
                break
            # The connection broke, or the program closed its output; the container goes on.
            output = _Reader(self._unheard("stdout"), self._unheard("stderr"))
        # By our own clock alone: the engine's may be another machine's.
        if not output.whole or self._clocks.now() - ended > _LOST:
            self._catch_up()
        for stream, splitter in self._splitters.items():
            for line in splitter.close():
                self._on_line(stream, line)
        return ending

    def _catch_up(self) -> None:
        """Read what a container that has ended said after the connection to it broke."""
        for stream in self._heard:
            for piece in self._unheard(stream):
                self._take(*piece)

    def _unheard(self, stream: Stream) -> Iterator[Piece]:
        """Yield what was not heard yet of a stream, from the engine's log, until the container ends."""
        replay = self._heard[stream].replay()
        for chunk in self._container.output(stream):
            fresh = replay.fresh(chunk)
            if fresh:
                yield stream, fresh

    def _take(self, stream: Stream, content: bytes) -> None:
        self._heard[stream].add(content)
        for line in self._splitters[stream].feed(content):
            self._line = self._clocks.now()
            self._on_line(stream, line)

    def _follow(self, output: _Reader) -> None:
        """Pass the output on until it ends, and stop the container when it must be."""
        while not output.ended:
            self._tick()
            piece = output.next(timeout=_TICK)
            if piece is not None:
                self._asked = self._clocks.now()
                self._take(*piece)
            elif self._ended_unheard():
                return

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
    """Reads output in threads, so that a silent container does not hold up the clocks.

    Args:
        sources: What to read at the same time.
    """

    def __init__(self, *sources: Iterable[Piece]) -> None:
        # Bounded: who writes faster than lines are handled is slowed down, and memory stays small.
        self._queue: queue.Queue[Piece | None] = queue.Queue(maxsize=64)
        self._open = len(sources)
        self._broken = False
        for source in sources:
            threading.Thread(target=self._read, args=(source,), name="container-output", daemon=True).start()

    @property
    def ended(self) -> bool:
        """Whether every source has ended, and all that it gave was taken."""
        return self._open == 0

    @property
    def whole(self) -> bool:
        """Whether every source has ended, and none broke off."""
        return self.ended and not self._broken

    def next(self, *, timeout: float) -> Piece | None:
        """Return what comes next; None when nothing does within the time, or a source ends."""
        try:
            piece = self._queue.get(timeout=timeout)
        except queue.Empty:
            return None
        if piece is None:
            self._open -= 1
        return piece

    def _read(self, source: Iterable[Piece]) -> None:
        try:
            for piece in source:
                self._queue.put(piece)
        except (RunFailedError, DockerException, RequestException, HTTPError, OSError, ValueError):
            self._broken = True  # a connection that broke; what became of the container is asked then
        finally:
            self._queue.put(None)


def _pieces(attached: Iterable[tuple[bytes | None, bytes | None]]) -> Iterator[Piece]:
    """Yield the streams of an attached container one after the other."""
    for output, errors in attached:
        if output:
            yield "stdout", output
        if errors:
            yield "stderr", errors
