"""Errors that the harness itself names, and what a worker's end means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rentbench.core.errors import ErrorKind
from rentbench.harness.failures.classify import classify
from rentbench.harness.workers.collector import CaseOutcome

if TYPE_CHECKING:
    from rentbench.harness.workers.attempt import WorkerEnd

__all__ = ["error_document", "explain_end", "not_run"]

# Kinds that say no more than how the process ended; any other is the cause.
_UNSPECIFIC = {
    ErrorKind.CRASHED,
    ErrorKind.KILLED,
    ErrorKind.INTERNAL,
    ErrorKind.TIMEOUT,
    ErrorKind.NO_OUTPUT,
}
_SIGKILL = -9


def error_document(
    kind: ErrorKind,
    message: str,
    *,
    hint: str | None = None,
    phase: str | None = None,
    log_tail: str | None = None,
) -> dict[str, Any]:
    """Return an error as the schema holds it."""
    return {
        "kind": str(kind),
        "message": message[:4096],
        "hint": hint,
        "phase": phase,
        "memory_allocated_bytes": None,
        "log_tail": log_tail or None,
    }


def explain_end(
    end: WorkerEnd, *, phase: str | None, limit_seconds: float, signal_name: str | None
) -> dict[str, Any]:
    """Return what a worker's end means, where it did not come to the end of its cases.

    The log may name a cause that the exit does not, such as a collective operation that hung until the time
    limit.

    Args:
        end: How it ended.
        phase: What it was doing.
        limit_seconds: The time limit of a repeat.
        signal_name: The signal that came to us, where one did.
    """
    found = classify(end.log_tail, returncode=end.code if end.cause == "exited" else None, phase=phase)
    named: dict[str, Any] = {**found}
    if end.cause == "interrupted":
        message = f"the run was ended by {signal_name}; what was measured before is kept"
        return error_document(ErrorKind.INTERRUPTED, message, phase=phase, log_tail=end.log_tail)
    if end.cause == "timeout":
        message = f"the repeat did not end within its limit of {limit_seconds:g} s"
        if named["kind"] in _UNSPECIFIC:
            hint = "the log's end shows what it was doing; the limit is the preset's timeout_seconds"
            return error_document(ErrorKind.TIMEOUT, message, hint=hint, phase=phase, log_tail=end.log_tail)
        return {**named, "message": f"{message}: {named['message']}"[:4096]}
    if end.code == _SIGKILL and end.kernel_oom_kills and named["kind"] in _UNSPECIFIC:
        message = "the worker was killed while the kernel was out of memory"
        hint = "give the machine or the container more memory (docker run --memory), or take smaller cases"
        return error_document(ErrorKind.HOST_OOM, message, hint=hint, phase=phase, log_tail=end.log_tail)
    if end.code == 0:
        message = "the worker ended without a word before its cases were done"
        return error_document(ErrorKind.NO_OUTPUT, message, phase=phase, log_tail=end.log_tail)
    return named


def not_run(error: dict[str, Any] | None, skip_reason: str | None) -> CaseOutcome:
    """Return the outcome of a case that never began.

    Args:
        error: What kept it from running.
        skip_reason: Why it is skipped instead of failed; None where it is not.
    """
    if skip_reason is not None:
        return CaseOutcome(status="skipped", reason=skip_reason, peak_memory_reason="the case was skipped")
    error = error or error_document(ErrorKind.INTERNAL, "the harness lost count of its cases")
    # The whole story is told once, by the document's error.
    error = {**error, "message": f"did not run: {error['message']}"[:200], "log_tail": None}
    return CaseOutcome(status="failed", error=error, peak_memory_reason="the case did not run")
