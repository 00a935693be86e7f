"""A container's output: lines out of chunks, progress out of lines, and a log that stays small."""

from __future__ import annotations

import json
import re
from collections import deque
from dataclasses import dataclass

__all__ = ["LineSplitter", "Log", "Progress", "plain_text", "read_progress"]

MAX_LINE = 16 * 1024  # characters of a line that are kept
_HEAD_LINES = 2_000
_TAIL_LINES = 5_000
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a workload is, as it says itself."""

    done: int
    total: int
    text: str


class LineSplitter:
    """Makes lines of chunks as they come; what is longer than `MAX_LINE` is cut, however long it goes on."""

    def __init__(self) -> None:
        self._open = bytearray()
        self._returned = False

    def feed(self, chunk: bytes) -> list[str]:
        """Return the lines that a chunk completes; progress bars end theirs with a carriage return."""
        if self._returned and chunk.startswith(b"\n"):
            chunk = chunk[1:]  # the second half of a line end that was cut in two
            self._returned = False
        if not chunk:
            return []
        self._returned = chunk.endswith(b"\r")
        *complete, rest = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        lines = []
        for part in complete:
            self._add(part)
            lines.append(self._take())
        self._add(rest)
        return lines

    def close(self) -> list[str]:
        """Return the last line, where it had no end."""
        return [self._take()] if self._open else []

    def _add(self, part: bytes) -> None:
        self._open += part[: MAX_LINE - len(self._open)]

    def _take(self) -> str:
        line = plain_text(self._open.decode("utf-8", errors="replace"))
        self._open.clear()
        return line


class Log:
    """The lines of a run: the first and the last are kept, and the number of those between."""

    def __init__(self) -> None:
        self._head: list[str] = []
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._count = 0

    def add(self, line: str) -> None:
        """Append a line."""
        self._count += 1
        if len(self._head) < _HEAD_LINES:
            self._head.append(line)
        else:
            self._tail.append(line)

    def text(self) -> str:
        """Return the log, with a note in the place of what was left out."""
        lines = list(self._head)
        left_out = self._count - len(self._head) - len(self._tail)
        if left_out:
            lines.append(f"[… {left_out} lines left out …]")
        return "".join(f"{line}\n" for line in (*lines, *self._tail))

    def last(self, count: int = 40, characters: int = 8_000) -> str:
        """Return the last lines, for an error."""
        lines = [*self._head, *self._tail][-count:]
        return "\n".join(lines)[-characters:]


def plain_text(text: str) -> str:
    """Return text of others without what acts on a terminal."""
    plain = _ESCAPES.sub("", text).expandtabs(8)
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in plain).rstrip()


def read_progress(line: str) -> Progress | None:
    """Return the progress that a line tells (`{"rentbench": "progress", …}`), or None for any other line."""
    if not line.startswith('{"rentbench"'):
        return None
    try:
        entry = json.loads(line)
        done, total, text = entry["done"], entry["total"], entry["text"]
    except (ValueError, KeyError, RecursionError):
        return None
    fits = isinstance(done, int) and isinstance(total, int) and isinstance(text, str) and done >= 0
    return Progress(done=done, total=total, text=text) if fits and entry["rentbench"] == "progress" else None
