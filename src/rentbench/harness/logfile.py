"""The log of a run: every line redacted before it is kept, head and tail kept where it grows too long."""

from __future__ import annotations

import re
from collections import deque
from typing import IO, TYPE_CHECKING

from rentbench.harness.privacy import redact
from rentbench.harness.tools import without_escapes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["LogFile"]

HEAD_BYTES = 4 * 1024**2
TAIL_BYTES = 1024**2
ERROR_TAIL_BYTES = 16 * 1024
MAX_LINE = 16 * 1024  # characters that are kept of one line
_MAX_PENDING = 4 * MAX_LINE  # bytes; a secret that is cut here lies beyond what is kept

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # every control character but tab and newline


class LogFile:
    """Takes the raw output of workers and writes `log.txt`.

    The first `HEAD_BYTES` are written as they come. Of the rest the last `TAIL_BYTES` are kept, after a
    line that says how many lines are left out. A disk that is full costs the log, never the run.

    Attributes:
        error: Why the log could not be written; None when it could.

    Args:
        path: The file to write.
        echo: Called with each redacted line of the head, so that one can watch the run.
    """

    def __init__(self, path: Path, echo: Callable[[str], None]) -> None:
        self.error: OSError | None = None
        self._file: IO[str] | None = None
        self._echo = echo
        self._room = HEAD_BYTES
        self._later = _Tail(TAIL_BYTES)
        self._recent = _Tail(ERROR_TAIL_BYTES)
        self._pending = b""
        try:
            self._file = path.open("w", encoding="utf-8")
        except OSError as error:
            self.error = error

    def feed(self, data: bytes) -> None:
        """Take some output; lines may come in pieces."""
        *lines, pending = re.split(rb"\r?\n|\r", self._pending + data)
        self._pending = pending[:_MAX_PENDING]
        for line in lines:
            self.write(line.decode("utf-8", "replace"))

    def write(self, line: str) -> None:
        """Take one line."""
        self._recent.append(line)
        if self._room <= 0:
            self._later.append(line)
            return
        clean = _clean(line)
        self._put(clean)
        self._echo(clean)
        self._room -= len(clean) + 1
        if self._room <= 0:
            self._echo("[the log is long; its rest is not shown]")

    def begin_tail(self) -> None:
        """Forget the last lines: what comes now belongs to another case or worker."""
        self._recent = _Tail(ERROR_TAIL_BYTES)

    def end_tail(self) -> str:
        """Return the last lines since `begin_tail`, for an error's `log_tail`."""
        if self._pending:
            self.write(self._pending.decode("utf-8", "replace"))
            self._pending = b""
        return "\n".join(_clean(line) for line in self._recent.lines)

    def close(self) -> None:
        """Write what was held back, and close the file."""
        if self._later.dropped:
            self._put(f"[{self._later.dropped} lines are left out here]")
        for line in self._later.lines:
            self._put(_clean(line))
        if self._file is not None:
            try:
                self._file.close()
            except OSError as error:
                self.error = self.error or error

    def _put(self, line: str) -> None:
        if self._file is not None and self.error is None:
            try:
                self._file.write(line + "\n")
                self._file.flush()
            except OSError as error:
                self.error = error


class _Tail:
    """The last lines, up to a size; at least one."""

    def __init__(self, limit: int) -> None:
        self.lines: deque[str] = deque()
        self.dropped = 0
        self._limit = limit
        self._size = 0

    def append(self, line: str) -> None:
        self.lines.append(line)
        self._size += len(line) + 1
        while self._size > self._limit and len(self.lines) > 1:
            self._size -= len(self.lines.popleft()) + 1
            self.dropped += 1


def _clean(line: str) -> str:
    clean = redact(_CONTROL.sub("", without_escapes(line)))
    return (
        clean if len(clean) <= MAX_LINE else f"{clean[:MAX_LINE]} [{len(clean) - MAX_LINE} more characters]"
    )
