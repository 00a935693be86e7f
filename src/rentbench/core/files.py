"""Reads of files from others, bounded and without waiting; writes that are atomic and never replace."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import stat
from typing import TYPE_CHECKING, NoReturn

from rentbench.core.errors import RentbenchError, UnusableInputError

if TYPE_CHECKING:
    from io import BufferedReader
    from pathlib import Path

__all__ = ["MAX_BYTES", "read_bytes", "refuse", "sha256_bytes", "sha256_file", "sync_folder", "write_new"]

MAX_BYTES = 64 * 1024 * 1024

_NO_HARD_LINKS = {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK, errno.EXDEV}


def read_bytes(path: Path, *, max_bytes: int = MAX_BYTES, source: str | None = None) -> bytes:
    """Return the content of a regular file; never waits, never follows a link in the last part of the path.

    Raises:
        UnusableInputError: Missing, a link, no regular file, not permitted, or too large.
    """
    name = source or str(path)
    with _open_regular(path, name) as file:
        try:
            size = os.fstat(file.fileno()).st_size
            # One byte more shows a file that grew, or that lies about its size.
            raw = file.read(max_bytes + 1) if size <= max_bytes else b""
        except OSError as error:
            refuse(name, _reason(error))
    if size > max_bytes or len(raw) > max_bytes:
        refuse(name, f"is larger than {max_bytes} bytes")
    return raw


def write_new(path: Path, content: bytes) -> None:
    """Write a file whole or not at all: under a temporary name, synced, then named.

    Args:
        path: The file to make; its folder must be there.
        content: What it holds.

    Raises:
        RentbenchError: Something of that name is there already, or the disk refuses.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            _put(temporary, path)
            sync_folder(path.parent)
        finally:
            temporary.unlink(missing_ok=True)
    except FileExistsError as error:
        msg = f"{path} is there already, and is not overwritten"
        raise RentbenchError(msg, hint="choose another folder") from error
    except OSError as error:
        msg = f"{path} cannot be written: {error.strerror or error}"
        raise RentbenchError(msg, hint="check the folder's owner, and the free space") from error


def sha256_bytes(content: bytes) -> str:
    """Return the hash of some bytes as documents name it, `sha256:…`."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def sha256_file(path: Path) -> str:
    """Return the hash of a regular file's content as documents name it, `sha256:…`.

    Raises:
        UnusableInputError: It cannot be read, or is a link or no regular file.
    """
    with _open_regular(path, str(path)) as file:
        try:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
        except OSError as error:
            refuse(str(path), _reason(error))


def refuse(name: str, what: str) -> NoReturn:
    """Raise that an input cannot be used, and why."""
    msg = f"{name} {what}"
    raise UnusableInputError(msg)


def _open_regular(path: Path, name: str) -> BufferedReader:
    """Open a regular file: no link, nothing that could wait or act when it is opened."""
    try:
        # A look before the open: opening a device can have effects of its own.
        _require_regular(os.lstat(path).st_mode, name)
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        file = open(descriptor, "rb")  # noqa: PTH123, SIM115 - a descriptor; the caller closes
    except (OSError, ValueError) as error:
        refuse(name, _reason(error))
    _require_regular(os.fstat(file.fileno()).st_mode, name)
    return file


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "is not there"
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return "is a symbolic link, which is not followed"
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return f"cannot be read: {reason}"


def _require_regular(mode: int, name: str) -> None:
    if stat.S_ISLNK(mode):
        refuse(name, "is a symbolic link, which is not followed")
    if stat.S_ISDIR(mode):
        refuse(name, "is a folder, not a file")
    if not stat.S_ISREG(mode):
        refuse(name, "is no regular file")


def _put(temporary: Path, path: Path) -> None:
    """Give a finished file its name, unless the name is taken; a plain rename would replace what is there."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        # No hard links here (FAT, some network file systems): a gap remains between look and rename.
        if path.exists() or path.is_symlink():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from error
        temporary.rename(path)


def sync_folder(folder: Path) -> None:
    """Let a folder's new and renamed entries outlast a loss of power."""
    # Not every file system can sync a folder; the file's own content is safe by now.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
