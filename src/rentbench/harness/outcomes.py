"""How a workload ends a case early."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rentbench.core.errors import ErrorKind

__all__ = ["CaseFailed", "CaseSkipped", "WorkloadError"]


class CaseSkipped(BaseException):
    """Ends a case that cannot run here.

    It is no `Exception`, so that a workload's own `except Exception` does not swallow it.
    """


class CaseFailed(BaseException):
    """Ends a case with an error that the workload itself has named; no `Exception` for the same reason."""

    def __init__(self, kind: ErrorKind, message: str, hint: str | None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint


class WorkloadError(Exception):
    """The workload used the harness wrongly: a mistake in the suite, not of the machine."""
