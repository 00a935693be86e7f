"""What a worker tells its supervisor: one JSON object a line over a pipe, each with a monotonic stamp."""

from __future__ import annotations

import json
import os
import time
from typing import Any

__all__ = ["EventReader", "EventWriter"]


class EventWriter:
    """Writes events to a pipe.

    Args:
        descriptor: The pipe's writing end.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __call__(self, event: dict[str, Any]) -> None:
        """Write one event, whole; blocks while the pipe is full.

        Raises:
            ValueError: A value is NaN or infinite.
            OSError: Nobody reads any more.
        """
        stamped = {**event, "at": time.monotonic()}
        # The line begins with a line break, so that it stands alone after one that a dying process cut short.
        line = memoryview(f"\n{json.dumps(stamped, allow_nan=False)}\n".encode())
        while line:
            line = line[os.write(self._descriptor, line) :]


class EventReader:
    """Puts the events together again from what comes out of the pipe.

    Attributes:
        unreadable: Lines that were no event: cut short by the end of their process, or written by another
            one.
    """

    def __init__(self) -> None:
        self._rest = bytearray()
        self.unreadable = 0

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """Return the events that these bytes complete."""
        self._rest += data
        *lines, rest = self._rest.split(b"\n") if b"\n" in data else (self._rest,)
        self._rest = bytearray(rest)
        events = []
        for line in lines:
            if line:
                event = self._parse(line)
                if event is None:
                    self.unreadable += 1
                else:
                    events.append(event)
        return events

    @staticmethod
    def _parse(line: bytearray) -> dict[str, Any] | None:
        try:
            event = json.loads(line)
        except ValueError:
            return None
        return event if isinstance(event, dict) and isinstance(event.get("event"), str) else None
