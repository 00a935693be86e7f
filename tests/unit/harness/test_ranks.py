"""Which rank failed first, how fast an all-reduce was, and how much shared memory it takes."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from rentbench.harness.failures.classify import classify
from rentbench.harness.ranks.collectives import algorithm_bandwidth, bus_bandwidth, mean_over_ranks
from rentbench.harness.ranks.endings import RankEnd, first_failure, hung, unexplained
from rentbench.harness.ranks.shared_memory import needed_bytes, shortage
from support.suites import host

PEER = "RuntimeError: [/x/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:1"
WAITED = "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, Timeout(ms)=600000)"


def told(text: str) -> dict[str, Any]:
    return {**classify(text, returncode=1)}


def kind_and_message(*ends: RankEnd, shm_too_small: bool = False) -> tuple[str, str]:
    error = first_failure(ends, count=len(ends), shm_too_small=shm_too_small)
    assert error is not None
    return error["kind"], error["message"]


def test_no_failure() -> None:
    assert first_failure([RankEnd(rank=0), RankEnd(rank=1, code=-signal.SIGTERM)], count=2) is None


def test_the_first_in_time_is_the_cause() -> None:
    late = RankEnd(rank=0, error=told("ValueError: late"), told_at=2.0, code=1)
    early = RankEnd(rank=1, error=told("torch.OutOfMemoryError: CUDA out of memory"), told_at=1.0, code=1)
    assert kind_and_message(late, early)[0] == "oom"


def test_a_silent_death_comes_before_the_loss_that_it_caused() -> None:
    loser = RankEnd(rank=0, error=told(PEER), told_at=1.0, code=1)
    dead = RankEnd(rank=1, code=-signal.SIGSEGV, log_tail="step 7")
    assert kind_and_message(loser, dead) == ("crashed", "rank 1 of 2: the program was ended by SIGSEGV")


def test_a_rank_that_waited_comes_before_one_that_lost_it_and_after_the_cause() -> None:
    waiter = RankEnd(rank=0, code=-signal.SIGABRT, log_tail=WAITED)
    loser = RankEnd(rank=1, error=told(PEER), told_at=1.0, code=1)
    cause = RankEnd(rank=2, error=told("ValueError: cause"), told_at=9.0, code=1)
    assert kind_and_message(waiter, loser)[0] == "nccl_timeout"
    assert kind_and_message(waiter, loser, cause)[1].startswith("rank 2 of 3")


def test_a_bus_error_means_shared_memory_where_there_is_too_little() -> None:
    dead = RankEnd(rank=0, code=-signal.SIGBUS)
    assert kind_and_message(dead)[0] == "crashed"
    assert kind_and_message(dead, shm_too_small=True)[0] == "shm_too_small"


def test_ranks_that_hang_are_told_by_their_places() -> None:
    stack = (
        'step 1\nCurrent thread (most recent call first):\n  File "/x/train.py", line 7 in step\n  File "a"'
    )
    error = hung({0: stack, 1: "step 1"}, 5)
    assert error["kind"] == "timeout"
    assert error["message"].endswith('5 s; rank 0: File "train.py", line 7 in step; rank 1: gave no answer')
    assert hung({0: stack, 1: f"{WAITED}\n{stack}"}, 5)["kind"] == "nccl_timeout"


def test_torchrun_itself_can_fail() -> None:
    found = unexplained("torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError")
    assert found["kind"] == "nccl_timeout"
    assert found["message"].startswith("torchrun failed: ")
    assert "ended by others" in unexplained(None)["message"]


@pytest.mark.parametrize(("ranks", "factor"), [(2, 1.0), (4, 1.5), (8, 1.75)])
def test_bandwidth_is_bytes_over_time_times_the_share_that_travels(ranks: int, factor: float) -> None:
    assert algorithm_bandwidth(2**30, 0.5) == pytest.approx(2**30 / 0.5 / 1e9)
    assert bus_bandwidth(2**30, 0.5, ranks) == pytest.approx(2**30 / 0.5 / 1e9 * factor)


def test_bandwidths_as_nccl_tests_prints_them() -> None:
    # 8 GiB over 8 ranks: algorithm bandwidth 134.44, bus bandwidth 235.26 (a log of all_reduce_perf).
    seconds = 2**33 / 134.44e9
    assert bus_bandwidth(2**33, seconds, 8) == pytest.approx(235.26, rel=1e-4)


def test_readings_are_averaged_over_ranks_one_by_one() -> None:
    assert mean_over_ranks([[1.0, 2.0], [3.0, 6.0]]) == [2.0, 4.0]
    with pytest.raises(ValueError, match="argument 2"):
        mean_over_ranks([[1.0], [1.0, 2.0]])


def test_dockers_default_of_shared_memory_is_too_small_for_two_ranks() -> None:
    docker = host(limits={"shm_bytes": 64 * 2**20})
    assert "/dev/shm has 64 MiB" in (shortage(docker, 2) or "")
    assert shortage(host(limits={"shm_bytes": needed_bytes(8)}), 8) is None
    assert shortage(host(limits={"shm_bytes": None}), 8) is None
