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
    """Ends a case with an error that the workload itself has named; no `Exception` for the same reason.

    Args:
        kind: One of the schema's.
        message: What happened.
        hint: What to do about it.
        part: Part of the work in which it happened, where a process of the workload's own told it.
        memory_allocated_bytes: What was allocated when memory ran out, by the same process.
    """

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        hint: str | None,
        *,
        part: str | None = None,
        memory_allocated_bytes: int | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint
        self.part = part
        self.memory_allocated_bytes = memory_allocated_bytes


class WorkloadError(Exception):
    """The workload used the harness wrongly: a mistake in the suite, not of the machine."""
