"""Groups of ranks, with real processes and gloo: their answers, their failures, and that nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import traceback
import uuid
from typing import TYPE_CHECKING

import pytest

from support.ranks import MARK, SCRIPT, alive, gone
from support.suites import Recorded

pytest.importorskip("torch")

from rentbench.harness.outcomes import CaseFailed, CaseSkipped
from rentbench.harness.ranks.group import RankGroup, run_ranks

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    found = Recorded("gemm", tmp_path)
    found.context.enter(0)
    return found


@pytest.fixture
def mark() -> str:
    return uuid.uuid4().hex


def failure(recorded: Recorded, mark: str, how: str, *, timeout_seconds: float = 60) -> CaseFailed:
    """Let rank 1 of two behave that way; returns the error, once no process is left."""
    with pytest.raises(CaseFailed) as raised:
        run_ranks(
            recorded.context,
            SCRIPT,
            {"who": 1, "how": how},
            ranks=2,
            timeout_seconds=timeout_seconds,
            environment={MARK: mark},
        )
    assert alive(mark) == []
    assert list(recorded.context.scratch.iterdir()) == []
    return raised.value


def test_many_jobs_share_one_start(recorded: Recorded, mark: str) -> None:
    with RankGroup(
        recorded.context, SCRIPT, ranks=4, collective_timeout_seconds=50, environment={MARK: mark}
    ) as group:
        for number in range(3):
            answers = group.ask({"number": number}, timeout_seconds=60)
            assert [answer["rank"] for answer in answers] == [0, 1, 2, 3]
            assert {answer["total"] for answer in answers} == {10.0}
            assert {answer["job"]["number"] for answer in answers} == {number}
    assert alive(mark) == []
    phases = [event["phase"] for event in recorded.events if event["event"] == "phase"]
    assert phases == ["load", *["warm_up", "measure"] * 3]
    assert recorded.context.peak_memory_bytes is None  # not counted on a CPU


def test_one_rank_is_a_group_and_its_orphans_end_with_it(recorded: Recorded, mark: str) -> None:
    answers = run_ranks(
        recorded.context,
        SCRIPT,
        {"who": 0, "how": "daemon"},
        ranks=1,
        timeout_seconds=60,
        environment={MARK: mark},
    )
    assert [answer["total"] for answer in answers] == [1.0]
    assert alive(mark) == []


def test_the_rank_that_raises_is_named_and_not_those_that_lose_it(recorded: Recorded, mark: str) -> None:
    error = failure(recorded, mark, "oom")
    assert (error.kind, error.part) == ("oom", "forward")
    assert error.message.startswith("rank 1 of 2: OutOfMemoryError: CUDA out of memory. Tried to allocate 2")
    assert error.memory_allocated_bytes == int(40.5 * 2**30)
    assert recorded.context.failed_phase == "measure"
    assert "in misbehave" in "".join(traceback.format_exception(error))  # the rank's own words


def test_a_rank_that_is_killed(recorded: Recorded, mark: str, capfd: pytest.CaptureFixture[str]) -> None:
    error = failure(recorded, mark, "kill")
    assert error.kind == "killed"
    assert error.message == "rank 1 of 2: the program was ended by SIGKILL"
    assert "[rank 1] last words" in capfd.readouterr().out


def test_a_rank_that_hangs_and_bears_sigterm(recorded: Recorded, mark: str) -> None:
    with RankGroup(
        recorded.context, SCRIPT, ranks=2, collective_timeout_seconds=50, environment={MARK: mark}
    ) as group:
        group.ask({}, timeout_seconds=60)  # where they hang must not depend on how long imports take
        with pytest.raises(CaseFailed) as raised:
            group.ask({"who": 1, "how": "stubborn"}, timeout_seconds=4)
    assert alive(mark) == []
    error = raised.value
    assert error.kind == "timeout"
    assert "2 ranks did not end within 4 s" in error.message
    assert 'rank 0: File "distributed_c10d.py"' in error.message
    assert 'rank 1: File "behaves.py"' in error.message
    assert "in misbehave" in error.message


def test_nothing_is_left_when_the_worker_is_killed(tmp_path: Path, mark: str) -> None:
    code = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(SCRIPT.parents[2])!r})
from support.suites import Recorded
from rentbench.harness.ranks.group import RankGroup
recorded = Recorded("gemm", Path({str(tmp_path)!r}))
recorded.context.enter(0)
group = RankGroup(recorded.context, Path({str(SCRIPT)!r}), ranks=2, collective_timeout_seconds=60)
group.ask({{}}, timeout_seconds=60)
print("ready", flush=True)
group.ask({{"who": 1, "how": "stubborn"}}, timeout_seconds=60)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, MARK: mark},
        stdout=subprocess.PIPE,
        text=True,
    ) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
        assert len(alive(mark)) >= 5  # worker, guard, launcher, two ranks
        worker.send_signal(signal.SIGKILL)
        worker.wait(10)
        assert gone(mark)


def test_more_ranks_than_gpus_are_skipped(recorded: Recorded) -> None:
    recorded.context.device, recorded.context.device_count = "cuda", 1
    with pytest.raises(CaseSkipped, match="needs 2 GPUs, found 1"):
        run_ranks(recorded.context, SCRIPT, {}, ranks=2, timeout_seconds=1)


def test_a_script_that_is_not_there(recorded: Recorded, mark: str) -> None:
    with pytest.raises(CaseFailed, match=r"rank 0 of 1: FileNotFoundError"):
        run_ranks(
            recorded.context,
            SCRIPT.with_name("nowhere.py"),
            {},
            ranks=1,
            timeout_seconds=60,
            environment={MARK: mark},
        )
    assert alive(mark) == []
