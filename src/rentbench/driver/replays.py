"""After a broken connection: the engine's log told again from its start, less what was heard before."""

from __future__ import annotations

__all__ = ["Heard"]

_HEAD = 1024  # bytes by which the start of a log is known again


class Heard:
    """How much of one stream of a container was heard, and how the stream began.

    The engine keeps the last tens of megabytes of a log. Where it threw the start away, nobody can tell where
    the part that was heard ends: then all that is left is told again, after a note.
    """

    NOTE = b"[the engine no longer has the start of this log: lines may be missing here, or come twice]\n"

    def __init__(self) -> None:
        self._count = 0
        self._head = b""

    def add(self, content: bytes) -> None:
        """Note what was heard."""
        self._count += len(content)
        self._head += content[: _HEAD - len(self._head)]

    def replay(self) -> Replay:
        """Return what leaves out of the log, told from its start, what was heard until now."""
        return Replay(self._count, self._head)


class Replay:
    """One stream of a log, told again.

    Args:
        known: Bytes that were heard before.
        head: The first of them.
    """

    def __init__(self, known: int, head: bytes) -> None:
        self._skip = known
        self._head = head
        self._held = b""

    def fresh(self, chunk: bytes) -> bytes:
        """Return what is new in the next chunk."""
        if self._head:
            self._held += chunk
            if len(self._held) < len(self._head) and self._head.startswith(self._held):
                return b""  # too little to tell
            whole = self._held.startswith(self._head)
            chunk, self._head, self._held = self._held, b"", b""
            if not whole:
                self._skip = 0
                return Heard.NOTE + chunk
        known = min(self._skip, len(chunk))
        self._skip -= known
        return chunk[known:]
