"""Who drives a container: labels that tell, after a crash, whether the driver still lives."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["RUN_LABEL", "Owner", "owner_labels", "owner_of"]

RUN_LABEL = "rentbench.run"
_OWNER_LABEL = "rentbench.owner"
_PROC = Path("/proc")


class Owner(StrEnum):
    """What is known of the process that made a container."""

    ALIVE = "alive"
    DEAD = "dead"
    ELSEWHERE = "elsewhere"  # another machine, another boot of this one, or another container


def owner_labels(run_id: str) -> dict[str, str]:
    """Return the labels of everything that a run makes in the engine, with this process as its owner."""
    pid = os.getpid()
    return {RUN_LABEL: run_id, _OWNER_LABEL: f"{_world()}/{pid}/{_start_time(pid)}"}


def owner_of(labels: Mapping[str, str]) -> Owner:
    """Return whether the owner that labels name still lives.

    A number of a process is used again; with the time of its start, of the same boot, it is unique.
    """
    world, _, process = labels.get(_OWNER_LABEL, "").partition("/")
    if world != _world():
        return Owner.ELSEWHERE
    pid, _, started = process.partition("/")
    alive = pid.isdecimal() and started != "" and _start_time(int(pid)) == started
    return Owner.ALIVE if alive else Owner.DEAD


def _world() -> str:
    """Return what makes numbers of processes comparable: this boot, and this process namespace."""
    boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    namespace = os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116 - the link itself is of no interest
    return f"{boot}:{namespace}"


def _start_time(pid: int) -> str:
    """Return when a process was started, in clock ticks since the boot; empty where there is none."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return ""
    # The program's name, in parentheses, may itself hold spaces and parentheses. Field 22 of proc(5).
    return text.rpartition(")")[2].split()[19]
