"""SIGTERM, SIGINT and SIGHUP end a run early: they only set a flag and wake who waits."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["Interruption"]

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Interruption:
    """Catches the signals while it is entered: `with Interruption() as interruption: …`.

    Process 1 of a container has no default actions, so without it a `docker stop` would wait and then kill.

    Attributes:
        signal: Name of the first signal that came, such as SIGTERM; None before.
        count: How many came; the second one means "now".
    """

    def __init__(self) -> None:
        self.signal: str | None = None
        self.count = 0
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._before: dict[int, object] = {}

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when a signal comes."""
        return self._reader

    def drain(self) -> None:
        """Make the descriptor wait for the next signal."""
        try:
            os.read(self._reader, 4096)
        except BlockingIOError:
            return

    def __bool__(self) -> bool:
        return self.count > 0

    def __enter__(self) -> Self:
        self._wakeup_before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        # One that is ignored stays so: `nohup` means that a run outlives its terminal.
        caught = [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._handle) for number in caught}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        signal.set_wakeup_fd(self._wakeup_before)
        os.close(self._reader)
        os.close(self._writer)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self.signal = self.signal or signal.Signals(number).name
        self.count += 1
