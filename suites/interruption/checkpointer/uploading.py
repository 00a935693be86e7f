"""The upload in the background: newest first, never waited for by the training loop."""

from __future__ import annotations

import logging
import re
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .destinations import CancelledError, UploadError
from .files import MANIFEST, STATE

if TYPE_CHECKING:
    from collections.abc import Callable

    from .destinations import Destination
    from .files import Saved

__all__ = ["Upload", "Uploader", "remote_name", "remote_steps"]

_LOG = logging.getLogger("checkpointer")
_REMOTE_NAME = re.compile(rf"step-(\d{{12}})/(?:{re.escape(STATE)}|{re.escape(MANIFEST)})")


@dataclass(frozen=True, kw_only=True)
class Upload:
    """An upload that has ended.

    Attributes:
        step: Of the checkpoint.
        begin: time.monotonic() at its begin.
        end: time.monotonic() at its end.
        error: Why it failed; None where it is complete.
    """

    step: int
    begin: float
    end: float
    error: str | None


class Uploader:
    """Uploads checkpoints one after the other from a thread of its own.

    A checkpoint that is handed in while another one waits takes its place: what counts is the newest. The
    state goes first and the manifest last, so that a checkpoint without a manifest is none.

    Args:
        destination: Where to.
        keep: How many complete checkpoints stay there.
        told: Called from the thread with each upload that has ended.
    """

    def __init__(self, destination: Destination, *, keep: int, told: Callable[[Upload], None]) -> None:
        self._destination = destination
        self._keep = keep
        self._told = told
        self._changed = threading.Condition()
        self._waiting: Saved | None = None
        self._running: tuple[Saved, threading.Event] | None = None
        self._uploaded: int | None = None
        self._error: str | None = None
        self._thread: threading.Thread | None = None

    @property
    def uploaded_step(self) -> int | None:
        """Step of the newest checkpoint that is complete at the destination; None before the first."""
        return self._uploaded

    @property
    def error(self) -> str | None:
        """Why the last upload failed; None where it did not."""
        return self._error

    @property
    def busy(self) -> frozenset[int]:
        """Steps whose local files are still needed."""
        with self._changed:
            running = self._running and self._running[0]
            return frozenset(saved.step for saved in (running, self._waiting) if saved)

    def submit(self, saved: Saved) -> None:
        """Have a checkpoint uploaded, and return at once."""
        with self._changed:
            if self._waiting is not None:
                _LOG.info("step %d is not uploaded: step %d is newer", self._waiting.step, saved.step)
            self._waiting = saved
            self._start()

    def finish(self, last: Saved, *, seconds_left: Callable[[], float]) -> bool:
        """Upload this checkpoint before any other, and wait as long as there is time; True when it is there.

        An older upload that is under way is given up, and not waited for.
        """
        with self._changed:
            if self._running is not None and self._running[0].step != last.step:
                _LOG.info("the upload of step %d is given up for step %d", self._running[0].step, last.step)
                self._running[1].set()
                self._running = self._thread = None  # its thread ends by itself; another one takes over
            self._waiting = None
            if self._uploaded != last.step and self._running is None:
                self._waiting = last
                self._start()
            while self._waiting is not None or self._running is not None:
                left = seconds_left()
                if left <= 0:
                    break
                self._changed.wait(min(left, 0.5))  # time may get shorter meanwhile
            return self._uploaded == last.step

    def stop(self) -> None:
        """Give up what is under way."""
        with self._changed:
            self._waiting = None
            if self._running is not None:
                self._running[1].set()

    def _start(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._work, name="checkpoint-upload", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        me = threading.current_thread()
        while True:
            with self._changed:
                if self._thread is not me:
                    return
                if self._waiting is None:
                    self._thread = None
                    return
                saved, cancelled = self._waiting, threading.Event()
                self._running, self._waiting = (saved, cancelled), None
            upload = self._upload(saved, cancelled)
            with self._changed:
                current = self._running is not None and self._running[1] is cancelled
                if current:
                    self._running, self._error = None, upload.error
                if upload.error is None:
                    self._uploaded = max(saved.step, self._uploaded or 0)
                self._changed.notify_all()
            self._told(upload)
            if upload.error is None:
                self._remove_old(saved.step)

    def _upload(self, saved: Saved, cancelled: threading.Event) -> Upload:
        begin, error = time.monotonic(), None
        try:
            self._destination.put(saved.state, remote_name(saved.step, STATE), cancelled)
            self._destination.put(saved.folder / MANIFEST, remote_name(saved.step, MANIFEST), cancelled)
        except CancelledError:
            error = "given up"
        except Exception as failure:  # noqa: BLE001 (whatever a destination raises, training goes on)
            error = str(failure) or repr(failure)
            _LOG.error("step %d is not uploaded, its local copy stays: %s", saved.step, error)
        return Upload(step=saved.step, begin=begin, end=time.monotonic(), error=error)

    def _remove_old(self, newest: int) -> None:
        """Remove what came before the checkpoints to keep, and states that never got their manifest."""
        try:
            names = self._destination.names()
            kept = [step for step in remote_steps(names) if step <= newest][: self._keep]
            old = [name for name in names if (step := _step_of(name)) is not None and step < newest]
            for name in sorted(name for name in old if _step_of(name) not in kept):  # manifests come first
                self._destination.delete(name)
        except (UploadError, OSError) as error:
            _LOG.warning("old checkpoints stay at the destination: %s", error)


def remote_name(step: int, file: str) -> str:
    """Return the name of a checkpoint's file at a destination."""
    return f"step-{step:012d}/{file}"


def remote_steps(names: list[str]) -> list[int]:
    """Return the steps that are complete at a destination, newest first, from the names of all its files."""
    steps = {_step_of(name) for name in names if name.endswith(f"/{MANIFEST}")}
    return sorted((step for step in steps if step is not None), reverse=True)


def _step_of(name: str) -> int | None:
    match = _REMOTE_NAME.fullmatch(name)
    return int(match[1]) if match else None
