"""What went wrong, told from an exception, an exit code and what the program printed."""

from __future__ import annotations

from typing import TypedDict

from rentbench.core.errors import ErrorKind
from rentbench.harness.privacy import redact

__all__ = ["ErrorDocument", "classify"]


class ErrorDocument(TypedDict):
    """An error as measurement documents hold it (`$defs/error`)."""

    kind: str
    message: str
    hint: str | None
    phase: str | None
    memory_allocated_bytes: int | None
    log_tail: str | None


def classify(
    text: str,
    *,
    returncode: int | None = None,
    exception: BaseException | None = None,
    phase: str | None = None,
) -> ErrorDocument:
    """Return the error that fits, with every identifier removed from its texts.

    Args:
        text: What the program printed; its end is kept as `log_tail`.
        returncode: The process's exit code as `subprocess` gives it (negative: killed by that signal).
        exception: The exception, where it was caught in this process.
        phase: What was being done (`load`, `measure`, …).
    """
    message = str(exception) if exception is not None else f"the program ended with exit code {returncode}"
    kind = ErrorKind.CRASHED if exception is None else ErrorKind.INTERNAL
    return ErrorDocument(
        kind=str(kind),
        message=redact(message)[:4096] or "no message",
        hint=None,
        phase=phase,
        memory_allocated_bytes=None,
        log_tail=redact(text)[-65536:] or None,
    )
