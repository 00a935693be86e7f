"""Progress on standard error: for people, or one JSON object a line for a program."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, TextIO

from rentbench.harness.privacy import redact

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Progress"]


class Progress:
    """Tells how far a run is, and passes its log on.

    A reader that went away never stops the run.

    Args:
        stream: Where to write.
        total: Steps until the end.
        environment: `RENTBENCH_PROGRESS=json` asks for JSON.
    """

    def __init__(self, stream: TextIO, total: int, environment: Mapping[str, str]) -> None:
        self._stream = stream
        self._total = total
        self._done = 0
        self._json = environment.get("RENTBENCH_PROGRESS") == "json"

    def done(self) -> None:
        """Count a step as done."""
        self._done += 1

    def complete(self) -> None:
        """Count every step as done: a case that was skipped in one repeat is not run in the next ones."""
        self._done = self._total

    def say(self, text: str) -> None:
        """Say something that a person should read."""
        text = redact(text)
        if self._json:
            entry = {"rentbench": "progress", "done": self._done, "total": self._total, "text": text}
            self._write(json.dumps(entry))
        else:
            self._write(f"[{self._done}/{self._total}] {text}")

    def log(self, line: str) -> None:
        """Pass on a line of the log, which is redacted already."""
        self._write(line)

    def _write(self, line: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(f"{line}\n")
            self._stream.flush()
