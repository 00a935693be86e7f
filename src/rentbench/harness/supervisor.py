"""One run from start to result: probe, repeats, telemetry, merge. It imports neither torch nor numpy.

Once a run has begun it leaves a result, whatever happens to the workload.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

from rentbench.core.errors import ErrorKind
from rentbench.core.ids import new_id, utc_now
from rentbench.harness.checks import check, software_checks, standard_checks
from rentbench.harness.delivery import deliver
from rentbench.harness.document import Findings, build_document
from rentbench.harness.failures.classify import classify
from rentbench.harness.failures.documents import error_document, not_run
from rentbench.harness.interruption import Interruption
from rentbench.harness.logfile import LogFile
from rentbench.harness.probe.choice import UNKNOWN, choose_device, probe, without_gpus
from rentbench.harness.probe.fitness import notes
from rentbench.harness.progress import Progress
from rentbench.harness.results import LOG, SAMPLES, TELEMETRY, ResultFolder
from rentbench.harness.telemetry import TelemetryProcess, TelemetrySummary, summarize
from rentbench.harness.tools import module_environment
from rentbench.harness.workers.collector import Collector
from rentbench.harness.workers.processes import adopt_orphans
from rentbench.harness.workers.repeat import Surroundings, run_repeat

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rentbench.harness.arguments import Request
    from rentbench.harness.probe.choice import DeviceChoice
    from rentbench.harness.workers.collector import CaseOutcome

__all__ = ["run"]


def run(request: Request, *, out: TextIO, err: TextIO) -> int:
    """Run a suite, leave a result, and return the exit code.

    Args:
        request: What was asked for.
        out: Takes the table, or the document.
        err: Takes progress and log.
    """
    adopt_orphans()
    with Interruption() as interruption:
        return _Run(request, interruption, err).execute(out)


class _Run:
    def __init__(self, request: Request, interruption: Interruption, err: TextIO) -> None:
        self._begin = time.monotonic()
        self._started = utc_now()
        self._identifier = new_id()
        self._request = request
        self._interruption = interruption
        self._progress = Progress(err, len(request.cases) * request.repeats, os.environ)
        self._results = ResultFolder(request.results, self._identifier)
        if self._results.problem is not None:
            self._progress.say(f"{self._results.problem}; the document will go to standard output")
        log = self._results.expect(LOG, "what the workload printed, redacted")
        self._log = LogFile(log, self._progress.log)
        # What the run finds out.
        self._found = UNKNOWN
        self._choice: DeviceChoice | None = None
        self._environment: dict[str, str] = dict(os.environ)
        self._telemetry = TelemetrySummary(telemetry=None, unavailable=[], link_under_load=[])
        self._repeats: list[Collector] = []
        self._outcomes: list[list[CaseOutcome]] = [[] for _ in request.cases]
        self._error: dict[str, Any] | None = None

    def execute(self, out: TextIO) -> int:
        """Measure, then leave a result; returns the exit code."""
        try:
            self._measure()
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends in a result
            self._fail({**classify("", exception=error)})
        skip_reason = self._choice.skip_reason if self._choice else None
        for outcomes in self._outcomes:
            if len(outcomes) < self._request.repeats and _may_run(outcomes):
                outcomes.append(not_run(self._error, skip_reason))
        self._log.close()
        if self._log.error is not None:
            self._progress.say(f"the log is incomplete: {self._log.error.strerror}")
        self._write_samples()
        document = build_document(self._request, self._findings())
        return deliver(document, self._request, self._results, self._progress, out)

    def _measure(self) -> None:
        suite = self._request.suite
        self._progress.say(
            f"{suite.name} {suite.version}, preset {self._request.preset}: looking at the host"
        )
        if self._results.problem is not None:
            self._progress.say(f"{self._results.problem}: the document will go to standard output")
        found = probe(self._interruption, self._results.folder)
        self._choice = choose_device(self._request, found)
        self._found = without_gpus(found) if self._choice.device == "cpu" else found
        for note in notes(self._found.host["gpus"]):
            self._progress.say(f"note: {note}")
        self._environment = _worker_environment(self._choice.device, self._request.seed)
        for name, text in found.outputs.items():
            self._keep(name, text.encode(), "as the tool printed it, redacted")
        if self._interruption:
            self._fail_interrupted()
        elif self._choice.error is not None:
            self._fail(self._choice.error)
        else:
            with _scratch_folder(self._results.folder) as scratch:
                if self._choice.device == "cpu":
                    self._run_repeats("cpu", scratch)
                else:
                    self._run_under_telemetry(scratch)

    def _run_under_telemetry(self, scratch: Path) -> None:
        readings = scratch / TELEMETRY
        try:
            with TelemetryProcess(readings):
                self._run_repeats("cuda", scratch)
        finally:
            windows = [window for repeat in self._repeats for window in repeat.measure_windows]
            self._telemetry = summarize(readings, windows, gpu_count=len(self._found.host["gpus"]))
            # The sampling process tells what went wrong in this file, too: it is redacted like all else.
            with contextlib.suppress(OSError):
                text = readings.read_text(encoding="utf-8", errors="replace")
                self._keep(TELEMETRY, text.encode(), "readings of the GPUs at about 1 Hz")

    def _run_repeats(self, device: Literal["cuda", "cpu"], scratch: Path) -> None:
        around = Surroundings(
            request=self._request,
            device=device,
            host=self._found.host,
            environment=self._environment,
            scratch=scratch,
            interruption=self._interruption,
            log=self._log,
            progress=self._progress,
        )
        for number in range(self._request.repeats):
            wanted = [index for index, outcomes in enumerate(self._outcomes) if _may_run(outcomes)]
            if not wanted:
                break
            if self._interruption:
                self._fail_interrupted()
                break
            collector = Collector(self._keep_encoded)
            self._repeats.append(collector)
            run_repeat(around, number, wanted, collector)
            for index in wanted:
                self._outcomes[index].append(collector.cases[index])
            if collector.error is not None:
                self._fail(collector.error)

    def _fail(self, error: dict[str, Any]) -> None:
        """Take an error of the whole run; the first one is the cause, and stays."""
        self._error = self._error or error

    def _fail_interrupted(self) -> None:
        self._fail(error_document(ErrorKind.INTERRUPTED, f"the run was ended by {self._interruption.signal}"))

    def _findings(self) -> Findings:
        host = {
            **self._found.host,
            "gpus": _under_load(self._found.host["gpus"], self._telemetry.link_under_load),
        }
        return Findings(
            identifier=self._identifier,
            started=self._started,
            seconds=time.monotonic() - self._begin,
            host=host,
            telemetry=self._telemetry.telemetry,
            outcomes=self._outcomes,
            repeats=self._repeats,
            error=self._error,
            checks=self._checks(host),
            unavailable=[*self._found.unavailable, *self._telemetry.unavailable],
            environment=self._environment,
            artifacts=self._results.artifacts(),
        )

    def _checks(self, host: dict[str, Any]) -> list[dict[str, Any]]:
        if not self._repeats or self._choice is None:
            return []
        software = software_checks(
            self._request.suite.needs.packages, [repeat.missing_packages for repeat in self._repeats]
        )
        if self._choice.device == "cpu":
            return [check("gpu_used", None, "the run measured the CPU"), *software]
        gpu = standard_checks(
            host,
            self._found.gpu_problem,
            self._telemetry,
            peak_memory_bytes=max(
                (outcome.peak_memory_bytes or 0 for outcomes in self._outcomes for outcome in outcomes),
                default=0,
            ),
            warm_ups=[steady for repeat in self._repeats for steady in repeat.warm_ups],
        )
        return [*gpu, *software]

    def _write_samples(self) -> None:
        lines = [
            json.dumps(
                {
                    "case": index,
                    "metric": metric,
                    "repeat": number,
                    "unit": record.samples_unit or self._request.suite.metrics[metric].unit,
                    "values": record.samples,
                }
            )
            for number, repeat in enumerate(self._repeats)
            for index, outcome in repeat.cases.items()
            for metric, record in outcome.records.items()
            if record.samples
        ]
        if lines:
            text = "\n".join(lines) + "\n"
            self._keep(SAMPLES, text.encode(), "every single reading, one line a case, metric and repeat")

    def _keep_encoded(self, name: str, encoded: str, description: str) -> None:
        self._keep(name, base64.b64decode(encoded), description)

    def _keep(self, name: str, data: bytes, description: str) -> None:
        try:
            self._results.add(name, data, description)
        except OSError as error:
            self._progress.say(f"{name} is not kept: {error.strerror}")


def _may_run(outcomes: Sequence[CaseOutcome]) -> bool:
    """Say whether another repeat could still change a case's status."""
    return all(outcome.status in {"ok", "invalid"} for outcome in outcomes)


def _worker_environment(device: str, seed: int) -> dict[str, str]:
    environment = {
        **module_environment(),
        # The numbering of NVML and nvidia-smi, so that readings belong to the GPU that works.
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "PYTHONHASHSEED": str(seed % 2**32),
        # Whatever a workload prints comes at once, and never ends it.
        "PYTHONUNBUFFERED": "1",
        "PYTHONIOENCODING": "utf-8:backslashreplace",
    }
    if device == "cpu":
        environment["CUDA_VISIBLE_DEVICES"] = ""
    return environment


def _under_load(
    gpus: Sequence[dict[str, Any]], links: Sequence[tuple[int | None, int | None]]
) -> list[dict[str, Any]]:
    """Return the GPUs with the PCIe link as it was under load: an idle link is slower."""
    loaded = []
    for index, gpu in enumerate(gpus):
        generation, width = links[index] if index < len(links) else (None, None)
        found = {"pcie_generation": generation, "pcie_width": width}
        loaded.append({**gpu, **{name: value for name, value in found.items() if value is not None}})
    return loaded


@contextlib.contextmanager
def _scratch_folder(results: Path) -> Iterator[Path]:
    """Make a folder for the workload's files; among the results where temporary ones have no place."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="rentbench-"))
    except OSError:
        folder = results / "scratch"
        try:
            folder.mkdir()
        except OSError as error:
            msg = "neither /tmp nor the results folder can be written; mount one of them writable"
            raise PermissionError(errno.EACCES, msg) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
