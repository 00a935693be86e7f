"""What a workload sees of the harness.

A suite's workload.py defines `run(case, context)`, called once for each case, and optionally
`prepare(context)` before the first and `finish(context)` after the last case of a repeat. Each repeat is a
fresh process. Modules that lie beside workload.py can be imported by their plain name.
"""

from __future__ import annotations

import base64
import math
import numbers
import re
import time
from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias

from rentbench.core.errors import ErrorKind
from rentbench.core.units import UNITS, is_known
from rentbench.harness.outcomes import CaseFailed, CaseSkipped, WorkloadError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from rentbench.harness.nvml import GpuReading, Reader
    from rentbench.harness.timing import Timer

__all__ = ["PHASES", "Case", "Context", "Scalar"]

# A parameter's value is never null: suite.toml has no null.
Scalar: TypeAlias = str | int | float | bool
Case: TypeAlias = Mapping[str, Scalar]
Phase: TypeAlias = Literal["download", "load", "compile", "warm_up", "measure", "evaluate"]

PHASES = ("download", "load", "compile", "warm_up", "measure", "evaluate")
_MAX_TEXT = 3500  # the schema's 4096, less what redaction may add
_IDENTIFIER = re.compile(r"[a-z][a-z0-9_]{0,63}")
_ARTIFACT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Context:
    """What a workload may ask and must tell. One per repeat process.

    Attributes:
        device: "cuda" or "cpu".
        device_count: GPUs that the workload may use; 0 on CPU.
        preset: "smoke", "standard" or "full".
        settings: The preset's settings after overrides.
        seed: The random generators of Python, numpy and torch (those that are imported) are set to it before
            `prepare` and before each case.
        repeat: Number of this repeat, from 0.
        scratch: Empty folder for the workload's own files; removed after the repeat.
        host: The probed host, as in the measurement schema.
        timer: Times calls on the device.

    The worker makes it. `metrics` are those that suite.toml declares, by name (only the names matter here);
    `emit` takes each event: the worker sends it to the supervisor, a test may collect it in a list.
    """

    def __init__(
        self,
        *,
        device: Literal["cuda", "cpu"],
        device_count: int,
        preset: str,
        settings: Mapping[str, Scalar],
        seed: int,
        repeat: int,
        scratch: Path,
        host: Mapping[str, Any],
        timer: Timer,
        metrics: Mapping[str, Any],
        emit: Callable[[dict[str, Any]], None],
    ) -> None:
        self.device = device
        self.device_count = device_count
        self.preset = preset
        self.settings = settings
        self.seed = seed
        self.repeat = repeat
        self.scratch = scratch
        self.host = host
        self.timer = timer
        self._metrics = metrics
        self._emit = emit
        self._case: int | None = None
        self._recorded: set[str] = set()
        self._phase: str | None = None
        self._failed_phase: str | None = None
        self._failed_part: str | None = None
        self._peak_memory_bytes: int | None = None
        self._reader: Reader | None = None

    @contextmanager
    def phase(self, name: Phase) -> Iterator[None]:
        """Time a phase of the case (or of `prepare`, which counts to the first case). Same names add up.

        The device is synchronised at both ends, so that the time is that of the work and not of its launch.

        Raises:
            WorkloadError: The name is none of `PHASES`, or another phase is still open.
        """
        if name not in PHASES:
            msg = f"there is no phase {name!r}; allowed are {', '.join(PHASES)}"
            raise WorkloadError(msg)
        if self._phase is not None:
            msg = f"phase {name!r} begins inside phase {self._phase!r}; phases cannot be nested"
            raise WorkloadError(msg)
        self.timer.synchronize()
        self._phase, self._failed_phase, self._failed_part = name, None, None
        begin = time.monotonic()
        self._emit({"event": "phase_started", "case": self._case, "phase": name})
        try:
            yield
            self.timer.synchronize()
        except BaseException:
            self._failed_phase = name
            raise
        finally:
            self._phase = None
            end = time.monotonic()
            self._emit({"event": "phase", "case": self._case, "phase": name, "begin": begin, "end": end})

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Name the part of the work that runs, such as "forward" or "backward".

        An error that ends the part is reported under its name instead of the phase's. It costs next to
        nothing: no time is taken and nothing is synchronised, so an asynchronous fault may show a part late.
        """
        try:
            yield
        except BaseException:
            self._failed_part = self._failed_part or name  # the innermost knows best
            raise
        self._failed_part = None

    def report_peak_memory(self, allocated_bytes: int) -> None:
        """Give the case's peak GPU memory as processes of the workload's own counted it.

        Args:
            allocated_bytes: The most that torch's allocator held at once, on the GPU that held most. Of
                several reports in a case the highest counts; the worker's own count is not used then.
        """
        self._peak_memory_bytes = max(self._peak_memory_bytes or 0, int(allocated_bytes))

    def record(
        self,
        metric: str,
        value: float,
        *,
        samples: Sequence[float] | None = None,
        samples_unit: str | None = None,
    ) -> None:
        """Give the case's value of a metric in this repeat.

        Args:
            metric: As declared in suite.toml, which also gives its unit and direction.
            value: In the metric's unit.
            samples: The single readings behind the value; all are kept in samples.jsonl.
            samples_unit: Their unit, where it is not the metric's.

        Raises:
            WorkloadError: Undeclared metric, second value, no case is running, or no number.
            CaseFailed: The value or a sample is NaN or infinite.
        """
        if self._case is None:
            msg = f"metric {metric!r} was recorded outside a case"
            raise WorkloadError(msg)
        if metric not in self._metrics:
            msg = f"metric {metric!r} is not declared in suite.toml; declared are {', '.join(self._metrics)}"
            raise WorkloadError(msg)
        if metric in self._recorded:
            msg = f"metric {metric!r} was recorded twice in one case"
            raise WorkloadError(msg)
        number = _finite(metric, value)
        _require_unit(samples_unit)
        readings = None if samples is None else [_finite(metric, sample) for sample in samples]
        self._recorded.add(metric)
        self._emit(
            {
                "event": "record",
                "case": self._case,
                "metric": metric,
                "value": number,
                "samples": readings or None,
                "samples_unit": samples_unit,
            }
        )

    def check(
        self,
        name: str,
        passed: bool | None,
        detail: str,
        *,
        severity: Literal["soft", "hard"] = "soft",
        value: Scalar | None = None,
        limit: Scalar | None = None,
        unit: str | None = None,
    ) -> None:
        """Report a validity check. One name gives one check in the result: the worst outcome wins.

        Args:
            name: Lower-case words joined by underscores.
            passed: None means that it could not be checked.
            detail: One sentence with the figures.
            severity: A failed hard check makes the whole result invalid, a soft one is a warning.
            value: What was found.
            limit: What was allowed.
            unit: Of both.

        Raises:
            WorkloadError: Name, severity, detail or a number is not usable.
        """
        if not _IDENTIFIER.fullmatch(name):
            msg = f"check name {name!r} must be lower-case letters, digits and underscores"
            raise WorkloadError(msg)
        if severity not in {"soft", "hard"} or passed not in {True, False, None} or not detail:
            msg = f"check {name!r} needs severity soft or hard, passed true, false or none, and a detail"
            raise WorkloadError(msg)
        _require_unit(unit)
        outcome = "not_checked" if passed is None else "passed" if passed else "failed"
        self._emit(
            {
                "event": "check",
                "check": {
                    "name": name,
                    "severity": severity,
                    "outcome": outcome,
                    "detail": detail[:_MAX_TEXT],
                    "value": _plain(value),
                    "limit": _plain(limit),
                    "unit": unit,
                },
            }
        )

    def skip(self, reason: str) -> NoReturn:
        """End the case as skipped: it cannot run here, and that is no fault. In `prepare`: every case."""
        raise CaseSkipped(reason[:_MAX_TEXT])

    def fail(
        self,
        kind: ErrorKind | str,
        message: str,
        hint: str | None = None,
        *,
        part: str | None = None,
        memory_allocated_bytes: int | None = None,
    ) -> NoReturn:
        """End the case as failed.

        Args:
            kind: One of the error kinds of the schema.
            message: What happened.
            hint: What to do about it.
            part: Part of the work in which it happened, where a process of the workload's own told it.
            memory_allocated_bytes: What was allocated when memory ran out, by the same process.
        """
        raise CaseFailed(
            ErrorKind(kind),
            message[:_MAX_TEXT],
            hint,
            part=part,
            memory_allocated_bytes=memory_allocated_bytes,
        )

    def invalidate(self, reason: str) -> None:
        """Mark the case as invalid: its values are kept, and never ranked.

        Raises:
            WorkloadError: No case is running.
        """
        if self._case is None:
            msg = f"a case was marked invalid outside a case: {reason}"
            raise WorkloadError(msg)
        self._emit({"event": "invalid", "case": self._case, "reason": reason[:_MAX_TEXT]})

    def artifact(self, name: str, data: bytes | str, description: str) -> None:
        """Keep a file beside the result, such as a tool's raw output. Text is redacted before it is written.

        Raises:
            WorkloadError: The name is not a plain file name.
        """
        if not _ARTIFACT_NAME.fullmatch(name):
            msg = f"artifact name {name!r} must have at most 100 letters, digits, '.', '_' and '-'"
            raise WorkloadError(msg)
        raw = data.encode() if isinstance(data, str) else data
        self._emit(
            {
                "event": "artifact",
                "name": name,
                "description": description[:_MAX_TEXT],
                "base64": base64.b64encode(raw).decode(),
            }
        )

    def log(self, text: str) -> None:
        """Write a line into the run's log."""
        print(text, flush=True)  # the worker's output is the log

    def describe(
        self,
        *,
        weights: Mapping[str, str | None] | None = None,
        data: Mapping[str, Scalar | None] | None = None,
    ) -> None:
        """Say which weights and data were used, in the schema's form.

        Args:
            weights: kind ("pretrained" or "random"), repository, revision.
            data: kind ("dataset" or "synthetic"), name, revision, seed.

        Raises:
            WorkloadError: A key is missing or unknown, or the kind is none of these.
        """
        for described, kinds, keys in (
            (weights, {"pretrained", "random"}, {"kind", "repository", "revision"}),
            (data, {"dataset", "synthetic"}, {"kind", "name", "revision", "seed"}),
        ):
            if described is not None and (set(described) != keys or described["kind"] not in kinds):
                msg = f"a description needs {', '.join(sorted(keys))}, and kind {' or '.join(sorted(kinds))}"
                raise WorkloadError(msg)
        self._emit(
            {
                "event": "describe",
                "weights": dict(weights) if weights else None,
                "data": dict(data) if data else None,
            }
        )

    def reading(self, index: int = 0) -> GpuReading:
        """Return power, temperature, clocks, throttle reasons and memory of a GPU now; all None on CPU."""
        from rentbench.harness import nvml

        if self.device == "cpu":
            return nvml.GpuReading()
        if self._reader is None:
            self._reader = nvml.Reader()
        return self._reader.reading(index)

    # What follows is for the worker.

    @property
    def failed_phase(self) -> str | None:
        """The part, or else the phase, that an exception ended, where no other has begun since."""
        return self._failed_part or self._failed_phase

    @property
    def peak_memory_bytes(self) -> int | None:
        """What the case reported of its own processes' memory; None where it did not."""
        return self._peak_memory_bytes

    @property
    def recorded(self) -> frozenset[str]:
        """Metrics that the case has recorded so far."""
        return frozenset(self._recorded)

    def enter(self, case: int | None) -> None:
        """Begin the case with this index, or leave the last one (None)."""
        self._case = case
        self._recorded = set()
        self._failed_phase = self._failed_part = self._peak_memory_bytes = None


def _require_unit(unit: str | None) -> None:
    if unit is not None and not is_known(unit):
        msg = f"there is no unit {unit!r}; allowed are {', '.join(UNITS)}"
        raise WorkloadError(msg)


def _plain(value: Scalar | None) -> Scalar | None:
    """Return a check's value as JSON has it: numpy's numbers become Python's."""
    if isinstance(value, str):
        return value[:_MAX_TEXT]
    if value is None or isinstance(value, bool | int):
        return value
    if not math.isfinite(value):
        msg = f"a check's value or limit is {value}, which is not finite"
        raise WorkloadError(msg)
    return float(value)


def _finite(metric: str, value: float) -> float:
    """Return a metric's value as JSON has it."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        msg = f"metric {metric!r} was given {value!r}, which is no number"
        raise WorkloadError(msg)
    if not math.isfinite(value):
        message = f"metric {metric!r} came out as {value}, which is no finite number"
        raise CaseFailed(ErrorKind.WRONG_RESULT, message, hint=None)
    return float(value)
