"""The process that measures: it loads a suite's workload.py and runs its cases, one after the other.

Run as `python -m rentbench.harness.workers.worker EVENTS_DESCRIPTOR JOB_DESCRIPTOR PARENT`. What it and the
workload print is the run's log; what it measures goes as events to the supervisor, so that nothing is lost
when it dies.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib.util
import os
import random
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rentbench.core.errors import ErrorKind
from rentbench.harness.context import Context
from rentbench.harness.failures.classify import classify
from rentbench.harness.outcomes import CaseFailed, CaseSkipped
from rentbench.harness.timing import make_timer
from rentbench.harness.workers.devices import CpuDevice, CudaDevice, DeviceError
from rentbench.harness.workers.events import EventWriter
from rentbench.harness.workers.job import receive_job
from rentbench.harness.workers.processes import die_with_parent
from rentbench.harness.workers.software import installed_software

if TYPE_CHECKING:
    from types import ModuleType

    from rentbench.harness.timing import WarmUp
    from rentbench.harness.workers.devices import Device
    from rentbench.harness.workers.job import Job

__all__ = ["main"]

# Whatever a workload raises is a result, also where it calls `sys.exit`.
_ENDS = (Exception, CaseFailed, SystemExit)


def main(arguments: list[str]) -> int:
    """Run the job; returns 0 also where cases failed, because the events tell that."""
    events, job_descriptor, parent = map(int, arguments)
    die_with_parent(parent)
    faulthandler.enable()  # a crash inside a library then leaves its Python stack in the log
    os.set_inheritable(events, False)
    emit = EventWriter(events)
    job = receive_job(job_descriptor)
    try:
        worker = _Worker(job, emit)
    except _ENDS as error:
        traceback.print_exc()
        emit({"event": "failed", "error": _error(error, phase=None)})
    else:
        worker.run()
    return 0


class _Worker:
    def __init__(self, job: Job, emit: EventWriter) -> None:
        self._job = job
        self._emit = emit
        self._device: Device = CudaDevice() if job.device == "cuda" else CpuDevice()
        self._workload = _load_workload(Path(job.suite_folder))
        self._context = Context(
            device=job.device,
            device_count=self._device.count,
            preset=job.preset,
            settings=job.settings,
            seed=job.seed,
            repeat=job.repeat,
            scratch=Path(job.scratch),
            host=job.host,
            timer=make_timer(job.device, self._report_warm_up),
            metrics=dict.fromkeys(job.metrics),
            emit=emit,
        )

    def run(self) -> None:
        self._report_software()
        if not self._step("prepare"):
            return
        for index, parameters in self._job.cases:
            self._run_case(index, parameters)
            if not self._device.works():
                # The supervisor goes on with the rest in a fresh process.
                self._emit({"event": "abandoned", "reason": "the GPU's context is broken"})
                return
        self._step("finish")
        self._report_software()  # what was imported meanwhile

    def _step(self, name: str) -> bool:
        """Call `prepare` or `finish`, where the workload has it; says whether it went well."""
        step = getattr(self._workload, name, None)
        if step is None:
            return True
        self._seed()
        self._context.enter(None)
        try:
            step(self._context)
        except CaseSkipped as skipped:
            self._emit({"event": "skipped", "reason": str(skipped)})
            return False
        except _ENDS as error:
            traceback.print_exc()
            self._emit({"event": "failed", "error": self._describe(error)})
            return False
        return True

    def _run_case(self, index: int, parameters: dict[str, Any]) -> None:
        self._seed()
        self._device.begin_case()
        self._context.enter(index)
        self._emit({"event": "case_started", "case": index})
        status, error_document, reason = "ok", None, None
        try:
            self._workload.run(parameters, self._context)
            if not self._context.recorded:
                message = "the case ended without recording any metric"
                raise CaseFailed(ErrorKind.NO_OUTPUT, message, hint=None)
        except CaseSkipped as skipped:
            status, reason = "skipped", str(skipped) or "no reason given"
        except _ENDS as error:
            traceback.print_exc()
            status, error_document = "failed", self._describe(error)
        peak, peak_reason = self._device.peak_memory()
        if self._context.peak_memory_bytes is not None:
            peak, peak_reason = self._context.peak_memory_bytes, None
        self._context.enter(None)
        self._emit(
            {
                "event": "case_finished",
                "case": index,
                "status": status,
                "error": error_document,
                "reason": reason,
                "peak_memory_bytes": peak,
                "peak_memory_reason": peak_reason,
            }
        )
        # The exception held the case's tensors until here.
        gc.collect()
        self._device.end_case()

    def _describe(self, error: BaseException) -> dict[str, Any]:
        document = _error(error, phase=self._context.failed_phase)
        # What torch's message says is of the very moment; by now some of it has been given back.
        if document["kind"] == ErrorKind.OOM and document["memory_allocated_bytes"] is None:
            document["memory_allocated_bytes"] = self._device.allocated_memory()
        return document

    def _seed(self) -> None:
        """Set every random generator, before each case anew: its inputs do not depend on earlier cases."""
        random.seed(self._job.seed)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(self._job.seed % 2**32)
        if "torch" in sys.modules:
            sys.modules["torch"].manual_seed(self._job.seed)

    def _report_warm_up(self, outcome: WarmUp) -> None:
        self._emit({"event": "warm_up", "steady": outcome.steady})

    def _report_software(self) -> None:
        versions, missing = installed_software(self._job.packages)
        self._emit({"event": "software", "versions": versions, "missing": missing})


def _load_workload(folder: Path) -> ModuleType:
    sys.path.insert(0, str(folder))
    spec = importlib.util.spec_from_file_location("workload", folder / "workload.py")
    if spec is None or spec.loader is None:
        msg = f"{folder.name}/workload.py cannot be loaded"
        raise ImportError(msg)
    module = importlib.util.module_from_spec(spec)
    sys.modules["workload"] = module
    spec.loader.exec_module(module)
    return module


def _error(error: BaseException, *, phase: str | None) -> dict[str, Any]:
    """Return the schema's form of what a workload raised; the log's end is the exception's own traceback."""
    document: dict[str, Any] = {**classify(traceback.format_exc(), exception=error, phase=phase)}
    if isinstance(error, CaseFailed | DeviceError):
        document |= {"kind": str(error.kind), "message": error.message or error.kind, "hint": error.hint}
    if isinstance(error, CaseFailed):
        document["phase"] = error.part or document["phase"]
        document["memory_allocated_bytes"] = error.memory_allocated_bytes
    return document


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
