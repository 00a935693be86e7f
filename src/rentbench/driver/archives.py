"""Taking files out of a container: a tar stream from others, unpacked under limits and without trust.

Only plain files and folders are accepted; with one link, device or path that leads elsewhere, nothing is.
(`tarfile.data_filter` is missing in the Python of Debian 12, and would let links pass.)
"""

from __future__ import annotations

import io
import re
import tarfile
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, NoReturn

from rentbench.core.errors import ErrorKind
from rentbench.driver.failures import Failure, RunFailedError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from _typeshed import WriteableBuffer

__all__ = ["Limits", "unpack"]

_CHUNK = 1024 * 1024
_NAME = re.compile(r"[A-Za-z0-9._+=@,-][A-Za-z0-9._+=@, -]{0,200}")
_MAX_DEPTH = 12


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What an archive may hold at most."""

    files: int = 10_000
    bytes: int = 8 * 1024**3


def unpack(chunks: Iterable[bytes], folder: Path, *, limits: Limits | None = None) -> int:
    """Unpack a tar stream below a folder; its own top folder is left out, as `docker cp` puts one there.

    Files are made anew for the caller: owner, modes and times of the archive are not taken over.

    Args:
        chunks: The stream.
        folder: An empty folder.
        limits: How much at most.

    Returns:
        The number of files.

    Raises:
        RunFailedError: The archive holds what it must not, is too large, or is broken.
    """
    limits = limits or Limits()
    count = members = size = 0
    try:
        stream = io.BufferedReader(_Stream(chunks), _CHUNK)
        with tarfile.open(fileobj=stream, mode="r|") as tar:
            for member in tar:
                members += 1
                if members > limits.files:
                    _refuse(f"more than {limits.files} files")
                path = folder.joinpath(*_parts(member)[1:])
                if member.isdir():
                    path.mkdir(parents=True, exist_ok=True)
                    continue
                path.parent.mkdir(parents=True, exist_ok=True)
                source = tar.extractfile(member)
                assert source is not None  # noqa: S101 - a plain file; tells the type checker
                size += _copy(source, path, left=limits.bytes - size)
                count += 1
    except (tarfile.TarError, EOFError) as error:
        _refuse(f"a broken archive ({error})")
    except (FileExistsError, NotADirectoryError) as error:
        _refuse(f"two things of one name ({error.filename})")
    return count


def _parts(member: tarfile.TarInfo) -> list[str]:
    """Return the parts of a member's path, once it is known to be harmless."""
    if not (member.isreg() or member.isdir()) or member.issparse():
        kind = "a link" if member.issym() or member.islnk() else "something that is neither file nor folder"
        _refuse(f"{kind} ({member.name[:200]!r})")
    parts = member.name.removesuffix("/").split("/")
    if len(parts) > _MAX_DEPTH or any(not _NAME.fullmatch(part) or part in (".", "..") for part in parts):
        _refuse(f"the path {member.name[:200]!r}")
    if len(parts) == 1 and not member.isdir():
        _refuse(f"the path {member.name[:200]!r} in place of its top folder")
    return parts


def _copy(source: IO[bytes], path: Path, *, left: int) -> int:
    size = 0
    with path.open("xb") as target:
        while chunk := source.read(_CHUNK):
            size += len(chunk)
            if size > left:
                _refuse("more bytes than are taken from a container")
            target.write(chunk)
    return size


def _refuse(what: str) -> NoReturn:
    message = f"the container's results hold {what}: nothing of them was taken"
    hint = "run with --keep to look at them where they are"
    raise RunFailedError(Failure(kind=ErrorKind.INVALID_RESULT, message=message, hint=hint))


class _Stream(io.RawIOBase):
    """The chunks as a file that can be read once."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = chunk
        size = min(len(view), len(self._rest))
        view[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size
