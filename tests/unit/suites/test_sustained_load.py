"""Holding a load, and judging whether it has settled."""

from __future__ import annotations

import hashlib
import itertools
import statistics
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from rentbench.harness.load import LoadSample, call_rate, settled, sustain
from support.suites import reading

if TYPE_CHECKING:
    from collections.abc import Callable

    from rentbench.harness.nvml import GpuReading

BLOCK = bytes(200_000)


def ramp(seconds: float, clock_at: Callable[[float], float | None], rate: float = 1000) -> list[LoadSample]:
    """Return samples ten times a second, with a clock as a function of time and a constant rate of calls."""
    times = [0.1 * (step + 1) for step in range(round(seconds * 10))]
    return [
        LoadSample(seconds=time, calls=round(rate * time), reading=reading(clock_sm_mhz=clock_at(time)))
        for time in times
    ]


def test_a_constant_clock_has_settled_after_two_windows() -> None:
    assert not settled(ramp(0.9, lambda _: 1500.0), window_seconds=0.5, percent=1)
    assert settled(ramp(1.1, lambda _: 1500.0), window_seconds=0.5, percent=1)


def test_a_falling_clock_has_not_settled() -> None:
    samples = ramp(2, lambda time: 1980 - 200 * time)
    assert not settled(samples, window_seconds=0.5, percent=1)
    assert settled(samples, window_seconds=0.5, percent=10)


def test_only_the_end_counts() -> None:
    samples = ramp(4, lambda time: 1980 - 200 * min(time, 2))
    assert settled(samples, window_seconds=0.5, percent=1)


def test_without_a_clock_the_rate_of_calls_decides() -> None:
    steady = ramp(2, lambda _: None)
    assert settled(steady, window_seconds=0.5, percent=1)
    slowing = [
        LoadSample(seconds=one.seconds, calls=round(1000 * one.seconds**0.5), reading=one.reading)
        for one in steady
    ]
    assert not settled(slowing, window_seconds=0.5, percent=1)


def test_slow_calls_make_the_windows_longer() -> None:
    # Two samples a second: a window of half a second would often hold none.
    samples = ramp(6, lambda _: 1500.0)[4::5]
    assert not settled(samples[:5], window_seconds=0.5, percent=1)
    assert settled(samples, window_seconds=0.5, percent=1)


def test_nothing_has_not_settled() -> None:
    assert not settled([], window_seconds=0.5, percent=1)


def test_the_rate_is_taken_between_samples() -> None:
    samples = ramp(2, lambda _: None, rate=50)
    assert call_rate(samples, 0.5, 1.5) == pytest.approx(50)
    assert call_rate(samples, 0.15, 0.25) is None


def test_every_call_is_counted() -> None:
    made = 0

    def call() -> None:
        nonlocal made
        made += 1
        hashlib.sha256(BLOCK).digest()

    samples = sustain(call, device="cpu", read=reading, limit_seconds=0.3, sample_seconds=0.02)
    assert samples[-1].calls == made
    assert samples[-1].seconds >= 0.3
    assert [sample.calls for sample in samples] == sorted({sample.calls for sample in samples})
    # The last one is taken when the time is over, however soon after the one before.
    gaps = [later.seconds - earlier.seconds for earlier, later in itertools.pairwise(samples[:-1])]
    assert min(gaps) >= 0.02


def test_the_load_ends_when_the_condition_holds() -> None:
    samples = sustain(
        lambda: hashlib.sha256(BLOCK).digest(),
        device="cpu",
        read=reading,
        limit_seconds=60,
        sample_seconds=0.01,
        until=lambda so_far: len(so_far) == 4,
    )
    assert len(samples) == 4


def test_a_call_longer_than_the_limit_still_gives_a_sample() -> None:
    samples = sustain(
        lambda: hashlib.sha256(bytes(20_000_000)).digest(), device="cpu", read=reading, limit_seconds=0
    )
    assert [sample.calls for sample in samples] == [1]


def test_an_error_of_the_call_is_not_swallowed() -> None:
    def call() -> None:
        msg = "CUDA error: out of memory"
        raise RuntimeError(msg)

    with pytest.raises(RuntimeError, match="out of memory"):
        sustain(call, device="cpu", read=reading, limit_seconds=1)


class AsynchronousDevice:
    """Does what is queued in a thread of its own, in order, as a GPU does its stream."""

    def __init__(self) -> None:
        self._stream = ThreadPoolExecutor(1)
        self.queued = 0
        self.done = 0

    def call(self) -> None:
        self.queued += 1
        self._stream.submit(self._work)

    def fence(self) -> Callable[[], None]:
        passed = self._stream.submit(lambda: None)
        return lambda: passed.result() and None

    def _work(self) -> None:
        hashlib.sha256(BLOCK).digest()
        self.done += 1


def test_a_device_that_works_by_itself_is_never_left_without_work() -> None:
    device = AsynchronousDevice()
    waiting: list[int] = []

    def read() -> GpuReading:
        waiting.append(device.queued - device.done)
        return reading()

    samples = sustain(
        device.call,
        device="cuda",
        read=read,
        limit_seconds=0.4,
        sample_seconds=0.05,
        fence=device.fence,
    )
    assert device.done == device.queued  # idle at the end
    # At work while the sensors were read; now and then another process keeps this one from queueing in time.
    assert statistics.median(waiting) > 0
    assert samples[-1].calls < device.queued  # only what was finished is counted
    rate = call_rate(samples, 0.1, 0.4)
    assert rate is not None
    assert rate <= device.done / samples[-1].seconds * 1.5
