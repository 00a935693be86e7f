"""How a call is timed: CUDA events on a GPU, a monotonic clock on a CPU; warm-up; cold caches.

Nothing here imports torch until a GPU is timed, so the CPU path works without it.
"""

from __future__ import annotations

import ctypes
import statistics
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CpuTimer", "CudaTimer", "Timer", "WarmUp", "cpu_cache_bytes", "make_timer"]

_CPU_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_CPU_CACHE_FALLBACK_BYTES = 256 * 1024**2
_FLUSH_BYTES = 256 * 1024**2


@dataclass(frozen=True, kw_only=True)
class WarmUp:
    """How a warm-up went.

    Attributes:
        iterations: Calls made.
        seconds: Wall time of the whole warm-up.
        steady: Whether the medians of two successive windows agreed before the limit was reached.
    """

    iterations: int
    seconds: float
    steady: bool


class Timer(ABC):
    """Times calls on one device; `make_timer` picks the right kind.

    Args:
        on_warm_up: Called with the outcome of every warm-up; the worker reports it to the supervisor, which
            makes the check `steady_state` from it.
    """

    def __init__(self, on_warm_up: Callable[[WarmUp], None] | None = None) -> None:
        self._on_warm_up = on_warm_up

    @abstractmethod
    def time_calls(
        self,
        call: Callable[[], object],
        *,
        iterations: int,
        before_each: Callable[[], object] | None = None,
    ) -> list[float]:
        """Return the seconds that each of `iterations` calls took, in order.

        Args:
            call: The operation. On a GPU it may return before the GPU is done; its queue is what is timed.
            iterations: How many calls, at least 1.
            before_each: Run before each call and outside its time, such as `flush_cache`.
        """

    @abstractmethod
    def flush_cache(self) -> None:
        """Write a buffer larger than the last cache, so that the next call finds none of its inputs in it."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until the device has done everything that was asked of it."""

    def warm_up(
        self,
        call: Callable[[], object],
        *,
        minimum: int,
        limit_seconds: float,
        steady_percent: float = 2.0,
        window: int = 10,
    ) -> WarmUp:
        """Call until the times have settled, or the limit is reached.

        Settled means that the medians of two successive windows differ by at most `steady_percent` of the
        earlier one. The limit is looked at between windows; one that would overrun it by much is cut short.

        Args:
            call: The operation that will be measured, with the same shapes.
            minimum: Calls to make at least, even where the limit is reached before.
            limit_seconds: Wall time after which the warm-up ends unsteady.
            steady_percent: Largest relative difference of two medians, in percent.
            window: Calls in a window, at least 2.
        """
        begin = time.perf_counter()
        # The first call pays for lazy initialisation; it belongs to no window.
        self.synchronize()
        call()
        self.synchronize()
        iterations, steady = 1, False
        call_seconds = elapsed = time.perf_counter() - begin
        previous: float | None = None
        while iterations < minimum or (not steady and elapsed < limit_seconds):
            affordable = int(max(0.0, limit_seconds - elapsed) / max(call_seconds, 1e-9))
            count = max(2, min(window, max(affordable, minimum - iterations)))
            median = statistics.median(self.time_calls(call, iterations=count))
            iterations += count
            elapsed = time.perf_counter() - begin
            call_seconds = median
            steady = previous is not None and abs(median - previous) <= previous * steady_percent / 100
            previous = median
        outcome = WarmUp(iterations=iterations, seconds=elapsed, steady=steady)
        if self._on_warm_up is not None:
            self._on_warm_up(outcome)
        return outcome


class CpuTimer(Timer):
    """Times with `time.perf_counter_ns`, which never jumps with the wall clock."""

    def __init__(self, on_warm_up: Callable[[WarmUp], None] | None = None) -> None:
        super().__init__(on_warm_up)
        self._flush_buffer: ctypes.Array[ctypes.c_char] | None = None

    def time_calls(
        self,
        call: Callable[[], object],
        *,
        iterations: int,
        before_each: Callable[[], object] | None = None,
    ) -> list[float]:
        """Return the seconds of each call; see `Timer.time_calls`."""
        clock = time.perf_counter_ns
        times = [0] * iterations  # allocated before the clock runs
        for index in range(iterations):
            if before_each is not None:
                before_each()
            begin = clock()
            call()
            times[index] = clock() - begin
        return [nanoseconds / 1e9 for nanoseconds in times]

    def flush_cache(self) -> None:
        """Write a buffer of twice the largest cache of the CPU."""
        if self._flush_buffer is None:
            self._flush_buffer = ctypes.create_string_buffer(2 * cpu_cache_bytes())
        ctypes.memset(self._flush_buffer, 0, len(self._flush_buffer))

    def synchronize(self) -> None:
        """Do nothing: a call on the CPU is done when it returns."""


class CudaTimer(Timer):
    """Times with a pair of CUDA events around each call, on torch's current device and stream.

    The GPU itself stamps the events, so the time of a launch is hidden as long as the queue is never empty.
    There is one synchronisation, after the last call.
    """

    def __init__(self, on_warm_up: Callable[[WarmUp], None] | None = None) -> None:
        super().__init__(on_warm_up)
        import torch

        self._torch: Any = torch
        self._flush_buffer: Any = None

    def time_calls(
        self,
        call: Callable[[], object],
        *,
        iterations: int,
        before_each: Callable[[], object] | None = None,
    ) -> list[float]:
        """Return the seconds of each call by the GPU's clock; see `Timer.time_calls`."""
        event = self._torch.cuda.Event
        pairs = [(event(enable_timing=True), event(enable_timing=True)) for _ in range(iterations)]
        for begin, end in pairs:
            if before_each is not None:
                before_each()
            begin.record()
            call()
            end.record()
        self.synchronize()
        return [begin.elapsed_time(end) / 1e3 for begin, end in pairs]

    def flush_cache(self) -> None:
        """Write a buffer of twice the L2 cache of the current GPU, or of 256 MiB where that is more.

        Writing so much takes longer than the host takes to queue a call: the queue is never empty.
        """
        if self._flush_buffer is None:
            cuda = self._torch.cuda
            cache_bytes = cuda.get_device_properties(cuda.current_device()).L2_cache_size
            size = max(2 * cache_bytes, _FLUSH_BYTES)
            self._flush_buffer = self._torch.empty(size, dtype=self._torch.int8, device="cuda")
        self._flush_buffer.zero_()

    def synchronize(self) -> None:
        """Wait until the current GPU is idle."""
        self._torch.cuda.synchronize()


def make_timer(device: str, on_warm_up: Callable[[WarmUp], None] | None = None) -> Timer:
    """Return the timer for `device`, which is "cuda" or "cpu"."""
    return CudaTimer(on_warm_up) if device == "cuda" else CpuTimer(on_warm_up)


def cpu_cache_bytes(caches: Path = _CPU_CACHES) -> int:
    """Return the size of the CPU's largest cache, or 256 MiB where the kernel does not say."""
    units = {"K": 1024, "M": 1024**2, "G": 1024**3}
    sizes = []
    for file in caches.glob("index*/size"):
        try:
            text = file.read_text().strip()
            sizes.append(int(text.rstrip("KMG")) * units.get(text[-1:], 1))
        except (OSError, ValueError):
            continue
    return max(sizes, default=0) or _CPU_CACHE_FALLBACK_BYTES
