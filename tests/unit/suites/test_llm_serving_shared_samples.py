"""Results of real runs, where the folder of shared samples lies beside the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from serving_results import ResultError, read_bench

SHARED = Path(os.environ.get("RENTBENCH_SHARED", Path(__file__).resolve().parents[4] / "shared"))
SAMPLES = SHARED / "samples"

pytestmark = pytest.mark.skipif(not (SAMPLES / "vllm-bench").is_dir(), reason="no shared samples here")


@pytest.mark.parametrize(
    ("concurrency", "requests", "rate"),
    [(1, 16, 207.6), (8, 64, 1544.5), (32, 192, 5165.9), (64, 320, 9187.5)],
)
def test_good_cells(concurrency: int, requests: int, rate: float) -> None:
    bench = read_bench((SAMPLES / "vllm-bench" / f"v0.26.0-h200-ok-c{concurrency}.json").read_bytes())
    assert (bench.requested, bench.completed) == (requests, requests)
    assert bench.output_rate == pytest.approx(rate, abs=0.05)
    assert ("p90", "ttft") not in bench.milliseconds


@pytest.mark.parametrize(("concurrency", "completed"), [(1, 0), (8, 1), (32, 3), (64, 8)])
def test_cells_in_which_most_requests_failed(concurrency: int, completed: int) -> None:
    name = f"v0.26.0-h200-partial-failure-c{concurrency}.json"
    bench = read_bench((SAMPLES / "vllm-bench" / name).read_bytes())
    assert bench.completed == completed
    assert bool(bench.milliseconds) == bool(completed)


def test_a_result_in_seconds() -> None:
    (path,) = (SAMPLES / "inferencex").glob("*.json")
    bench = read_bench(path.read_bytes())
    assert bench.milliseconds["median", "ttft"] == pytest.approx(1647.8, abs=0.1)
    assert bench.user_rate == pytest.approx(1 / 0.02604818938)


def test_an_older_result_of_another_hub() -> None:
    (path,) = (SAMPLES / "dstack").glob("pd_ratio*.json")
    bench = read_bench(path.read_bytes())
    assert (bench.requested, bench.completed) == (500, 500)
    assert bench.milliseconds["p99", "tpot"] == pytest.approx(12.086, abs=0.001)


def test_the_result_of_an_offline_benchmark_is_refused() -> None:
    (path,) = (SAMPLES / "dstack").glob("*throughput_test*.json")
    with pytest.raises(ResultError):
        read_bench(path.read_bytes())
