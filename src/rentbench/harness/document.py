"""The measurement document, put together from everything that a run found out."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rentbench.core.ids import parse_time
from rentbench.core.problems import pointer
from rentbench.core.status import document_status
from rentbench.harness.merge import merge_case, merge_checks
from rentbench.harness.privacy import allowed_environment, redact_command, redact_document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rentbench.harness.arguments import Request
    from rentbench.harness.workers.collector import CaseOutcome, Collector

__all__ = ["Findings", "build_document"]

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_MAX_REASONS = 1000


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What a run found out.

    Attributes:
        started: RFC 3339, by the wall clock.
        seconds: How long it lasted, by the monotonic clock.
        outcomes: For each case its outcomes in the repeats that it took part in.
        repeats: What each repeat told.
        error: What cut the whole run short.
        checks: Those of the harness; the workload's are in `repeats`.
        unavailable: Reasons for nulls in `host` and `telemetry`.
        environment: Of the workers.
    """

    identifier: str
    started: str
    seconds: float
    host: dict[str, Any]
    telemetry: dict[str, Any] | None
    outcomes: Sequence[Sequence[CaseOutcome]]
    repeats: Sequence[Collector]
    error: dict[str, Any] | None
    checks: Sequence[dict[str, Any]]
    unavailable: Sequence[dict[str, str]]
    environment: Mapping[str, str]
    artifacts: Sequence[dict[str, Any]]


def build_document(request: Request, findings: Findings) -> dict[str, Any]:
    """Return the document, free of whatever names a machine, a person or a secret."""
    cases: list[dict[str, Any]] = []
    unavailable = list(findings.unavailable)
    for parameters, outcomes in zip(request.cases, findings.outcomes, strict=True):
        case, why = merge_case(parameters, outcomes, request.suite.metrics, request.repeats)
        if why is not None:
            path = pointer("cases", len(cases), "peak_memory_bytes")
            unavailable.append({"path": path, "reason": why})
        cases.append(case)
    recipe = os.environ.get("RENTBENCH_RECIPE_ID", "")
    if not _DIGEST.fullmatch(recipe):
        unavailable.append({"path": "/recipe_id", "reason": "not started from an image with a recipe"})
    validity = merge_checks(
        [*findings.checks, *(check for repeat in findings.repeats for check in repeat.checks)]
    )
    told = findings.repeats[-1] if findings.repeats else None
    document = {
        "document": "measurement",
        "schema_version": 1,
        "id": findings.identifier,
        "suite": {"name": request.suite.name, "version": request.suite.version},
        "preset": request.preset,
        "parameters": {
            "seed": request.seed,
            "repeats": request.repeats,
            "settings": dict(request.settings),
        },
        "status": document_status(cases, validity, findings.error),
        "error": findings.error,
        "started": findings.started,
        "finished": _later(findings.started, findings.seconds),
        "runner": "container" if os.environ.get("RENTBENCH_IMAGE") else "process",
        "recipe_id": recipe if _DIGEST.fullmatch(recipe) else None,
        "command": redact_command(["python", "-m", "rentbench.harness", *request.command]),
        "environment_variables": allowed_environment(findings.environment),
        "host": findings.host,
        "software": dict(item for repeat in findings.repeats for item in repeat.software.items()),
        "weights": told.weights if told else None,
        "data": told.data if told else None,
        "cases": cases,
        "telemetry": findings.telemetry,
        "validity": validity,
        "artifacts": list(findings.artifacts),
        "unavailable": _condensed(unavailable),
    }
    return redact_document(document)


def _later(started: str, seconds: float) -> str:
    """Return the time so many seconds later: the wall clock may have jumped meanwhile."""
    finished = parse_time(started) + timedelta(seconds=seconds)
    return finished.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _condensed(unavailable: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """Return one reason for all cases where each has the same, or where they are too many to list."""
    of_cases = [entry for entry in unavailable if entry["path"].startswith("/cases/")]
    others = [entry for entry in unavailable if not entry["path"].startswith("/cases/")]
    reasons = sorted({entry["reason"] for entry in of_cases})
    if len(of_cases) > 1 and (len(reasons) == 1 or len(of_cases) > _MAX_REASONS):
        of_cases = [{"path": "/cases", "reason": f"peak_memory_bytes: {'; '.join(reasons)}"[:1024]}]
    return [*others, *of_cases]
