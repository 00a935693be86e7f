"""Hold a load on the device and read the card's sensors beside it.

Kernels are queued one batch ahead: while the host waits for a batch or reads a sensor, the next batch runs,
so the load has no gaps in which the card would cool or raise its clocks.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rentbench.harness.nvml import GpuReading

__all__ = ["LoadSample", "call_rate", "settled", "sustain"]

_MAX_BATCH = 1000  # a GPU's launch queue holds about this many kernels before a launch blocks


@dataclass(frozen=True, kw_only=True)
class LoadSample:
    """One look at a running load.

    Attributes:
        seconds: Since the load began.
        calls: Calls that the device had finished by then.
        reading: The card's sensors at that moment.
    """

    seconds: float
    calls: int
    reading: GpuReading


def sustain(
    call: Callable[[], object],
    *,
    device: str,
    read: Callable[[], GpuReading],
    limit_seconds: float,
    sample_seconds: float = 0.1,
    until: Callable[[Sequence[LoadSample]], bool] | None = None,
    fence: Callable[[], Callable[[], None]] | None = None,
) -> list[LoadSample]:
    """Call without a pause until a condition holds or a time is over.

    Args:
        call: The operation; on a GPU it queues its kernels on the current device and stream.
        device: "cuda" or "cpu".
        read: Returns the card's sensors.
        limit_seconds: When to stop at the latest; the batches already queued then still run.
        sample_seconds: At most this often a sample is taken; a call that takes longer makes it rarer.
        until: Looked at after each sample; the load ends when it says true.
        fence: Marks a point in the device's queue and returns what waits for it; by default an event on the
            current stream of a GPU.

    Returns:
        The samples in order, at least one. The device is idle when the function returns.
    """
    if fence is None:
        fence = _cuda_fence if device == "cuda" else _no_fence
    ahead = 1 if device == "cuda" else 0
    pending: deque[tuple[Callable[[], None], int]] = deque()
    samples: list[LoadSample] = []
    queued = finished = 0
    batch = 1
    begin = last_batch = time.perf_counter()
    while True:
        for _ in range(batch):
            call()
        queued += batch
        pending.append((fence(), queued))
        if len(pending) <= ahead:
            continue
        wait, count = pending.popleft()
        wait()
        now = time.perf_counter()
        seconds_per_call = (now - last_batch) / (count - finished)
        finished, last_batch = count, now
        # Two batches a sample, and no sudden jump: the first calls are slow and say little about the next.
        affordable = int(sample_seconds / 2 / max(seconds_per_call, 1e-9))
        batch = max(1, min(affordable, 2 * batch, _MAX_BATCH))
        over = now - begin >= limit_seconds
        if over or not samples or now - begin - samples[-1].seconds >= sample_seconds:
            samples.append(LoadSample(seconds=now - begin, calls=finished, reading=read()))
            if over or (until is not None and until(samples)):
                break
    for wait, _ in pending:
        wait()
    return samples


def call_rate(samples: Sequence[LoadSample], begin: float, end: float) -> float | None:
    """Return the calls a second between two moments of a load; None where less than two samples lie there.

    Args:
        samples: As `sustain` returns them.
        begin: Seconds since the load began.
        end: Likewise.
    """
    inside = [sample for sample in samples if begin <= sample.seconds <= end]
    if len(inside) < 2:
        return None
    return (inside[-1].calls - inside[0].calls) / (inside[-1].seconds - inside[0].seconds)


def settled(samples: Sequence[LoadSample], *, window_seconds: float, percent: float) -> bool:
    """Say whether a load has settled: two successive windows up to now agree.

    What is compared is the mean SM clock; where the clock cannot be read (a CPU, a restricted container), it
    is the rate of calls.

    Args:
        samples: As `sustain` returns them.
        window_seconds: Length of each of the two windows; longer where calls are so slow that one would hold
            less than three samples.
        percent: Largest difference, of the earlier window.
    """
    if not samples:
        return False
    end = samples[-1].seconds
    window = max(window_seconds, 3 * end / len(samples))
    if end < 2 * window:
        return False
    earlier = _pace(samples, end - 2 * window, end - window)
    later = _pace(samples, end - window, end)
    if earlier is None or later is None:
        return False
    return abs(later - earlier) <= earlier * percent / 100


def _pace(samples: Sequence[LoadSample], begin: float, end: float) -> float | None:
    clocks = [
        sample.reading.clock_sm_mhz
        for sample in samples
        if begin <= sample.seconds <= end and sample.reading.clock_sm_mhz is not None
    ]
    return sum(clocks) / len(clocks) if clocks else call_rate(samples, begin, end)


def _cuda_fence() -> Callable[[], None]:
    import torch

    # A blocking event lets the host thread sleep: several cards can be loaded from one process.
    event: Any = torch.cuda.Event(blocking=True)
    event.record()

    def wait() -> None:
        event.synchronize()

    return wait


def _no_fence() -> Callable[[], None]:
    return lambda: None
