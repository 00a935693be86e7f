"""What process 1 of a container owes the rest: it passes signals on, and collects the processes that end."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["run_as_init"]

_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def run_as_init(main: Callable[[], int]) -> int:
    """Run `main` in a child, and be its init process; for process 1 without `docker run --init`.

    Must be called before any thread is started.

    Returns:
        In the child what `main` returns; in the parent, later, the child's exit code, or 128 plus the
        number of the signal that killed it. Both are to exit with it.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)
    child = os.fork()
    if child == 0:
        # A group of its own: a terminal's Ctrl-C then comes once, through its parent, and not twice.
        os.setpgid(0, 0)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)
        return main()

    def forward(number: int, _frame: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    for number in _FORWARDED:
        signal.signal(number, forward)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)
    while True:
        process, status = os.wait()
        if process == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
