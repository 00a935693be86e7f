"""One rank: it joins the others, runs the suite's script for each job, and tells results and failures.

Started by torchrun as `python -m rentbench.harness.ranks.rank SCRIPT FOLDER DEVICE TIMEOUT_SECONDS`. The
script is a file of the suite with a function `run(rank, job)`; what that returns goes to the workload.
Modules beside it can be imported by their plain name.
"""

from __future__ import annotations

import faulthandler
import importlib.util
import json
import os
import signal
import sys
import traceback
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rentbench.core.errors import ErrorKind
from rentbench.harness.failures.classify import classify
from rentbench.harness.workers.events import EventWriter
from rentbench.harness.workers.processes import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from rentbench.harness.context import Phase

__all__ = ["Rank", "events_path", "jobs_path", "main"]


def events_path(folder: Path, rank: int) -> Path:
    """Return the named pipe over which a rank tells the workload what it does."""
    return folder / f"events-{rank}"


def jobs_path(folder: Path, rank: int) -> Path:
    """Return the named pipe over which a rank gets its jobs."""
    return folder / f"jobs-{rank}"


class Rank:
    """What a script sees of the group that it belongs to.

    Attributes:
        index: Number of this rank, from 0.
        count: How many ranks there are.
        device: "cuda:0" and so on, a GPU of its own for each rank; or "cpu".
    """

    def __init__(self, *, index: int, count: int, device: str, emit: EventWriter) -> None:
        self.index = index
        self.count = count
        self.device = device
        self.failed_part: str | None = None
        self._emit = emit

    @contextmanager
    def phase(self, name: Phase) -> Iterator[None]:
        """Time a phase of the case, as `Context.phase` does; that of rank 0 counts."""
        self.synchronize()
        self._tell({"event": "phase_started", "phase": name})
        yield
        self.synchronize()
        self._tell({"event": "phase_ended"})

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Name the part of the work that runs, as `Context.part` does; an error is reported under it."""
        try:
            yield
        except BaseException:
            self.failed_part = self.failed_part or name
            raise

    def synchronize(self) -> None:
        """Wait until this rank's GPU is idle; nothing to wait for on a CPU."""
        if self.device != "cpu":
            sys.modules["torch"].cuda.synchronize()

    def _tell(self, event: dict[str, Any]) -> None:
        if self.index == 0:
            self._emit(event)


def main(arguments: list[str]) -> int:
    """Run jobs until there are no more; returns 0. A failure is told, and ends the process at once."""
    script, folder, device, timeout_seconds = arguments
    die_with_parent(os.getppid())
    faulthandler.enable()  # a crash inside a library then leaves its Python stack in the log
    faulthandler.register(signal.SIGUSR1, all_threads=False)  # where it hangs, when the workload asks
    index, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    emit = EventWriter(os.open(events_path(Path(folder), index), os.O_WRONLY))
    emit({"event": "started", "process": os.getpid()})
    rank = Rank(index=index, count=count, device="cpu" if device == "cpu" else f"cuda:{index}", emit=emit)
    try:
        _serve(rank, Path(script), jobs_path(Path(folder), index), float(timeout_seconds), emit)
    except BaseException as error:  # noqa: BLE001 (sys.exit in a script is a failure too)
        traceback.print_exc()
        emit({"event": "failed", "error": _error(rank, error)})
        sys.stdout.flush()
        sys.stderr.flush()
        # An ordinary end would wait for the collective operations that others will never join.
        os._exit(1)
    return 0


def _serve(rank: Rank, script: Path, jobs: Path, timeout_seconds: float, emit: EventWriter) -> None:
    import torch
    import torch.distributed as dist

    on_gpu = rank.device != "cpu"
    if on_gpu:
        torch.cuda.set_device(rank.device)
    dist.init_process_group(
        "nccl" if on_gpu else "gloo",
        timeout=timedelta(seconds=timeout_seconds),
        device_id=torch.device(rank.device) if on_gpu else None,
    )
    module = _load(script)
    with jobs.open() as lines:
        emit({"event": "ready"})
        for line in lines:
            if on_gpu:
                torch.cuda.reset_peak_memory_stats()
            result = module.run(rank, json.loads(line))
            peak = torch.cuda.max_memory_allocated() if on_gpu else None
            emit({"event": "answer", "result": result, "peak_memory_bytes": peak})
    dist.destroy_process_group()


def _load(script: Path) -> ModuleType:
    sys.path.insert(0, str(script.parent))
    spec = importlib.util.spec_from_file_location(script.stem, script)
    if spec is None or spec.loader is None:
        msg = f"{script.name} cannot be loaded"
        raise ImportError(msg)
    module = importlib.util.module_from_spec(spec)
    sys.modules[script.stem] = module
    spec.loader.exec_module(module)
    return module


def _error(rank: Rank, error: BaseException) -> dict[str, Any]:
    document: dict[str, Any] = {**classify(traceback.format_exc(), exception=error, phase=rank.failed_part)}
    if document["kind"] == ErrorKind.OOM and document["memory_allocated_bytes"] is None:
        document["memory_allocated_bytes"] = sys.modules["torch"].cuda.memory_allocated()
    return document


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
