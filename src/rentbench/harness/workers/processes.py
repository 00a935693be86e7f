"""Linux's means to leave no process behind: death signals, subreapers, and the tree of descendants."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

__all__ = ["adopt_orphans", "descendants", "die_with_parent", "kill_descendants", "reap_children"]

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


class _Process(NamedTuple):
    identifier: int
    parent: int
    ended: bool


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process (SIGKILL) as soon as its parent ends.

    Args:
        parent: The parent's process id; when it has ended already, this process ends at once.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, as process 1 of a container is."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def descendants(process: int) -> list[int]:
    """Return the process ids of all living descendants, parents before children."""
    children: dict[int, list[int]] = {}
    for found in _processes():
        if not found.ended:
            children.setdefault(found.parent, []).append(found.identifier)
    tree, queue = [], [process]
    while queue:
        below = children.get(queue.pop(0), [])
        tree += below
        queue += below
    return tree


def kill_descendants(*, keep: Collection[int] = (), timeout_seconds: float = 5.0) -> int:
    """Kill every descendant of this process and return how many there were.

    It looks again until none is left, because a process can fork while it is being killed. What cannot be
    killed (a process that hangs inside a driver) is given up after the timeout.

    Args:
        keep: Process ids that stay, with their descendants.
        timeout_seconds: When to give up.
    """
    killed: set[int] = set()
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        kept = {*keep, *(below for process in keep for below in descendants(process))}
        alive = [process for process in descendants(os.getpid()) if process not in kept]
        if not alive:
            break
        for process in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        killed.update(alive)
        time.sleep(0.005)
    return len(killed)


def reap_children() -> dict[int, int]:
    """Collect every child that has ended; for a process that waits for its children in no other way.

    Returns:
        Exit codes by process id, as `subprocess` gives them: negative where a signal ended it.
    """
    codes: dict[int, int] = {}
    with contextlib.suppress(ChildProcessError):  # no child is left
        while True:
            process, status = os.waitpid(-1, os.WNOHANG)
            if process == 0:
                break
            codes[process] = os.waitstatus_to_exitcode(status)
    return codes


def _processes() -> Iterator[_Process]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError, ValueError):  # it ended while we looked
                # After the name in parentheses, which may hold anything: state, parent, …
                state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
                yield _Process(int(folder.name), int(parent), ended=state in "ZX")


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
