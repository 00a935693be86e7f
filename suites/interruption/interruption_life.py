"""One life of the training process: started, listened to, and ended by a signal or by itself."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable

    from interruption_trainer import Plan

__all__ = ["Life", "LifeError"]

_TRAINER = Path(__file__).with_name("interruption_trainer.py")


class LifeError(Exception):
    """The training process did not do what it should.

    Attributes:
        code: Its exit code, negative for a signal; None where it was too slow and was ended.
        output: The end of what it printed.
    """

    def __init__(self, message: str, *, code: int | None, output: str) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.output = output


class Life:
    """A running training process.

    Attributes:
        started: time.monotonic() when it was started.
        ended: time.monotonic() when it had ended; None before.
        events: What it has told so far.

    Args:
        plan: What it does.
        log: File for what it prints.
        limit_seconds: How long anything is waited for.
    """

    def __init__(self, plan: Plan, log: Path, *, limit_seconds: float) -> None:
        self._log = log
        self._limit = limit_seconds
        self._told: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self.events: list[dict[str, Any]] = []
        self.ended: float | None = None
        reader, writer = os.pipe()
        # cuBLAS gives the same bits twice only with a workspace of a fixed size.
        environment = {**os.environ, "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
        with log.open("ab") as output:
            self.started = time.monotonic()
            self._process = subprocess.Popen(
                [sys.executable, str(_TRAINER), plan.encode(), str(writer)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                pass_fds=[writer],
            )
        os.close(writer)
        self._listener = threading.Thread(target=self._listen, args=(reader,), daemon=True)
        self._listener.start()
        self._waiter = threading.Thread(target=self._wait, daemon=True)
        self._waiter.start()

    def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait for an event and return it.

        Raises:
            LifeError: The process ended before, or nothing came for too long.
        """
        while True:
            try:
                event = self._told.get(timeout=self._limit)
            except queue.Empty:
                self.kill()
                msg = f"the training process told nothing for {self._limit:g} s"
                raise LifeError(msg, code=None, output=self.output()) from None
            if event is None:
                msg = f"the training process ended early, with exit code {self._process.returncode}"
                raise LifeError(msg, code=self._process.returncode, output=self.output())
            self.events.append(event)
            if wanted(event):
                return event

    def end(self, number: signal.Signals | None = None) -> int:
        """Send a signal, wait until the process has ended, and return its exit code.

        Raises:
            LifeError: It did not end.
        """
        if number is not None:
            self._process.send_signal(number)
        self._waiter.join(self._limit)
        if self._waiter.is_alive():
            self.kill()
            msg = f"the training process did not end within {self._limit:g} s"
            raise LifeError(msg, code=None, output=self.output())
        while (event := self._told.get()) is not None:
            self.events.append(event)
        return int(self._process.returncode)

    def kill(self) -> None:
        """End the process at once, if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
        self._waiter.join()

    def output(self) -> str:
        """Return the end of what it printed."""
        return self._log.read_text(encoding="utf-8", errors="replace")[-20_000:]

    def of(self, name: str) -> list[dict[str, Any]]:
        """Return all events of one kind."""
        return [event for event in self.events if event["event"] == name]

    def _listen(self, reader: int) -> None:
        with os.fdopen(reader, encoding="utf-8") as lines:
            for line in lines:
                if line.endswith("\n"):  # a killed process may leave half of one
                    self._told.put(json.loads(line))

    def _wait(self) -> None:
        self._process.wait()
        self.ended = time.monotonic()
        self._listener.join()
        self._told.put(None)
