"""torchrun under a guard: how it is started, and how it and all its ranks are ended."""

from __future__ import annotations

import contextlib
import os
import subprocess
from typing import TYPE_CHECKING

from rentbench.harness.tools import module_command
from rentbench.harness.workers.guard import TERMINATE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["Torchrun"]

_KILL_SECONDS = 10.0
_LOOPBACK = "lo"


class Torchrun:
    """A running torchrun. Its output is this process's.

    Args:
        arguments: Of each rank.
        ranks: How many.
        folder: Gets the folder `log` with each rank's output, and temporary files.
        environment: Variables for the ranks beside those of this process.

    Attributes:
        events: Descriptor from which the launcher's and the guard's events come; it ends with the guard.
            The caller closes it.
    """

    def __init__(self, *arguments: str, ranks: int, folder: Path, environment: Mapping[str, str]) -> None:
        self.events, writer = os.pipe()
        os.set_blocking(self.events, False)
        lifeline_reader, self._lifeline = os.pipe()
        guard = module_command("rentbench.harness.workers.guard", str(writer))
        torchrun = _torchrun_arguments(ranks, folder, *arguments)
        launcher = module_command("rentbench.harness.ranks.launcher", str(writer), *torchrun)
        try:
            self._guard = subprocess.Popen(
                [*guard, *launcher],
                stdin=lifeline_reader,
                pass_fds=(writer,),
                env={**_rank_environment(ranks, folder), **environment},
                start_new_session=True,
            )
        except BaseException:
            os.close(self.events)
            os.close(self._lifeline)
            raise
        finally:
            os.close(writer)
            os.close(lifeline_reader)

    @property
    def is_gone(self) -> bool:
        """Whether it has been ended for good."""
        return self._guard.returncode is not None

    def terminate(self) -> None:
        """Ask torchrun to end (SIGTERM); it passes that on to the ranks."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._lifeline, TERMINATE)

    def kill(self) -> None:
        """Kill what is left of it, and return when nothing is; once only."""
        os.close(self._lifeline)
        try:
            self._guard.wait(_KILL_SECONDS)
        except subprocess.TimeoutExpired:  # it waits for a process that hangs inside a driver
            self._guard.kill()
            self._guard.wait()


def _torchrun_arguments(ranks: int, folder: Path, *arguments: str) -> list[str]:
    """Return torchrun's arguments: one machine, a free port, each rank's output in a file and in ours.

    Args:
        ranks: How many.
        folder: Gets the folder `log`.
        arguments: Of each rank.
    """
    return [
        *("--standalone", "--nproc-per-node", str(ranks), "--local-addr", "127.0.0.1"),
        *("--log-dir", str(folder / "log"), "--tee", "3"),
        *("--module", "rentbench.harness.ranks.rank", *arguments),
    ]


def _rank_environment(ranks: int, folder: Path) -> dict[str, str]:
    """Return the environment of the ranks: what the user set, and what keeps them on this machine.

    Args:
        ranks: How many share the processors.
        folder: For temporary files.
    """
    threads = max(1, len(os.sched_getaffinity(0)) // ranks)
    defaults = {"OMP_NUM_THREADS": str(threads), "NCCL_DEBUG": "WARN"}
    needed = {
        "GLOO_SOCKET_IFNAME": _LOOPBACK,
        "NCCL_SOCKET_IFNAME": _LOOPBACK,
        "TMPDIR": str(folder),
        "PYTHONUNBUFFERED": "1",
        "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "[rank ${rank}] ",
    }
    return {**defaults, **os.environ, **needed}
