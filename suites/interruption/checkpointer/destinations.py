"""Where checkpoints are uploaded to: the interface, and a folder as the simplest destination."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import Protocol

__all__ = ["CancelledError", "Destination", "FolderDestination", "PermanentError", "UploadError"]

_CHUNK = 16 << 20


class UploadError(Exception):
    """A destination did not take or give a file, although it was tried again where that could help."""


class PermanentError(UploadError):
    """Trying again would not help: no permission, no such bucket, wrong credentials."""


class CancelledError(Exception):
    """The transfer was given up because a newer checkpoint has to be uploaded, or the time is over."""


class Destination(Protocol):
    """Keeps files under names such as `step-000000001200/state.pt`.

    The uploader calls it from threads of its own, never from two at a time except at shutdown, where an older
    upload may still be ending. A file must appear complete or not at all.
    """

    def put(self, path: Path, name: str, cancelled: threading.Event) -> None:
        """Store a file, retrying what can pass.

        Raises:
            CancelledError: `cancelled` was set meanwhile.
            UploadError: It could not be stored.
        """

    def get(self, name: str, path: Path) -> None:
        """Write a stored file to a path.

        Raises:
            FileNotFoundError: There is none of this name.
            UploadError: It could not be read.
        """

    def names(self) -> list[str]:
        """Return the names of all files; [] where there are none.

        Raises:
            UploadError: They could not be listed.
        """

    def delete(self, name: str) -> None:
        """Remove a file.

        Raises:
            UploadError: It could not be removed.
        """


class FolderDestination:
    """A folder, such as a mounted network volume; one job at a time writes it."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._partial = self._folder / ".partial"
        self._cleared = False

    def put(self, path: Path, name: str, cancelled: threading.Event) -> None:
        """Copy a file under a temporary name, sync it, and rename it."""
        target = self._folder / name
        partial = self._partial / f"{name.replace('/', '-')}-{threading.get_ident()}"
        try:
            self._clear()
            partial.parent.mkdir(parents=True, exist_ok=True)
            with path.open("rb") as source, partial.open("wb") as copy:
                while chunk := source.read(_CHUNK):
                    if cancelled.is_set():
                        raise CancelledError
                    copy.write(chunk)
                copy.flush()
                os.fsync(copy.fileno())
            target.parent.mkdir(exist_ok=True)
            partial.rename(target)
        except OSError as error:
            msg = f"{name} cannot be copied: {error}"
            raise UploadError(msg) from error
        finally:
            partial.unlink(missing_ok=True)

    def get(self, name: str, path: Path) -> None:
        """Copy a file from the folder."""
        try:
            shutil.copyfile(self._folder / name, path)
        except FileNotFoundError:
            raise
        except OSError as error:
            msg = f"{name} cannot be read: {error}"
            raise UploadError(msg) from error

    def names(self) -> list[str]:
        """Return the names of all files."""
        try:
            found = [path.relative_to(self._folder) for path in self._folder.rglob("*") if path.is_file()]
        except OSError as error:
            msg = f"{self._folder} cannot be listed: {error}"
            raise UploadError(msg) from error
        return [path.as_posix() for path in found if path.parts[0] != self._partial.name]

    def delete(self, name: str) -> None:
        """Remove a file, and its folder when it was the last one there."""
        target = self._folder / name
        try:
            target.unlink(missing_ok=True)
            if not any(target.parent.iterdir()):
                target.parent.rmdir()
        except OSError as error:
            msg = f"{name} cannot be removed: {error}"
            raise UploadError(msg) from error

    def _clear(self) -> None:
        """Remove what a process that was killed left half-written, once."""
        if not self._cleared:
            shutil.rmtree(self._partial, ignore_errors=True)
            self._cleared = True

    def __repr__(self) -> str:
        return f"folder {self._folder}"
