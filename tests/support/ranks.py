"""Groups of ranks in tests: the script that behaves as it is told, and who is still alive afterwards."""

from __future__ import annotations

import time
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "fixtures" / "ranks" / "behaves.py"
MARK = "RENTBENCH_TEST_MARK"


def alive(mark: str) -> list[int]:
    """Return the processes whose environment has the mark, but for those that have ended (zombies)."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except (OSError, ValueError):
            continue
    return found


def gone(mark: str, *, within_seconds: float = 10) -> bool:
    """Say whether no process with the mark is left within a time."""
    deadline = time.monotonic() + within_seconds
    while alive(mark):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
