"""When to stop: signals and the provider's notices set a flag, and from then on time runs out."""

from __future__ import annotations

import json
import logging
import math
import os
import signal
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType, TracebackType

__all__ = ["FileNotice", "Notice", "StopFlag", "UrlNotice", "leave_signals_to_parent", "signals_held"]

# Seconds until the machine goes away, or None as long as nothing is announced.
Notice: TypeAlias = "Callable[[], float | None]"

_LOG = logging.getLogger("checkpointer")
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_URL_TIMEOUT_SECONDS = 2.0


class StopFlag:
    """Says that the job has to end, and how much time it has left for that.

    A signal handler does nothing but set the flag, so that no step and no save is torn apart. Use it as a
    context manager, in the main thread; leaving it restores the handlers that were there before.

    Args:
        grace_seconds: Time between a signal and the moment at which the process will be killed. torchrun
            gives 30 s, Kubernetes 30 s, `docker stop` 10 s unless told otherwise.
        notices: Asked in turn by a thread of their own; each returns the seconds until the machine goes away,
            or None. The shorter one of that and what is already known counts.
        poll_seconds: How often they are asked.
    """

    def __init__(
        self, *, grace_seconds: float = 25.0, notices: Sequence[Notice] = (), poll_seconds: float = 5.0
    ) -> None:
        self.grace_seconds = grace_seconds
        self._notices = tuple(notices)
        self._poll_seconds = poll_seconds
        self._deadline = math.inf
        self._reason: str | None = None
        self._pid = os.getpid()
        self._previous: dict[signal.Signals, object] = {}
        self._closed = threading.Event()

    @property
    def is_set(self) -> bool:
        """Whether the job has to end."""
        return self._reason is not None

    @property
    def reason(self) -> str | None:
        """What set the flag first: a signal's name, or a notice; None as long as it is not set."""
        return self._reason

    @property
    def seconds_left(self) -> float:
        """Seconds until the process will be killed; infinite where the flag is not set, never below 0."""
        return max(0.0, self._deadline - time.monotonic())

    def set(self, reason: str, *, seconds: float | None = None) -> None:
        """Set the flag; `seconds` until the kill, by default the grace period. The earliest end counts."""
        left = self.grace_seconds if seconds is None else seconds
        self._deadline = min(self._deadline, time.monotonic() + left)
        self._reason = self._reason or reason

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            self._previous[number] = signal.signal(number, self._handle)
        if self._notices:
            threading.Thread(target=self._poll, name="termination-notices", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        if os.getpid() != self._pid:
            # A process that was forked from ours: it ends as if we had never been here.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self.set(signal.Signals(number).name)

    def _poll(self) -> None:
        failed: set[int] = set()
        while not self._closed.is_set():
            for index, notice in enumerate(self._notices):
                try:
                    seconds = notice()
                except Exception as error:  # noqa: BLE001 (somebody else's code; training goes on)
                    if index not in failed:
                        _LOG.warning("termination notice %r cannot be read: %r", notice, error)
                    failed.add(index)
                    continue
                failed.discard(index)
                if seconds is not None:
                    self.set(f"notice {notice!r}", seconds=seconds)
            self._closed.wait(self._poll_seconds)


class FileNotice:
    """A file whose existence announces the end, as a provider's agent or an operator makes it.

    Args:
        path: Its contents may be a number, the seconds that are left when it is made.
        seconds: What is left where the file does not say.
    """

    def __init__(self, path: str | Path, *, seconds: float = 25.0) -> None:
        self._path = Path(path)
        self._seconds = seconds

    def __call__(self) -> float | None:
        """Return the seconds that are left, None as long as there is no file."""
        try:
            age = max(0.0, time.time() - self._path.stat().st_mtime)
            text = self._path.read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return None
        try:
            said = float(json.loads(text)) if text else self._seconds
        except (ValueError, TypeError):
            said = self._seconds
        return max(0.0, said - age)

    def __repr__(self) -> str:
        return f"file {self._path.name}"


class UrlNotice:
    """An address that announces the end by answering 200, such as a cloud's metadata service.

    Any other answer, and none at all, mean that nothing is announced. A proxy is never used.

    Args:
        url: http or https.
        headers: Sent along.
        contains: A text that the answer must hold, where the address always answers 200.
        seconds: What is left when the notice is first seen.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        contains: str | None = None,
        seconds: float = 25.0,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            msg = f"a notice's address begins with http:// or https://, not {url!r}"
            raise ValueError(msg)
        self._request = urllib.request.Request(url, headers=dict(headers or {}))  # noqa: S310 (checked above)
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._contains = contains
        self._seconds = seconds
        self._end: float | None = None

    def __call__(self) -> float | None:
        """Return the seconds that are left, None as long as nothing is announced."""
        if self._end is None and self._announced():
            self._end = time.monotonic() + self._seconds
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def _announced(self) -> bool:
        try:
            with self._opener.open(self._request, timeout=_URL_TIMEOUT_SECONDS) as answer:
                text = answer.read(1 << 16).decode("utf-8", "replace")
        except urllib.error.HTTPError as error:
            error.close()
            return False
        except OSError:
            return False
        return answer.status == 200 and (self._contains is None or self._contains in text)

    def __repr__(self) -> str:
        return f"address {self._request.host}"


def leave_signals_to_parent(worker: int = 0) -> None:
    """Ignore SIGTERM and SIGINT in this process: its parent decides when it ends.

    Give it to a DataLoader as `worker_init_fn`. Both signals often go to a whole process group, and a data
    worker that dies of one takes the training loop with it before the last save. One that came between the
    worker's start and this call is forgotten where the worker was started under `signals_held`.
    """
    del worker  # the DataLoader's number for it
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


@contextmanager
def signals_held() -> Iterator[None]:
    """Hold SIGTERM and SIGINT back in this thread, and in processes that it starts meanwhile.

    This thread gets what came when it is over. A process stays so until it says otherwise, as
    `leave_signals_to_parent` does: start a DataLoader's workers in here, with `iter(loader)`.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
