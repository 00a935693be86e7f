"""Faults that the NVIDIA driver has written into the kernel's log since the machine started: Xid messages."""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from pathlib import Path

from preflight_findings import Finding

from rentbench.harness.xids import HARDWARE

__all__ = ["kernel_log", "xid_finding", "xids"]

_KMSG = Path("/dev/kmsg")
_DMESG_SECONDS = 10
_RECORD_BYTES = 8192
_XID = re.compile(r"NVRM: Xid \([^)]*\): (\d+)")


def xids(log: str) -> Counter[int]:
    """Return how often each Xid occurs in a kernel log, as `dmesg` or `/dev/kmsg` gives it."""
    return Counter(int(number) for number in _XID.findall(log))


def xid_finding(log: str | None, reason: str) -> Finding:
    """Return the check of the kernel's log.

    Args:
        log: Its text; None where it cannot be read.
        reason: Why it cannot be read.
    """
    if log is None:
        return Finding(name="xid_errors", passed=None, detail=reason, severity="hard")
    found = xids(log)
    faults = {number: count for number, count in sorted(found.items()) if number in HARDWARE}
    others = {number: count for number, count in sorted(found.items()) if number not in HARDWARE}
    parts = [f"{count} × Xid {number} ({HARDWARE[number]})" for number, count in faults.items()]
    if others:
        listed = ", ".join(f"{count} × {number}" for number, count in others.items())
        parts.append(f"Xids that are no fault of the machine: {listed}")
    return Finding(
        name="xid_errors",
        passed=not faults,
        detail="; ".join(parts) or "the kernel's log holds no Xid",
        severity="hard",
        value=sum(faults.values()),
        limit=0,
        unit="count",
    )


def kernel_log(kmsg: Path = _KMSG) -> tuple[str | None, str]:
    """Return the kernel's log, or None and why it cannot be read.

    Containers and ordinary users mostly may not read it.
    """
    try:
        return _read_kmsg(kmsg), ""
    except OSError as error:
        reason = f"{kmsg}: {error.strerror or error}"
    try:
        outcome = subprocess.run(["dmesg"], capture_output=True, timeout=_DMESG_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, f"the kernel's log cannot be read ({reason}; dmesg: {type(error).__name__})"
    if outcome.returncode:
        message = outcome.stderr.decode(errors="replace").strip() or f"exit {outcome.returncode}"
        return None, f"the kernel's log cannot be read ({reason}; {message.removeprefix('dmesg: ')})"
    return outcome.stdout.decode(errors="replace"), ""


def _read_kmsg(kmsg: Path) -> str:
    """Return all records; each read gives one, and the last is followed by EAGAIN."""
    descriptor = os.open(kmsg, os.O_RDONLY | os.O_NONBLOCK)
    records: list[bytes] = []
    try:
        while True:
            try:
                record = os.read(descriptor, _RECORD_BYTES)
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue  # records were overwritten while we read; the next read goes on after the gap
            if not record:
                break
            records.append(record)
    finally:
        os.close(descriptor)
    return b"".join(records).decode(errors="replace")
