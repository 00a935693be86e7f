"""What each rank does: train, add up its weights for a comparison, time an all-reduce of the gradients."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

import torch
from ddp_trainer import VARIANTS, Trainer, half_precision

from rentbench.harness.ranks.collectives import time_all_reduce

if TYPE_CHECKING:
    from collections.abc import Callable

    from rentbench.harness.ranks.rank import Rank


def run(rank: Rank, job: dict[str, Any]) -> dict[str, Any]:
    """Train one model in one way.

    Args:
        rank: This one.
        job: model, variant, micro_batch, warm_up_steps, steps, all_reduce_samples, seed.

    Returns:
        step_seconds (of each step), losses, checksum (of the weights), tokens (a step, of this rank),
        precision, gradient_bytes and all_reduce_seconds (of a message of that size; empty with one rank).
    """
    with rank.phase("load"):
        trainer = Trainer(
            rank,
            model=job["model"],
            variant=VARIANTS[job["variant"]],
            micro_batch=job["micro_batch"],
            seed=job["seed"],
            data_parallel=rank.count > 1,
        )
    with rank.phase("warm_up"):
        for _ in range(job["warm_up_steps"]):
            trainer.step()
    with rank.phase("measure"):
        step_seconds, losses = timed_steps(trainer.step, job["steps"], rank)
    with rank.phase("evaluate"):
        result = {
            "step_seconds": step_seconds,
            "losses": torch.stack(losses).float().tolist(),
            "checksum": trainer.checksum(),
            "tokens": trainer.tokens_per_step,
            "precision": str(half_precision(rank.device)).removeprefix("torch."),
        }
        size, dtype = trainer.gradient_bytes, trainer.gradient_dtype
        del trainer
        seconds = _all_reduce(rank, size, dtype, job["all_reduce_samples"]) if rank.count > 1 else []
    return {**result, "gradient_bytes": size, "all_reduce_seconds": seconds}


def timed_steps(
    step: Callable[[], torch.Tensor], count: int, rank: Rank
) -> tuple[list[float], list[torch.Tensor]]:
    """Return the seconds and the loss of each step; a step lasts until the next one begins.

    On a GPU the time is that between two CUDA events, on a CPU that of a monotonic clock.
    """
    losses = []
    if rank.device == "cpu":
        marks = [time.perf_counter()]
        for _ in range(count):
            losses.append(step())
            marks.append(time.perf_counter())
        return [after - before for before, after in itertools.pairwise(marks)], losses
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    events[0].record()
    for event in events[1:]:
        losses.append(step())
        event.record()
    torch.cuda.synchronize()
    return [before.elapsed_time(after) / 1e3 for before, after in itertools.pairwise(events)], losses


def _all_reduce(rank: Rank, size: int, dtype: torch.dtype, samples: int) -> list[float]:
    """Return the seconds of an all-reduce of all gradients as one message, while nothing else happens."""
    message = torch.ones(size // dtype.itemsize, dtype=dtype, device=rank.device)
    return time_all_reduce(
        rank, message, refill=lambda: message.fill_(1), warm_up=3, samples=samples, calls=1
    )
