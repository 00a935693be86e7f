"""torchrun, and what it knows about the end of each rank, told as events instead of as a printed table.

Run by a guard as `python -m rentbench.harness.ranks.launcher EVENTS_DESCRIPTOR TORCHRUN_ARGUMENTS… GUARD`.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import TYPE_CHECKING

from rentbench.harness.workers.events import EventWriter
from rentbench.harness.workers.processes import die_with_parent

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["main", "rank_environment", "torchrun_arguments"]

_LOOPBACK = "lo"


def main(arguments: list[str]) -> int:
    """Run torchrun to its end; returns 0 where every rank ended well."""
    events, guard = int(arguments[0]), int(arguments[-1])
    die_with_parent(guard)
    os.set_inheritable(events, False)
    emit = EventWriter(events)
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    try:
        run.main(arguments[1:-1])
    except ChildFailedError as failed:
        for rank, failure in failed.failures.items():
            emit({"event": "rank_exited", "rank": rank, "code": failure.exitcode})
        return 1
    except Exception:  # noqa: BLE001 (whatever it is, the workload names it)
        traceback.print_exc()
        emit({"event": "launcher_failed", "text": traceback.format_exc()})
        return 1
    return 0


def torchrun_arguments(ranks: int, folder: Path, *arguments: str) -> list[str]:
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


def rank_environment(ranks: int, folder: Path) -> dict[str, str]:
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
