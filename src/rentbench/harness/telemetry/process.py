"""The process that samples power, temperature, clocks and memory while a run lasts.

`python -m rentbench.harness.telemetry --interval 1 --output FILE` samples until its standard input ends or
SIGTERM comes. Stamps are `time.monotonic()` seconds, which all processes of a machine share. `sampler` tells
the file's format.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
from typing import TYPE_CHECKING, Final, Self

from rentbench.harness.tools import module_command, module_environment

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

__all__ = ["TelemetryProcess"]

_KILL_SECONDS: Final = 2.0


class TelemetryProcess:
    """The sampling process: `with TelemetryProcess(path): …`.

    It ends with its parent, whatever happens to that.

    Args:
        output: The file to write, worth keeping as an artifact. It must not exist yet.
        interval_seconds: Between two samples.
    """

    def __init__(self, output: Path, *, interval_seconds: float = 1.0) -> None:
        self.output = output
        self.interval_seconds = interval_seconds
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start sampling; returns at once. Where that fails, the run goes on and the file stays empty."""
        command = module_command(
            "rentbench.harness.telemetry",
            "--interval",
            str(self.interval_seconds),
            "--output",
            str(self.output),
        )
        with contextlib.suppress(OSError), self.output.open("ab") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,  # what goes wrong is told in the file, too
                env=module_environment(),
                start_new_session=True,  # Ctrl-C is for the supervisor, which ends this one last
            )

    @property
    def pid(self) -> int | None:
        """The process's id; None when it is not running."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def stop(self, *, timeout_seconds: float = 5.0) -> None:
        """End it after a last sample, or kill it when it does not end in time. May be called twice."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin:
            with contextlib.suppress(OSError):
                process.stdin.close()
        try:
            process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_KILL_SECONDS)  # a driver call that hangs in the kernel outlives even this

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
