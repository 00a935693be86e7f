"""Speed of a disk with one large file: written and synced, then read past the page cache where possible."""

from __future__ import annotations

import mmap
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["DiskSpeed", "filesystem", "measure_disk"]

_CHUNK_BYTES = 8 * 2**20
_STAMP_BYTES = 128 * 2**10
_MOUNTS = Path("/proc/self/mountinfo")


@dataclass(frozen=True, kw_only=True)
class DiskSpeed:
    """What one file took.

    Attributes:
        size_bytes: Of the file.
        write_seconds: Writing and syncing.
        read_seconds: Reading.
        direct: Whether it was read with O_DIRECT, so surely from the disk and not from the page cache.
    """

    size_bytes: int
    write_seconds: float
    read_seconds: float
    direct: bool


def measure_disk(folder: Path, *, size_bytes: int, limit_seconds: float) -> DiskSpeed:
    """Write a file of random bytes, sync it and read it back. Nothing stays behind.

    Args:
        folder: Where.
        size_bytes: A multiple of 8 MiB.
        limit_seconds: Writing ends early after this; the file is then smaller.

    Raises:
        OSError: The folder cannot be written, or the disk is full.
    """
    path = folder / f"preflight-{os.getpid()}.bin"
    writer = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        try:
            reader, direct = _open_past_cache(path)
        finally:
            path.unlink()  # the descriptors keep the file: even a killed run leaves nothing on the disk
        try:
            with mmap.mmap(-1, _CHUNK_BYTES) as buffer:  # page-aligned, as O_DIRECT wants it
                buffer.write(os.urandom(_CHUNK_BYTES))  # a file system that compresses must not gain by it
                written, write_seconds = _write(writer, buffer, size_bytes, limit_seconds)
                read_seconds = _read(reader, buffer)
        finally:
            os.close(reader)
    finally:
        os.close(writer)
    return DiskSpeed(
        size_bytes=written, write_seconds=write_seconds, read_seconds=read_seconds, direct=direct
    )


def filesystem(folder: Path, mounts: Path = _MOUNTS) -> str | None:
    """Return the type of the file system that a folder lies on (`ext4`, `overlay`, `tmpfs`), or None."""
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return None
    resolved = folder.resolve()
    depth, kind = 0, None
    for line in lines:
        # proc_pid_mountinfo(5): the mount point is the fifth field, the type the first after the dash.
        before, _, after = line.partition(" - ")
        mount = Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), before.split()[4]))
        # Of several mounts on one point the last one counts: it lies over the others.
        if resolved.is_relative_to(mount) and len(mount.parts) >= depth:
            depth, kind = len(mount.parts), after.split()[0]
    return kind


def _open_past_cache(path: Path) -> tuple[int, bool]:
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECT), True
    except OSError:  # the file system has no such reading
        return os.open(path, os.O_RDONLY), False


def _write(descriptor: int, buffer: mmap.mmap, size_bytes: int, limit_seconds: float) -> tuple[int, float]:
    written = 0
    begin = time.perf_counter()
    while written < size_bytes and (not written or time.perf_counter() - begin < limit_seconds):
        # A new stamp in each block, against file systems that store equal blocks once.
        for offset in range(0, _CHUNK_BYTES, _STAMP_BYTES):
            buffer[offset : offset + 8] = (written + offset).to_bytes(8, "little")
        written += os.write(descriptor, buffer)
    os.fsync(descriptor)
    return written, time.perf_counter() - begin


def _read(descriptor: int, buffer: mmap.mmap) -> float:
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    begin = time.perf_counter()
    while os.readv(descriptor, [buffer]):
        pass
    return time.perf_counter() - begin
