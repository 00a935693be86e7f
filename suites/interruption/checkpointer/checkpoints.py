"""The checkpointer: what a training loop calls after each step."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeAlias

import torch

from .destinations import UploadError
from .files import MANIFEST, STATE, LocalFolder, Manifest, TornError
from .ranks import Ranks
from .state import HostCopies
from .stopping import StopFlag
from .uploading import Upload, Uploader, remote_name, remote_steps

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from .destinations import Destination
    from .files import Saved
    from .state import TrainingState

__all__ = ["Checkpointer", "Event", "RestoreError", "Restored", "Save"]

_LOG = logging.getLogger("checkpointer")


class RestoreError(Exception):
    """There are checkpoints, but none can be loaded: going on from step 0 would throw away what was done."""


@dataclass(frozen=True, kw_only=True)
class Save:
    """A save that succeeded; the loop stood still from `begin` to `end` (time.monotonic())."""

    step: int
    begin: float
    end: float
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class Restored:
    """A checkpoint that was loaded, from `begin` to `end` (time.monotonic())."""

    step: int
    begin: float
    end: float


Event: TypeAlias = Save | Upload | Restored


def _ignore(event: Event) -> None:
    del event


class Checkpointer:
    """Saves a training loop's state, and ends the loop in time when the machine goes away.

    Saving to the local disk blocks the loop; the upload does not. With several ranks every one has a
    Checkpointer on the same folder, and all call the same methods after the same steps; rank 0 writes.

    Args:
        folder: On the local disk, for this job alone.
        state: What is saved.
        destination: Where checkpoints are uploaded to; None: nowhere.
        stop: Tells when to end; by default SIGTERM and SIGINT with 25 s of grace. It is entered and left with
            the checkpointer.
        every_steps: A checkpoint is due after each so many steps.
        every_seconds: A checkpoint is due when the last one is so long ago (by rank 0's clock).
        keep: How many checkpoints stay, locally and at the destination.
        least_seconds: No save is begun with less time than this before the kill.
        exit_seconds: Of the time before the kill, what is left for the interpreter to end.
        listener: Called with each save, upload (from its thread) and restore.
    """

    def __init__(
        self,
        folder: str | Path,
        state: TrainingState,
        *,
        destination: Destination | None = None,
        stop: StopFlag | None = None,
        every_steps: int | None = None,
        every_seconds: float | None = None,
        keep: int = 2,
        least_seconds: float = 3.0,
        exit_seconds: float = 2.0,
        listener: Callable[[Event], None] | None = None,
    ) -> None:
        self.stop = StopFlag() if stop is None else stop
        self._folder = LocalFolder(folder, keep=keep)
        self._state = state
        self._destination = destination
        self._every_steps = every_steps
        self._every_seconds = every_seconds
        self._least_seconds = least_seconds
        self._exit_seconds = exit_seconds
        self._listener = listener or _ignore
        self._ranks = Ranks()
        self._copies = HostCopies()
        self._uploader: Uploader | None = None
        if destination is not None and self._ranks.rank == 0:
            self._uploader = Uploader(destination, keep=keep, told=self._listener)
        self._last: Saved | None = None  # rank 0's
        self._tried_step: int | None = None  # the same on all ranks
        self._last_time = time.monotonic()
        self._save_error: str | None = None

    @property
    def last_saved_step(self) -> int | None:
        """Step of the newest checkpoint on the local disk that this process wrote or loaded; rank 0 knows."""
        return None if self._last is None else self._last.step

    @property
    def last_uploaded_step(self) -> int | None:
        """Step of the newest checkpoint that this process uploaded completely; rank 0 knows."""
        return None if self._uploader is None else self._uploader.uploaded_step

    @property
    def save_error(self) -> str | None:
        """Why the last save failed; None where it did not. Rank 0 knows."""
        return self._save_error

    @property
    def upload_error(self) -> str | None:
        """Why the last upload failed; None where it did not. Rank 0 knows."""
        return None if self._uploader is None else self._uploader.error

    def __enter__(self) -> Self:
        self.stop.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._uploader is not None:
            if error is not None and self._last is not None and self._uploader.busy:
                self._wait_for_upload(self.stop.grace_seconds)
            self._uploader.stop()
        self.stop.__exit__(kind, error, trace)

    def restore(self) -> int:
        """Load the newest intact checkpoint, local or from the destination; return its step, 0 where none is.

        Raises:
            RestoreError: There are some, and none is intact or of this job's shape; or nothing is here and
                the destination cannot be asked.
        """
        begin = time.monotonic()
        saved: Saved | None = None
        problem: str | None = None
        if self._ranks.rank == 0:
            try:
                saved = self._find()
            except (RestoreError, OSError) as error:
                problem = str(error)
        place = None if saved is None else (saved.state, saved.step)
        place, problem = self._ranks.from_first((place, problem))
        if problem is not None:
            raise RestoreError(problem)
        if place is None:
            return 0
        state, step = place
        # Mapped: tensors go from the file to the GPU without a copy in between. On a CPU they would stay
        # mapped.
        content = torch.load(state, map_location="cpu", weights_only=True, mmap=torch.cuda.is_initialized())
        if len(content["ranks"]) != self._ranks.size:
            msg = f"the checkpoint is one of {len(content['ranks'])} ranks; this job has {self._ranks.size}"
            raise RestoreError(msg)
        try:
            self._state.restore(content["shared"], content["ranks"][self._ranks.rank])
        except ValueError as error:
            raise RestoreError(str(error)) from error
        self._last, self._tried_step, self._last_time = saved, step, time.monotonic()
        _LOG.info("goes on from step %d", step)
        self._listener(Restored(step=step, begin=begin, end=time.monotonic()))
        return step

    def after_step(self, step: int) -> bool:
        """Save when it is due; True when the loop has to end, and then everything is saved and uploaded.

        Args:
            step: Steps done.
        """
        decision = self._ranks.agree(
            stop=self.stop.is_set, save=self._due(step), seconds_left=self.stop.seconds_left
        )
        if decision.stop:
            self._end(step, decision.seconds_left)
        elif decision.save:
            self.save(step)
        return decision.stop

    def save(self, step: int) -> bool:
        """Save now and hand the checkpoint to the upload; False where it failed, which is logged.

        Training may go on after a failure: the checkpoints before it are untouched.
        """
        saved = self._write(step)
        if saved is not None and self._uploader is not None:
            self._uploader.submit(saved)
        return self._save_error is None

    def finish(self, step: int, *, upload_seconds: float = 600.0) -> bool:
        """At the end of training: save, unless this step is saved, and wait for the upload.

        Returns:
            Whether the last checkpoint is where it should be: at the destination, or locally where there is
            none.
        """
        if self._tried_step != step:
            self._write(step)
        return self._wait_for_upload(upload_seconds)

    def _due(self, step: int) -> bool:
        if self._every_steps is not None and step % self._every_steps == 0:
            return step != self._tried_step
        return (
            self._every_seconds is not None
            and self._ranks.rank == 0
            and time.monotonic() - self._last_time >= self._every_seconds
        )

    def _end(self, step: int, seconds_left: float) -> None:
        self.stop.set("another rank", seconds=seconds_left)  # changes nothing where it was told
        _LOG.info("stops after step %d: %s; %.1f s left", step, self.stop.reason, seconds_left)
        if self._tried_step != step:
            if seconds_left < self._least_seconds:
                _LOG.warning(
                    "no save is begun with %.1f s left; step %s is kept", seconds_left, self.last_saved_step
                )
            else:
                self._write(step)
        if self._uploader is not None and not self._wait_for_upload(self.stop.grace_seconds):
            _LOG.error("step %s is not uploaded in time; its local copy stays", self.last_saved_step)

    def _write(self, step: int) -> Saved | None:
        """Write a checkpoint; the same on all ranks, of which rank 0 gets it."""
        begin = time.monotonic()
        everyone = self._ranks.gather(self._state.of_rank())
        self._tried_step, self._save_error = step, None
        if everyone is None:
            return None
        content = {"step": step, "shared": self._state.shared(), "ranks": everyone}
        try:
            saved = self._folder.write(step, self._copies.of(content))
        except OSError as error:
            self._save_error = str(error)
            _LOG.error("step %d is not saved: %s", step, error)
            return None
        self._last, self._last_time = saved, time.monotonic()
        self._listener(
            Save(step=step, begin=begin, end=self._last_time, size_bytes=saved.manifest.size_bytes)
        )
        self._folder.prune(step, busy=frozenset() if self._uploader is None else self._uploader.busy)
        return saved

    def _wait_for_upload(self, seconds: float) -> bool:
        if self._uploader is None or self._last is None:
            return self._save_error is None
        deadline = time.monotonic() + seconds
        return self._uploader.finish(
            self._last,
            seconds_left=lambda: min(
                deadline - time.monotonic(), self.stop.seconds_left - self._exit_seconds
            ),
        )

    def _find(self) -> Saved | None:
        """Return the newest intact checkpoint; those that are torn are told in the log and set aside."""
        self._folder.prepare()
        local = self._folder.steps()
        remote: list[int] = []
        if self._destination is not None:
            try:
                remote = remote_steps(self._destination.names())
            except UploadError as error:
                if not local:
                    msg = f"there is no checkpoint here, and {self._destination!r} cannot be asked: {error}"
                    raise RestoreError(msg) from error
                _LOG.warning(
                    "%r cannot be asked, the local checkpoints are used: %s", self._destination, error
                )
        torn: list[int] = []
        for step in sorted({*local, *remote}, reverse=True):
            found = self._open(step, local=step in local, remote=step in remote, torn=torn)
            if found is not None:
                for bad in torn:
                    if bad != step:  # else the destination's copy has taken its place
                        self._folder.set_aside(bad)
                return found
        if local or remote:
            msg = f"none of the checkpoints of steps {sorted({*local, *remote})} is intact"
            raise RestoreError(msg)
        return None

    def _open(self, step: int, *, local: bool, remote: bool, torn: list[int]) -> Saved | None:
        if local:
            try:
                return self._folder.open(step)
            except TornError as error:
                _LOG.warning("the local checkpoint of step %d is torn and not used: %s", step, error)
                torn.append(step)
        if remote and self._destination is not None:
            try:
                return self._download(step, self._destination)
            except (TornError, UploadError, OSError) as error:
                _LOG.warning("the uploaded checkpoint of step %d is not used: %s", step, error)
        return None

    def _download(self, step: int, destination: Destination) -> Saved:
        def download(path: Path) -> None:
            destination.get(remote_name(step, STATE), path)

        return self._folder.fetch(self._manifest(step, destination), download)

    def _manifest(self, step: int, destination: Destination) -> Manifest:
        path = self._folder.folder / f".{MANIFEST}"
        try:
            destination.get(remote_name(step, MANIFEST), path)
            return Manifest.decode(path.read_bytes())
        finally:
            path.unlink(missing_ok=True)
