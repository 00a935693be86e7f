"""torchrun, and what it knows about the end of each rank, told as events instead of as a printed table.

Run by a guard as `python -m rentbench.harness.ranks.launcher EVENTS_DESCRIPTOR TORCHRUN_ARGUMENTS… GUARD`.
"""

from __future__ import annotations

import os
import sys
import traceback

from rentbench.harness.workers.events import EventWriter
from rentbench.harness.workers.processes import die_with_parent

__all__ = ["main"]


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
