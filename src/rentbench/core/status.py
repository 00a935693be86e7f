"""The status of a whole document, from its cases and its validity checks; and what follows from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from rentbench.core.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Status", "Verdict", "document_status", "exit_code", "verdict"]

Status = Literal["ok", "partial", "failed", "invalid", "skipped"]
Verdict = Literal["pass", "warn", "fail"]


def document_status(
    cases: Iterable[Mapping[str, Any]],
    validity: Iterable[Mapping[str, Any]],
    error: Mapping[str, Any] | None = None,
) -> Status:
    """Return the status of a measurement document.

    `invalid` when a hard check failed, or all cases that ran are invalid; `failed` when none is ok;
    `skipped` when every case was skipped; `partial` when some cases are ok and some are not, or when an
    error of the whole run cut it short; else `ok`.

    Args:
        cases: The document's `cases`.
        validity: The document's `validity`.
        error: The document's `error`.
    """
    if verdict(validity) == "fail":
        return "invalid"
    statuses = [case["status"] for case in cases]
    if not statuses:
        return "failed"
    ran = {status for status in statuses if status != "skipped"}
    if not ran:
        return "skipped"
    if ran == {"ok"}:
        return "partial" if error else "ok"
    if "ok" in ran:
        return "partial"
    return "invalid" if ran == {"invalid"} else "failed"


def exit_code(status: Status) -> ExitCode:
    """Return the exit code of a workload that ended with this status."""
    return {
        "ok": ExitCode.OK,
        "partial": ExitCode.PARTIAL,
        "failed": ExitCode.FAILED,
        "invalid": ExitCode.FAILED,
        "skipped": ExitCode.SKIPPED,
    }[status]


def verdict(validity: Iterable[Mapping[str, Any]]) -> Verdict:
    """Return `fail` when a hard check failed, `warn` when a soft one did, else `pass`."""
    failed = {check["severity"] for check in validity if check["outcome"] == "failed"}
    if "hard" in failed:
        return "fail"
    return "warn" if failed else "pass"
