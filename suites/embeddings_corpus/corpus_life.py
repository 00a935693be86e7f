"""How long this process has lived: what comes before the model is part of a job's fixed cost."""

from __future__ import annotations

import os
import time
from pathlib import Path

__all__ = ["process_age_seconds"]

_START_TIME_FIELD = 22  # of proc(5)'s stat; the name before it may hold blanks, and ends with a parenthesis


def process_age_seconds() -> float:
    """Return the seconds since the kernel started this process, to a hundredth."""
    after_name = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    started = int(after_name[_START_TIME_FIELD - 3]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started
