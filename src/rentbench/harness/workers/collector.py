"""What one repeat has told so far, put together from its workers' events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["CaseOutcome", "Collector", "Recorded"]


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A case's value of one metric in one repeat; `samples_unit` is None where it is the metric's own."""

    value: float
    samples: list[float] | None
    samples_unit: str | None


@dataclass(kw_only=True)
class CaseOutcome:
    """How a case went in one repeat; `status` is None until it has ended."""

    status: str | None = None
    error: dict[str, Any] | None = None
    reason: str | None = None
    records: dict[str, Recorded] = field(default_factory=dict)
    phases: dict[str, float] = field(default_factory=dict)
    peak_memory_bytes: int | None = None
    peak_memory_reason: str | None = "the case did not end"


class Collector:
    """Takes the events of a repeat, also of several workers in a row when one had to be replaced.

    Attributes:
        cases: Outcomes by case index, in the order of their start.
        running: Index of the case that has begun and not ended; None between cases.
        phase: Name of the phase that is open.
        error: What ended the repeat as a whole, such as a failed `prepare`; None when nothing did.
        abandoned: Whether the worker ended itself because a case had broken its GPU context.
        skip_reason: Why `prepare` skipped the whole suite; None when it did not.
        checks: As told, in order; the same name may occur often.
        warm_ups: Of each warm-up, whether it became steady.
        measure_windows: Monotonic begin and end of each measuring phase.
        software: Versions by package or component.
        missing_packages: What the manifest names and is not installed; None until told.
        weights: As in the schema; None until told.
        data: As in the schema; None until told.

    Args:
        keep_artifact: Called with name, content (base64) and description of each artifact.
    """

    def __init__(self, keep_artifact: Callable[[str, str, str], None]) -> None:
        self._keep_artifact = keep_artifact
        self._prepared: dict[str, float] = {}
        self.cases: dict[int, CaseOutcome] = {}
        self.running: int | None = None
        self.phase: str | None = None
        self.error: dict[str, Any] | None = None
        self.abandoned = False
        self.skip_reason: str | None = None
        self.checks: list[dict[str, Any]] = []
        self.warm_ups: list[bool] = []
        self.measure_windows: list[tuple[float, float]] = []
        self.software: dict[str, str] = {}
        self.missing_packages: list[str] | None = None
        self.weights: dict[str, Any] | None = None
        self.data: dict[str, Any] | None = None

    def take(self, event: Mapping[str, Any]) -> None:
        """Take one event; those of kinds that are not named here concern others."""
        match event["event"]:
            case "case_started":
                self.running = event["case"]
                # What `prepare` took was needed for the first case; counted there, the sum over all is right.
                self.cases[event["case"]] = CaseOutcome(phases=self._prepared)
                self._prepared = {}
            case "phase_started":
                self.phase = event["phase"]
            case "phase":
                self._take_phase(event)
            case "record":
                self.cases[event["case"]].records[event["metric"]] = Recorded(
                    value=event["value"], samples=event["samples"], samples_unit=event["samples_unit"]
                )
            case "invalid":
                self.cases[event["case"]].reason = event["reason"]
            case "case_finished":
                self._take_case_finished(event)
            case "failed":
                self.error = event["error"]
            case "abandoned":
                self.abandoned = True
            case "skipped":
                self.skip_reason = event["reason"]
            case "check":
                self.checks.append(event["check"])
            case "warm_up":
                self.warm_ups.append(event["steady"])
            case "software":
                self.software.update(event["versions"])
                self.missing_packages = event["missing"]
            case "describe":
                self.weights = event["weights"] or self.weights
                self.data = event["data"] or self.data
            case "artifact":
                self._keep_artifact(event["name"], event["base64"], event["description"])

    def end_running(self, error: dict[str, Any]) -> None:
        """End the case that was running when its worker died or was stopped."""
        if self.running is not None:
            self.cases[self.running].status = "failed"
            self.cases[self.running].error = error
        self.running = self.phase = None

    def _take_phase(self, event: Mapping[str, Any]) -> None:
        phases = self._prepared if event["case"] is None else self.cases[event["case"]].phases
        phases[event["phase"]] = phases.get(event["phase"], 0.0) + event["end"] - event["begin"]
        if event["phase"] == "measure":
            self.measure_windows.append((event["begin"], event["end"]))
        self.phase = None

    def _take_case_finished(self, event: Mapping[str, Any]) -> None:
        outcome = self.cases[event["case"]]
        marked_invalid = outcome.reason is not None
        outcome.status = "invalid" if event["status"] == "ok" and marked_invalid else event["status"]
        outcome.error = event["error"]
        outcome.reason = event["reason"] or (outcome.reason if outcome.status == "invalid" else None)
        outcome.peak_memory_bytes = event["peak_memory_bytes"]
        outcome.peak_memory_reason = event["peak_memory_reason"]
        self.running = None
