"""Several repeats into one list of cases and one list of checks.

A case is `ok` only if it was ok in every repeat that was asked for. Failed in one of three, it is `failed`,
with that error and the number of the repeat in its message, and with the values of the repeats that worked:
they are true, but they are not the three that were asked for. A case that failed or was skipped is not run
again in later repeats, because its status could not change any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rentbench.core.statistics import sample_summary, summarize

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rentbench.core.manifests import Metric
    from rentbench.harness.workers.collector import CaseOutcome, Recorded

__all__ = ["merge_case", "merge_checks"]

# The worst first.
_OUTCOMES = ("failed", "not_checked", "passed")
_SEVERITIES = ("hard", "soft")
_MAX_DETAIL = 4096  # as the schema has it


def merge_case(
    parameters: Mapping[str, Any],
    outcomes: Sequence[CaseOutcome],
    metrics: Mapping[str, Metric],
    repeats: int,
) -> tuple[dict[str, Any], str | None]:
    """Return a case as the schema holds it, and why its peak memory is null where it is.

    Args:
        parameters: The case's.
        outcomes: One for each repeat in which it was to run, in order; at least one.
        metrics: By name, as the suite declares them.
        repeats: How many were asked for.
    """
    status, error, reason = _status(outcomes, metrics, repeats)
    peaks = [outcome.peak_memory_bytes for outcome in outcomes if outcome.peak_memory_bytes is not None]
    phases: dict[str, float] = {}
    for outcome in outcomes:
        for name, seconds in outcome.phases.items():
            phases[name] = phases.get(name, 0.0) + seconds
    case = {
        "parameters": dict(parameters),
        "status": status,
        "error": error,
        "reason": reason,
        "measurements": [] if status == "skipped" else _measurements(outcomes, metrics),
        "phases": phases,
        "peak_memory_bytes": max(peaks, default=None),
    }
    return case, None if peaks else outcomes[-1].peak_memory_reason or "not told"


def merge_checks(checks: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one check for each name, in the order of their first report: the worst of all reports.

    Failed is worse than not checked, and that is worse than passed; hard is worse than soft. Of several
    failures the worst one's value counts, and the details of all are told.
    """
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for check in checks:
        by_name.setdefault(check["name"], []).append(check)
    merged = []
    for reports in by_name.values():
        worst = min(
            reports,
            key=lambda check: (_OUTCOMES.index(check["outcome"]), _SEVERITIES.index(check["severity"])),
        )
        same = [report["detail"] for report in reports if report["outcome"] == worst["outcome"]]
        count = f" (so in {len(same)} of {len(reports)} reports)" if len(same) < len(reports) else ""
        told = [worst["detail"]]
        if worst["outcome"] == "failed":  # each may name other cases
            told = list(dict.fromkeys([*told, *same]))
        detail = "; ".join(told)[: _MAX_DETAIL - len(count)]
        merged.append({**worst, "detail": f"{detail}{count}"})
    return merged


def _status(
    outcomes: Sequence[CaseOutcome], metrics: Mapping[str, Metric], repeats: int
) -> tuple[str, dict[str, Any] | None, str | None]:
    for number, outcome in enumerate(outcomes, start=1):
        if outcome.status == "failed" and outcome.error is not None:
            where = f"repeat {number} of {repeats}: " if repeats > 1 else ""
            return "failed", {**outcome.error, "message": f"{where}{outcome.error['message']}"[:4096]}, None
    skipped = [outcome for outcome in outcomes if outcome.status == "skipped"]
    if len(skipped) == len(outcomes):
        return "skipped", None, skipped[0].reason
    if skipped:
        return "invalid", None, f"skipped in {len(skipped)} of {repeats} repeats: {skipped[0].reason}"
    for outcome in outcomes:
        if outcome.status == "invalid":
            return "invalid", None, outcome.reason
    for name in metrics:
        count = sum(name in outcome.records for outcome in outcomes)
        if 0 < count < len(outcomes):
            return "invalid", None, f"{name} was recorded in {count} of {len(outcomes)} repeats"
    return "ok", None, None


def _measurements(outcomes: Sequence[CaseOutcome], metrics: Mapping[str, Metric]) -> list[dict[str, Any]]:
    measurements = []
    for name, metric in metrics.items():
        records: list[Recorded] = [outcome.records[name] for outcome in outcomes if name in outcome.records]
        if not records:
            continue
        pooled = [sample for record in records for sample in record.samples or []]
        unit = records[0].samples_unit or metric.unit
        measurements.append(
            {
                "metric": name,
                "unit": metric.unit,
                "direction": metric.direction,
                **summarize([record.value for record in records]),
                "samples": sample_summary(pooled, unit) if pooled else None,
            }
        )
    return measurements
