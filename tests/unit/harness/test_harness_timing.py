from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rentbench.harness.timing import CpuTimer, WarmUp, cpu_cache_bytes, make_timer

if TYPE_CHECKING:
    from pathlib import Path


def busy(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def test_each_call_is_timed_by_itself_and_in_order() -> None:
    lengths = iter([0.001, 0.004, 0.002])
    times = CpuTimer().time_calls(lambda: busy(next(lengths)), iterations=3)
    assert len(times) == 3
    assert all(measured >= length for measured, length in zip(times, [0.001, 0.004, 0.002], strict=True))
    assert sum(times) < 10  # seconds, not nanoseconds


def test_what_runs_before_each_call_is_outside_its_time() -> None:
    order: list[str] = []

    def before() -> None:
        busy(0.05)
        order.append("before")

    times = CpuTimer().time_calls(lambda: order.append("call"), iterations=4, before_each=before)
    assert order == ["before", "call"] * 4
    assert min(times) < 0.05


def test_a_steady_call_warms_up_quickly() -> None:
    outcome = CpuTimer().warm_up(
        lambda: busy(0.0005), minimum=1, limit_seconds=20, steady_percent=50, window=5
    )
    assert outcome.steady
    assert 11 <= outcome.iterations < 1000  # the first call, and at least two windows


def test_the_minimum_is_kept_even_beyond_the_limit() -> None:
    calls: list[int] = []
    outcome = CpuTimer().warm_up(lambda: calls.append(1), minimum=30, limit_seconds=0, window=4)
    assert outcome.iterations == len(calls) >= 30
    assert not outcome.steady or outcome.iterations < 60


def test_a_call_that_never_settles_ends_at_the_limit() -> None:
    length = 0.0001

    def slower() -> None:
        nonlocal length
        length *= 1.2
        busy(length)

    outcome = CpuTimer().warm_up(slower, minimum=1, limit_seconds=0.3, steady_percent=0, window=3)
    assert not outcome.steady
    assert 0.3 <= outcome.seconds < 30


def test_a_window_that_would_overrun_the_limit_is_cut_short() -> None:
    outcome = CpuTimer().warm_up(
        lambda: busy(0.05), minimum=1, limit_seconds=0.1, steady_percent=0, window=1000
    )
    assert outcome.iterations <= 7


def test_the_outcome_of_a_warm_up_is_reported() -> None:
    reported: list[WarmUp] = []
    outcome = CpuTimer(reported.append).warm_up(lambda: None, minimum=1, limit_seconds=0)
    assert reported == [outcome]


@given(st.integers(min_value=1, max_value=50))
def test_there_is_one_time_for_each_iteration(iterations: int) -> None:
    times = CpuTimer().time_calls(lambda: None, iterations=iterations)
    assert len(times) == iterations
    assert min(times) >= 0


def caches(folder: Path, **sizes: str) -> Path:
    for name, size in sizes.items():
        (folder / name).mkdir()
        (folder / name / "size").write_text(f"{size}\n")
    return folder


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ({"index0": "48K", "index2": "2048K", "index3": "32M"}, 32 * 2**20),
        ({"index0": "1G"}, 2**30),
        ({"index0": "unknown", "index1": "64K"}, 64 * 2**10),
        ({"index0": "0K"}, 256 * 2**20),
        ({}, 256 * 2**20),
    ],
)
def test_the_largest_cache_counts(tmp_path: Path, sizes: dict[str, str], expected: int) -> None:
    assert cpu_cache_bytes(caches(tmp_path, **sizes)) == expected


def test_flushing_writes_more_than_the_largest_cache() -> None:
    timer = CpuTimer()
    timer.flush_cache()
    first = timer._flush_buffer
    timer.flush_cache()
    assert first is timer._flush_buffer
    assert first is not None
    assert len(first) == 2 * cpu_cache_bytes()


@pytest.fixture
def torch() -> Any:
    module = pytest.importorskip("torch")
    if not module.cuda.is_available():
        pytest.skip("no GPU")
    return module


@pytest.mark.gpu
class TestOnGpu:
    def test_events_time_what_the_gpu_does_and_not_the_launch(self, torch: Any) -> None:
        left = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
        timer = make_timer("cuda")
        timer.warm_up(lambda: left @ left, minimum=10, limit_seconds=5)
        begin = time.perf_counter()
        times = timer.time_calls(lambda: left @ left, iterations=100)
        elapsed = time.perf_counter() - begin
        assert 0.9 * elapsed < sum(times) <= elapsed

    def test_a_flush_writes_more_than_the_cache_holds(self, torch: Any) -> None:
        """Told by its time, which no memory of a GPU could keep below this for so many bytes."""
        timer = make_timer("cuda")
        timer.flush_cache()
        cache_bytes = torch.cuda.get_device_properties(0).L2_cache_size
        seconds = min(timer.time_calls(timer.flush_cache, iterations=20))
        assert seconds > cache_bytes / 20e12
