"""Xids in the kernel's log."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from preflight_kernel_log import kernel_log, xid_finding, xids

from rentbench.core.errors import ErrorKind
from rentbench.harness.failures.classify import classify

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

CLEAN = "[    0.000000] Linux version 6.1.0\n[    5.1] nvidia: loading out-of-tree module taints kernel.\n"
GSP = (
    "[Mon Nov  2 10:00:00 2026] NVRM: Xid (PCI:0000:9b:00): 119, pid=12345, name=python3, Timeout after 6s of"
    " waiting for RPC response from GPU4 GSP! Expected function 103\n"
)
PROGRAM = (
    "NVRM: Xid (PCI:0000:01:00): 31, pid=77, name=secret-program, Ch 00000008, intr 00000000. MMU Fault\n"
)
KMSG = "4,1061,81234567,-;NVRM: Xid (PCI:0000:01:00): 79, pid='<unknown>', GPU has fallen off the bus.\n"


def test_xids_are_counted() -> None:
    assert xids(CLEAN + GSP + GSP + PROGRAM + KMSG) == {119: 2, 31: 1, 79: 1}


def test_a_clean_log_passes() -> None:
    assert xid_finding(CLEAN, "").passed is True


def test_a_fault_of_the_card_fails_hard_and_is_named() -> None:
    finding = xid_finding(CLEAN + GSP + GSP, "")
    assert (finding.passed, finding.severity, finding.value) == (False, "hard", 2)
    assert "2 × Xid 119 (GSP firmware does not answer)" in finding.detail


def test_a_fault_of_a_program_is_told_and_passes() -> None:
    finding = xid_finding(PROGRAM, "")
    assert finding.passed is True
    assert "1 × 31" in finding.detail


def test_what_explains_a_failure_here_is_a_fault_there_too() -> None:
    """One table for the verdict on a machine and for the cause of a run's end."""
    for number in range(1, 200):
        log = f"NVRM: Xid (PCI:0000:9b:00): {number}, pid=1, name=python3, no more words\n"
        kind = classify(log, returncode=1)["kind"]
        fault = kind in {ErrorKind.HOST_FAULT, ErrorKind.GPU_LOST}
        assert fault == (xid_finding(log, "").passed is False), number


def test_a_row_that_was_remapped_is_no_fault() -> None:
    assert xid_finding("NVRM: Xid (PCI:0000:9b:00): 63, pid=1, Row Remapper: new row\n", "").passed is True


def test_nothing_of_the_log_itself_is_told() -> None:
    detail = xid_finding(GSP + PROGRAM, "").detail
    assert "secret-program" not in detail
    assert "12345" not in detail


def test_a_log_that_cannot_be_read_is_not_checked() -> None:
    finding = xid_finding(None, "the kernel's log cannot be read")
    assert finding.passed is None
    assert finding.detail == "the kernel's log cannot be read"


def test_records_are_read_from_the_device(tmp_path: Path) -> None:
    """A named pipe gives what the device gives: records, and EAGAIN when there are no more."""
    pipe = tmp_path / "kmsg"
    os.mkfifo(pipe)
    keep = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        os.write(keep, KMSG.encode())
        log, reason = kernel_log(pipe)
    finally:
        os.close(keep)
    assert reason == ""
    assert log is not None
    assert xids(log) == {79: 1}


def test_the_reason_is_given_where_nothing_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no dmesg either
    log, reason = kernel_log(tmp_path / "missing")
    assert log is None
    assert "cannot be read" in reason
    assert "FileNotFoundError" in reason
