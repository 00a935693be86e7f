"""Tools that fail, hang or talk too much."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from rentbench.harness.tools import run_tool, within


def test_an_answer() -> None:
    answer = run_tool(["sh", "-c", "echo yes; echo no >&2"], timeout_seconds=5)
    assert (answer.output, answer.problem) == ("yes\n", None)


def test_a_failure_is_told_by_its_last_words() -> None:
    answer = run_tool(["sh", "-c", "echo first; echo why it failed >&2; exit 9"], timeout_seconds=5)
    assert answer.problem == "sh ended with exit code 9: why it failed"


def test_words_on_standard_output_tell_too() -> None:
    answer = run_tool(["sh", "-c", "echo Driver/library version mismatch; exit 18"], timeout_seconds=5)
    assert answer.problem == "sh ended with exit code 18: Driver/library version mismatch"


def test_a_program_that_is_not_there() -> None:
    assert (
        run_tool(["no-such-program-here"], timeout_seconds=5).problem
        == "no-such-program-here is not installed"
    )


def test_a_file_that_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    assert "cannot be started" in (run_tool([str(tmp_path / "x")], timeout_seconds=5).problem or "")


def test_a_program_that_hangs_is_killed_with_its_children_and_its_output_kept(tmp_path: Path) -> None:
    script = f"echo partly; sleep 600 & echo $! > {tmp_path / 'pid'}; wait"
    begun = time.monotonic()
    answer = run_tool(["sh", "-c", script], timeout_seconds=0.5)
    assert time.monotonic() - begun < 5
    assert answer.output == "partly\n"
    assert answer.problem == "sh gave no answer within 0.5 s and was killed"
    child = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 5
    while _alive(child):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_output_that_is_no_text() -> None:
    assert run_tool(["printf", r"\377ok"], timeout_seconds=5).output == "\ufffdok"


def test_a_call_that_does_not_come_back() -> None:
    reading, writing = os.pipe()
    with pytest.raises(TimeoutError, match=r"no answer within 0\.1 s"):
        within(0.1, lambda: os.read(reading, 1))
    os.close(writing)


def test_a_call_that_raises() -> None:
    with pytest.raises(ZeroDivisionError):
        within(5, lambda: 1 // 0)


def test_a_call_that_answers_none() -> None:
    assert within(5, lambda: None) is None


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
