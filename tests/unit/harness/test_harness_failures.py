from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from rentbench.harness.failures.documents import explain_end, not_run
from rentbench.harness.interruption import Interruption
from rentbench.harness.logfile import LogFile
from rentbench.harness.workers.attempt import WorkerEnd, _kernel_oom_kills, run_worker
from rentbench.harness.workers.job import Job

Cause = Literal["exited", "timeout", "interrupted"]


def explained(cause: Cause, code: int | None, log: str = "", *, oom_kills: int = 0) -> dict[str, object]:
    end = WorkerEnd(cause=cause, code=code, log_tail=log, kernel_oom_kills=oom_kills)
    return explain_end(end, phase="measure", limit_seconds=60, signal_name="SIGTERM")


@pytest.mark.parametrize(
    ("cause", "code", "log", "oom_kills", "kind"),
    [
        ("exited", -11, "", 0, "crashed"),
        ("exited", -9, "", 0, "killed"),
        ("exited", -9, "", 1, "host_oom"),
        ("exited", 1, "torch.OutOfMemoryError: CUDA out of memory.", 0, "oom"),
        ("exited", 0, "", 0, "no_output"),
        ("timeout", -15, "working", 0, "timeout"),
        (
            "timeout",
            -9,
            "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5)",
            0,
            "nccl_timeout",
        ),
        ("interrupted", -15, "torch.OutOfMemoryError: CUDA out of memory.", 0, "interrupted"),
    ],
)
def test_the_cause_is_named(cause: Cause, code: int, log: str, oom_kills: int, kind: str) -> None:
    error = explained(cause, code, log, oom_kills=oom_kills)
    assert (error["kind"], error["phase"]) == (kind, "measure")
    assert error["message"]


def test_a_timeout_tells_its_limit_also_where_the_log_names_the_cause() -> None:
    error = explained("timeout", -9, "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5)")
    assert "limit of 60 s" in str(error["message"])


def test_a_case_that_did_not_run_names_the_cause_and_leaves_the_log_to_it() -> None:
    error = explained("timeout", -9, "a long log")
    outcome = not_run(error, None)
    assert outcome.status == "failed"
    assert outcome.error is not None
    assert outcome.error["message"].startswith("did not run: the repeat did not end")
    assert outcome.error["log_tail"] is None


def test_a_case_that_was_skipped_has_no_error() -> None:
    outcome = not_run(explained("timeout", -9), "needs 2 GPUs, found 1")
    assert (outcome.status, outcome.error, outcome.reason) == ("skipped", None, "needs 2 GPUs, found 1")


def open_descriptors() -> set[str]:
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


def test_a_worker_that_cannot_be_started_leaves_no_descriptor_open(tmp_path: Path) -> None:
    job = Job(
        suite_folder=str(tmp_path), metrics=[], packages=[], cases=[], device="cpu", preset="smoke",
        settings={}, seed=0, repeat=0, scratch=str(tmp_path), host={},
    )  # fmt: skip
    log = LogFile(tmp_path / "log.txt", lambda _: None)
    with Interruption() as interruption:
        before = open_descriptors()
        with pytest.raises(OSError, match="Argument list too long"):
            run_worker(
                job,
                environment={"TOO_LONG": "x" * 2**24},
                deadline=0,
                interruption=interruption,
                log=log,
                take=lambda _: None,
            )
        assert open_descriptors() <= before  # what others left open may be collected meanwhile
    log.close()


@pytest.mark.parametrize(
    ("text", "expected"), [("nr_free_pages 7\noom_kill 12\n", 12), ("nr_free_pages 7\n", 0), (None, 0)]
)
def test_the_kernels_count_of_oom_kills(tmp_path: Path, text: str | None, expected: int) -> None:
    path = tmp_path / "vmstat"
    if text is not None:
        path.write_text(text)
    assert _kernel_oom_kills(path) == expected
