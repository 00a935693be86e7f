"""Timing of all-reduces, and the arithmetic of their bandwidth."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rentbench.harness.ranks.rank import Rank

__all__ = ["algorithm_bandwidth", "bus_bandwidth", "mean_over_ranks", "time_all_reduce"]


def algorithm_bandwidth(message_bytes: int, seconds: float) -> float:
    """Return bytes ÷ time in GB/s (1e9 bytes a second)."""
    return message_bytes / seconds / 1e9


def bus_bandwidth(message_bytes: int, seconds: float, ranks: int) -> float:
    """Return the bandwidth that an all-reduce needs of the links, in GB/s, whatever the number of ranks.

    Algorithm bandwidth × 2(n − 1) ÷ n: each rank sends and receives that part of the message at least.
    Source: nccl-tests, doc/PERFORMANCE.md.
    """
    return algorithm_bandwidth(message_bytes, seconds) * 2 * (ranks - 1) / ranks


def mean_over_ranks(seconds: Sequence[Sequence[float]]) -> list[float]:
    """Return the mean over ranks of each reading.

    Args:
        seconds: Of each rank, its readings in order; all have as many.
    """
    return [statistics.fmean(readings) for readings in zip(*seconds, strict=True)]


def time_all_reduce(
    rank: Rank,
    tensor: Any,  # noqa: ANN401 - torch is not there when types are checked
    *,
    refill: Callable[[], object],
    warm_up: int,
    samples: int,
    calls: int,
) -> list[float]:
    """Return the seconds of one all-reduce (sum, in place), as often as there are samples.

    Before each sample all ranks meet at a barrier. A sample is a number of calls in a row, between two CUDA
    events; on a CPU between two readings of a monotonic clock.

    Args:
        rank: This one. All ranks must call with the same numbers.
        tensor: What is reduced, on the rank's device.
        refill: Sets the tensor anew before each sample: sums of sums would grow until they overflow.
        warm_up: Samples before the measured ones.
        samples: Measured samples.
        calls: All-reduces in a sample.
    """
    import torch.distributed as dist

    on_gpu = rank.device != "cpu"
    times = []
    for _ in range(warm_up + samples):
        refill()
        rank.synchronize()
        dist.barrier()
        times.append(_event_seconds(tensor, calls) if on_gpu else _clock_seconds(tensor, calls))
    return [seconds / calls for seconds in times[warm_up:]]


def _event_seconds(tensor: Any, calls: int) -> float:  # noqa: ANN401
    import torch
    import torch.distributed as dist

    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()  # the barrier's own work must not be in the queue
    begin.record()
    for _ in range(calls):
        dist.all_reduce(tensor)
    end.record()
    torch.cuda.synchronize()
    milliseconds: float = begin.elapsed_time(end)
    return milliseconds / 1e3


def _clock_seconds(tensor: Any, calls: int) -> float:  # noqa: ANN401
    import torch.distributed as dist

    begin = time.perf_counter_ns()
    for _ in range(calls):
        dist.all_reduce(tensor)
    return (time.perf_counter_ns() - begin) / 1e9
