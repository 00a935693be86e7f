"""Checkpoints on the local disk: written under a temporary name, synced, renamed, and checked when read.

A checkpoint is a folder `step-000000001200` with two files: `state.pt`, as torch.save writes it, and
`manifest.json` with its size and SHA-256. The folder gets its name when both are on the disk, in one rename:
it is either there and complete, or not there.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

__all__ = ["MANIFEST", "STATE", "LocalFolder", "Manifest", "Saved", "TornError", "digest"]

STATE = "state.pt"
MANIFEST = "manifest.json"
FORMAT = 1

_LOG = logging.getLogger("checkpointer")
_WORTH_A_THREAD = 1 << 20  # bytes
_NAME = re.compile(r"step-(\d{12})")


class TornError(Exception):
    """A checkpoint is not what its manifest says: cut short, changed, or without a readable manifest."""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What is known of a checkpoint's state without reading it.

    Attributes:
        step: Steps done.
        size_bytes: Of state.pt.
        sha256: Of state.pt, in hexadecimal digits.
        saved_at: Seconds since 1970.
        torch: Version that wrote it.
    """

    step: int
    size_bytes: int
    sha256: str
    saved_at: float
    torch: str
    format: int = FORMAT

    def encode(self) -> bytes:
        """Return the manifest as its file holds it."""
        return json.dumps(asdict(self), indent=1).encode()

    @classmethod
    def decode(cls, raw: bytes) -> Manifest:
        """Return the manifest that a file holds.

        Raises:
            TornError: The file holds none.
        """
        try:
            manifest = cls(**json.loads(raw))
        except (ValueError, TypeError) as error:
            msg = f"its manifest cannot be read: {error}"
            raise TornError(msg) from error
        if manifest.format != FORMAT:
            msg = f"its format is {manifest.format}; this checkpointer reads {FORMAT}"
            raise TornError(msg)
        return manifest


@dataclass(frozen=True, kw_only=True)
class Saved:
    """A checkpoint on the local disk."""

    step: int
    folder: Path
    manifest: Manifest

    @property
    def state(self) -> Path:
        """The file with the state."""
        return self.folder / STATE


class LocalFolder:
    """The checkpoints of one job on the local disk; one process writes it.

    Args:
        folder: Made where it is missing. Nothing but this job's checkpoints belongs there.
        keep: How many complete checkpoints stay, at least 2: the newest and the previous one.
    """

    def __init__(self, folder: str | Path, *, keep: int = 2) -> None:
        if keep < 2:
            msg = f"keep is {keep}; at least 2, so that a torn checkpoint leaves the previous one"
            raise ValueError(msg)
        self.folder = Path(folder)
        self._keep = keep

    def prepare(self) -> None:
        """Make the folder, and remove what a killed process left half-written."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for left in self.folder.glob(".partial-*"):
            shutil.rmtree(left, ignore_errors=True)

    def write(self, step: int, state: dict[str, Any]) -> Saved:
        """Write a checkpoint and return it when it is on the disk.

        Raises:
            OSError: It cannot be written; the checkpoints before it are untouched.
        """
        partial = self._partial(step)
        try:
            sha256, size = _save(state, partial / STATE)
            manifest = Manifest(
                step=step, size_bytes=size, sha256=sha256, saved_at=time.time(), torch=str(torch.__version__)
            )
            return self.adopt(partial, manifest)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise

    def fetch(self, manifest: Manifest, download: Callable[[Path], None]) -> Saved:
        """Take a checkpoint from elsewhere: `download` writes its state to the path that it is given.

        Raises:
            TornError: What came is not what the manifest says.
        """
        partial = self._partial(manifest.step)
        try:
            download(partial / STATE)
            _require(partial / STATE, manifest)
            _sync(partial / STATE)
            return self.adopt(partial, manifest)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise

    def adopt(self, partial: Path, manifest: Manifest) -> Saved:
        """Give a complete, synced folder its name."""
        with (partial / MANIFEST).open("wb") as file:
            file.write(manifest.encode())
            file.flush()
            os.fsync(file.fileno())
        _sync(partial)
        target = self.folder / f"step-{manifest.step:012d}"
        if target.exists():
            self.set_aside(manifest.step)
        partial.rename(target)
        _sync(self.folder)
        return Saved(step=manifest.step, folder=target, manifest=manifest)

    def steps(self) -> list[int]:
        """Return the steps of which a folder is there, newest first, intact or not."""
        return sorted((step for step, _ in self._folders()), reverse=True)

    def open(self, step: int) -> Saved:
        """Return a checkpoint after its hash was checked.

        Raises:
            TornError: It is not what its manifest says.
        """
        folder = self.folder / f"step-{step:012d}"
        try:
            manifest = Manifest.decode((folder / MANIFEST).read_bytes())
            _require(folder / STATE, manifest)
        except OSError as error:
            msg = f"it cannot be read: {error}"
            raise TornError(msg) from error
        return Saved(step=step, folder=folder, manifest=manifest)

    def set_aside(self, step: int) -> None:
        """Take a torn checkpoint out of the row; until the next save it stays, for whoever looks."""
        folder = self.folder / f"step-{step:012d}"
        if not folder.exists():  # replaced by the destination's copy
            return
        torn = folder.with_name(f"torn-{folder.name}")
        shutil.rmtree(torn, ignore_errors=True)
        folder.rename(torn)

    def prune(self, newest: int, *, busy: frozenset[int] = frozenset()) -> None:
        """Remove the checkpoints before the last ones up to `newest`, but none that is being uploaded."""
        older = sorted((step for step, _ in self._folders() if step <= newest), reverse=True)[self._keep :]
        for step in older:
            if step not in busy:
                self._remove(step)
        for torn in self.folder.glob("torn-*"):
            shutil.rmtree(torn, ignore_errors=True)

    def _remove(self, step: int) -> None:
        """Take a checkpoint's name away first: a kill in between leaves no half of one."""
        going = self.folder / f".partial-{step:012d}"
        with suppress(OSError):  # space is not worth ending a job for
            (self.folder / f"step-{step:012d}").rename(going)
        shutil.rmtree(going, ignore_errors=True)

    def _folders(self) -> Iterator[tuple[int, Path]]:
        for path in self.folder.iterdir() if self.folder.is_dir() else ():
            match = _NAME.fullmatch(path.name)
            if match:
                yield int(match[1]), path

    def _partial(self, step: int) -> Path:
        partial = self.folder / f".partial-{step:012d}"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        return partial


def digest(path: Path) -> str:
    """Return a file's SHA-256 in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _require(path: Path, manifest: Manifest) -> None:
    size = path.stat().st_size
    if size != manifest.size_bytes:
        msg = f"{path.name} has {size} bytes instead of {manifest.size_bytes}"
        raise TornError(msg)
    if digest(path) != manifest.sha256:
        msg = f"{path.name} has another SHA-256 than its manifest says"
        raise TornError(msg)


class _Hashing:
    """A file that is hashed while it is written: the disk and a second core work at the same time."""

    def __init__(self, file: BinaryIO, hasher: ThreadPoolExecutor) -> None:
        self._file = file
        self._hasher = hasher
        self.sha256 = hashlib.sha256()
        self.bytes = 0
        self.error: OSError | None = None

    def write(self, data: memoryview) -> int:
        # The memory is torch's and only valid during this call, so the hash is waited for.
        hashed = self._hasher.submit(self.sha256.update, data) if len(data) >= _WORTH_A_THREAD else None
        if hashed is None:
            self.sha256.update(data)
        try:
            self._file.write(data)
        except OSError as error:
            self.error = error
            raise
        finally:
            if hashed is not None:
                hashed.result()
        self.bytes += len(data)
        return len(data)

    def flush(self) -> None:
        self._file.flush()


def _save(state: dict[str, Any], path: Path) -> tuple[str, int]:
    """Write a state, sync it, and return its SHA-256 and size."""
    with ThreadPoolExecutor(1) as hasher, path.open("wb") as file, _without_crc32():
        writer = _Hashing(file, hasher)
        try:
            torch.save(state, writer)
        except RuntimeError:
            if writer.error is not None:  # torch hides what the file system said
                raise writer.error from None
            raise
        file.flush()
        os.fsync(file.fileno())
    return writer.sha256.hexdigest(), writer.bytes


@contextmanager
def _without_crc32() -> Iterator[None]:
    """Spare torch.save its own checksum: ours is stronger, and covers the whole file."""
    options = torch.serialization
    if not hasattr(options, "set_crc32_options"):  # older than torch 2.6
        yield
        return
    before = options.get_crc32_options()
    options.set_crc32_options(False)
    try:
        yield
    finally:
        options.set_crc32_options(before)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
