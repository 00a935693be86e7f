"""Limits that the kernel's control groups set for this process, version 1, version 2 or both at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["cpu_quota_cores", "memory_limit_bytes", "pids_limit"]

# Version 1 writes "no limit" as the largest multiple of a page below 2^63, whatever the page's size.
_NO_LIMIT_BYTES: Final = (1 << 63) - (1 << 20)


@dataclass(frozen=True, kw_only=True)
class _Mount:
    """A mounted hierarchy: `root` is the group that shows at `point`."""

    point: Path
    root: str
    version: int
    controllers: frozenset[str]


def cpu_quota_cores(root: Path = Path("/")) -> float | None:
    """Return how many cores' worth of time this process may use, or None where there is no quota.

    Args:
        root: Of the file tree that holds `proc` and the mounted groups.

    Raises:
        OSError: The kernel's files cannot be read.
        ValueError: They hold something else.
    """
    quotas = [_quota(folder, version) for folder, version in _groups(root, "cpu")]
    return min((quota for quota in quotas if quota is not None), default=None)


def memory_limit_bytes(root: Path = Path("/")) -> int | None:
    """Return how much memory this process may use, or None where there is no limit. Raises as above."""
    return _lowest(root, "memory", v1="memory.limit_in_bytes", v2="memory.max", no_limit=_NO_LIMIT_BYTES)


def pids_limit(root: Path = Path("/")) -> int | None:
    """Return how many processes and threads may exist, or None where there is no limit. Raises as above."""
    return _lowest(root, "pids", v1="pids.max", v2="pids.max", no_limit=None)


def _lowest(root: Path, controller: str, *, v1: str, v2: str, no_limit: int | None) -> int | None:
    """Return the lowest limit of the process's group and of those above it: each of them holds."""
    found = []
    for folder, version in _groups(root, controller):
        value = _read(folder / (v2 if version == 2 else v1))
        if value and value != "max":
            found.append(int(value))
    return min((limit for limit in found if no_limit is None or limit < no_limit), default=None)


def _quota(folder: Path, version: int) -> float | None:
    if version == 2:
        quota, _, period = (_read(folder / "cpu.max") or "max 100000").partition(" ")
    else:
        quota = _read(folder / "cpu.cfs_quota_us") or "-1"
        period = _read(folder / "cpu.cfs_period_us") or "100000"
    if quota in {"max", "-1"}:
        return None
    return int(quota) / int(period)


def _groups(root: Path, controller: str) -> Iterator[tuple[Path, int]]:
    """Yield (folder, version) of this process's group for a controller, and of each above it that shows."""
    paths = _paths(root)
    for mount in _mounts(root):
        if mount.version == 1 and controller not in mount.controllers:
            continue
        path = paths.get(controller if mount.version == 1 else "")
        if path is None:
            continue
        # In a container the mount shows a part of the tree, and the path may be told from the host's root.
        below = PurePosixPath(path)
        inside = below.relative_to(mount.root) if below.is_relative_to(mount.root) else PurePosixPath()
        folder = mount.point / inside
        if not folder.is_dir() or ".." in inside.parts:
            folder = mount.point
        while True:
            yield folder, mount.version
            if folder == mount.point:
                break
            folder = folder.parent


def _paths(root: Path) -> dict[str, str]:
    """Return this process's group by controller; that of version 2 under the empty name."""
    paths = {}
    for line in (root / "proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            paths[controller] = path
    return paths


def _mounts(root: Path) -> Iterator[_Mount]:
    for line in (root / "proc/self/mountinfo").read_text().splitlines():
        fields, _, kind = line.partition(" - ")
        filesystem, _, options = kind.split(" ", 2)
        if filesystem in {"cgroup", "cgroup2"}:
            words = fields.split()
            yield _Mount(
                point=root / words[4].lstrip("/"),
                root=words[3],
                version=2 if filesystem == "cgroup2" else 1,
                controllers=frozenset(options.split(",")),
            )


def _read(file: Path) -> str | None:
    try:
        return file.read_text().strip()
    except FileNotFoundError:
        return None  # the root group has no limit files, and a controller may be off
