"""The same figures as suite gemm's, taken by code that shares nothing with it: a check from outside.

Run on a GPU machine: `python tests/gpu/independent_gemm.py --size 8192`. It prints one JSON object:

- `burst`: a plain loop on a card that has rested, one event pair around each product, nothing between
  products but the flush of the cache;
- `steady`: the published method of mamf-finder: 30 s of heat, then 50 warm-up and 100 timed products, 256 MiB
  written between products;
- `copy`: device copy in GB/s, counting every byte once read and once written.

Rates are medians; 1 TFLOPS is 1e12 floating-point operations a second, and a product has 2 n³ of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

FLUSH_BYTES = 256 * 2**20


def event_times(call: Callable[[], object], iterations: int, flush: torch.Tensor) -> list[float]:
    """Seconds of each call, by a pair of CUDA events around it."""
    pairs = [
        (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
        for _ in range(iterations)
    ]
    for start, end in pairs:
        flush.zero_()
        start.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) / 1000 for start, end in pairs]


def heat(call: Callable[[], object], seconds: float) -> None:
    """Keep the card busy for that long."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for _ in range(50):
            call()
        torch.cuda.synchronize()


def summary(seconds: list[float], amount: float) -> dict[str, float]:
    """Median, mean and best rate: `amount` of work per call over the seconds of each."""
    return {
        "median": amount / statistics.median(seconds),
        "mean": amount / statistics.fmean(seconds),
        "best": amount / min(seconds),
    }


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=8192)
    parser.add_argument("--burst-iterations", type=int, default=20)
    parser.add_argument("--rest-seconds", type=float, default=30)
    parser.add_argument("--heat-seconds", type=float, default=30)
    parser.add_argument("--copy-mebibytes", type=int, default=1024)
    options = parser.parse_args()

    size = options.size
    left = torch.randn(size, size, device="cuda").to(torch.bfloat16)
    right = torch.randn(size, size, device="cuda").to(torch.bfloat16)
    product = torch.empty(size, size, device="cuda", dtype=torch.bfloat16)
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
    operations = 2 * size**3 / 1e12

    def multiply() -> None:
        torch.mm(left, right, out=product)

    for _ in range(5):
        multiply()
    torch.cuda.synchronize()
    time.sleep(options.rest_seconds)
    burst = event_times(multiply, options.burst_iterations, flush)

    heat(multiply, options.heat_seconds)
    event_times(multiply, 50, flush)
    steady = event_times(multiply, 100, flush)

    source = torch.randn(options.copy_mebibytes * 2**20 // 4, device="cuda")
    target = torch.empty_like(source)
    for _ in range(10):
        target.copy_(source)
    copied = event_times(lambda: target.copy_(source), 50, flush)

    print(
        json.dumps(
            {
                "torch": torch.__version__,
                "gpu": torch.cuda.get_device_name(),
                "size": size,
                "burst_tflops": summary(burst, operations),
                "steady_tflops": summary(steady, operations),
                "copy_gbps": summary(copied, 2 * source.numel() * 4 / 1e9),
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
