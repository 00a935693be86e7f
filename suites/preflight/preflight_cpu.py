"""How much processor time the machine gives: cores obtained under full load, time stolen by neighbours."""

from __future__ import annotations

import hashlib
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CpuLoad", "load_cores", "stolen_percent"]

_STAT = Path("/proc/stat")
_BLOCK = bytes(2**20)  # hashing this much releases the interpreter lock for about a millisecond


@dataclass(frozen=True, kw_only=True)
class CpuLoad:
    """What a full load on all usable cores obtained.

    Attributes:
        threads: Threads that wanted a core each.
        cores: Processor seconds obtained in a second, by all threads together.
        stolen_percent: Of all processor time meanwhile, what the hypervisor gave to other machines; None
        where the
            kernel does not say.
    """

    threads: int
    cores: float
    stolen_percent: float | None


def load_cores(threads: int, seconds: float) -> CpuLoad:
    """Keep `threads` threads busy for some seconds and return what they obtained."""
    before, begin, used = _read_stat(), time.perf_counter(), _processor_seconds()
    deadline = begin + seconds

    def work(_: int) -> None:
        while time.perf_counter() < deadline:
            hashlib.sha256(_BLOCK).digest()

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
    cores = (_processor_seconds() - used) / (time.perf_counter() - begin)
    after = _read_stat()
    stolen = stolen_percent(before, after) if before and after else None
    return CpuLoad(threads=threads, cores=cores, stolen_percent=stolen)


def stolen_percent(before: str, after: str) -> float | None:
    """Return the share of stolen processor time between two readings of `/proc/stat`, in percent.

    The fields of its first line are user, nice, system, idle, iowait, irq, softirq, steal, and two that are
    already counted in user and nice (proc_stat(5)).
    """
    first, second = (_fields(text) for text in (before, after))
    if len(first) < 8 or len(second) < 8:
        return None
    passed = [later - earlier for earlier, later in zip(first[:8], second[:8], strict=True)]
    return 100 * passed[7] / sum(passed) if sum(passed) > 0 else None


def _fields(text: str) -> list[int]:
    line = text.partition("\n")[0].split()
    return [int(field) for field in line[1:]] if line[:1] == ["cpu"] else []


def _read_stat() -> str | None:
    try:
        return _STAT.read_text()
    except OSError:
        return None


def _processor_seconds() -> float:
    times = os.times()
    return times.user + times.system
