"""Whose processes are on the GPU: ours, or someone else's?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["count_foreign", "unreliable_because"]

# The inode of the machine's first namespace of process ids (PROC_PID_INIT_INO in the kernel's proc_ns.h).
_FIRST_NAMESPACE: Final = "pid:[4026531836]"
_PROC: Final = Path("/proc")


def unreliable_because(proc: Path = _PROC) -> str | None:
    """Return why the driver's process ids mean nothing here; None where they can be trusted.

    In a container with process ids of its own the driver gives the host's ids, or the container's, or those
    of threads, and lists or hides the processes of other containers, all by its version (nvidia-docker#1483,
    open-gpu-kernel-modules#614). A count made from them would be a guess.
    """
    try:
        namespace = str((proc / "self/ns/pid").readlink())
    except OSError as error:
        return f"the namespace of process ids cannot be read: {error.strerror}"
    if namespace == _FIRST_NAMESPACE:
        return None
    return "this process is in a container with process ids of its own (no --pid=host)"


def count_foreign(pids: Iterable[int], ours: int, proc: Path = _PROC) -> int:
    """Return how many of the processes live and neither are `ours` nor descend from it."""
    return sum(1 for pid in pids if _exists(pid, proc) and not _descends(pid, ours, proc))


def _exists(pid: int, proc: Path) -> bool:
    if (proc / str(pid)).exists():
        return True
    if proc != _PROC:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True  # another user's, and /proc hides it (hidepid)
    return True


def _descends(pid: int, ancestor: int, proc: Path) -> bool:
    while pid > 1:
        if pid == ancestor:
            return True
        try:
            # pid (name) state parent …: the name may hold blanks and brackets.
            pid = int((proc / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return False
    return pid == ancestor
