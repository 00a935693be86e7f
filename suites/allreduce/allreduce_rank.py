"""What each rank does: reduce a message over and over, and then look whether the sums are right."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from rentbench.harness.ranks.collectives import time_all_reduce

if TYPE_CHECKING:
    from rentbench.harness.ranks.rank import Rank

# Sums in place grow by the number of ranks with every call; with more calls in a row they could overflow.
_MOST_CALLS = 16
# Small integers, so that sums over ranks are exact in float32.
_PERIOD = 251


def run(rank: Rank, job: dict[str, Any]) -> dict[str, Any]:
    """Measure one message size.

    Args:
        rank: This one.
        job: bytes, warm_up_samples, samples, sample_seconds.

    Returns:
        seconds (of an all-reduce, by sample), calls (in a sample), wrong (elements with a wrong sum).
    """
    elements = job["bytes"] // 4
    source = (torch.arange(elements, dtype=torch.int32, device=rank.device) % _PERIOD).float() + rank.index
    message = torch.empty_like(source)

    def refill() -> None:
        message.copy_(source)

    with rank.phase("warm_up"):
        first = time_all_reduce(
            rank, message, refill=refill, warm_up=1, samples=max(1, job["warm_up_samples"]), calls=1
        )
        calls = _calls(rank, statistics.median(first), job["sample_seconds"])
    with rank.phase("measure"):
        seconds = time_all_reduce(
            rank, message, refill=refill, warm_up=1, samples=job["samples"], calls=calls
        )
    with rank.phase("evaluate"):
        wrong = count_wrong(message, source, rank)
    return {"seconds": seconds, "calls": calls, "wrong": wrong}


def count_wrong(message: torch.Tensor, source: torch.Tensor, rank: Rank) -> int:
    """Reduce the source once more and return how many elements do not hold their exact sum.

    Args:
        message: Takes the sums.
        source: Of this rank: what all ranks have in common, plus the rank's number.
        rank: This one.
    """
    message.copy_(source)
    dist.all_reduce(message)
    numbers = rank.count * (rank.count - 1) // 2
    expected = (source - rank.index) * rank.count + numbers
    return int((message != expected).sum().item())


def _calls(rank: Rank, seconds: float, sample_seconds: float) -> int:
    """Return how many calls a sample has: the same number on every rank, by the slowest."""
    slowest = torch.tensor([seconds], dtype=torch.float64, device=rank.device)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return max(1, min(_MOST_CALLS, int(sample_seconds / slowest.item())))
