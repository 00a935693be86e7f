"""The process between supervisor and worker, so that no process of a worker stays behind.

It is the worker's parent and adopts the worker's orphans, so it sees every process that the worker has
started, daemons too. Its standard input is a pipe that the supervisor holds: the byte `T` asks the worker
to end (SIGTERM to its process group); the end of the pipe, which also comes when the supervisor is killed,
kills everything. When the worker has ended, what it left behind is killed, and an event tells the worker's
exit code.

Run as `python -m rentbench.harness.workers.guard EVENTS_DESCRIPTOR COMMAND…`; the guard's process id is
added to the command.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys

from rentbench.harness.workers.events import EventWriter
from rentbench.harness.workers.processes import adopt_orphans, kill_descendants, reap_children

__all__ = ["main"]

TERMINATE = b"T"


def main(arguments: list[str]) -> int:
    """Run the command under guard; returns 0 once it and all that it started have ended."""
    emit = EventWriter(int(arguments[0]))
    adopt_orphans()
    wake_reader, wake_writer = os.pipe()
    os.set_blocking(wake_writer, False)
    signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    worker = subprocess.Popen(
        [*arguments[1:], str(os.getpid())], stdin=subprocess.DEVNULL, close_fds=False, start_new_session=True
    )
    code: int | None = None
    while code is None:
        readable, _, _ = select.select([sys.stdin.fileno(), wake_reader], [], [])
        if wake_reader in readable:
            os.read(wake_reader, 4096)
            code = reap_children().get(worker.pid)
        elif os.read(sys.stdin.fileno(), 1) == TERMINATE:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(worker.pid, signal.SIGTERM)
        else:
            break
    worker.returncode = code if code is not None else -signal.SIGKILL  # collected here, not by `subprocess`
    left = kill_descendants()
    reap_children()
    # Nobody reads any more when the supervisor is gone.
    with contextlib.suppress(OSError):
        emit({"event": "exited", "code": worker.returncode, "left": left})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
