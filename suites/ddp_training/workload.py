"""Data-parallel training on the GPUs of one machine. README.md is the method."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rentbench.core.errors import ErrorKind
from rentbench.harness.ranks.collectives import algorithm_bandwidth, bus_bandwidth, mean_over_ranks
from rentbench.harness.ranks.group import run_ranks

if TYPE_CHECKING:
    from rentbench.harness.context import Case, Context

_SCRIPT = Path(__file__).with_name("ddp_rank.py")
_STEADY_PERCENT = 5.0
_STEADY_STEPS = 20
_ALONE = {"plain", "accumulate_4"}


def prepare(context: Context) -> None:
    """Begin a repeat."""
    context.describe(
        weights={"kind": "random", "repository": None, "revision": None},
        data={"kind": "synthetic", "name": "random tokens", "revision": None, "seed": context.seed},
    )


def run(case: Case, context: Context) -> None:
    """Train one model in one way."""
    if set(case) != {"model", "ranks", "variant"}:
        context.fail(ErrorKind.USAGE, "a case has the parameters model, ranks, variant")
    ranks, variant = int(case["ranks"]), str(case["variant"])
    if ranks == 1 and variant not in _ALONE:
        context.skip("one GPU sends no gradients that could be compressed")
    settings = context.settings
    names = ("micro_batch", "warm_up_steps", "steps", "all_reduce_samples")
    job = {"model": case["model"], "variant": variant, "seed": context.seed}
    answers = run_ranks(
        context,
        _SCRIPT,
        job | {name: settings[name] for name in names},
        ranks=ranks,
        timeout_seconds=float(settings["case_timeout_seconds"]),
        environment={"NCCL_NVLS_ENABLE": "1" if settings["nvls"] else "0"},
    )
    _check(answers, context)
    _record(answers, context)


def _record(answers: list[dict[str, Any]], context: Context) -> None:
    """Record what the ranks have come to.

    Args:
        answers: Of each rank, as ddp_rank.py returns it.
        context: Of the case.
    """
    ranks = len(answers)
    seconds = mean_over_ranks([answer["step_seconds"] for answer in answers])
    step = statistics.median(seconds)
    tokens = sum(answer["tokens"] for answer in answers)
    context.record("tokens_per_second", tokens / step, samples=seconds, samples_unit="s")
    context.record("step_seconds", step)
    context.record("tokens_per_step", tokens)
    context.record("loss", statistics.fmean(answer["losses"][-1] for answer in answers))
    if ranks == 1:
        return
    size = answers[0]["gradient_bytes"]
    alone = statistics.median(mean_over_ranks([answer["all_reduce_seconds"] for answer in answers]))
    context.record("gradient_bytes", size)
    context.record("all_reduce_algorithm_bandwidth", algorithm_bandwidth(size, alone))
    context.record("all_reduce_bus_bandwidth", bus_bandwidth(size, alone, ranks))


def _check(answers: list[dict[str, Any]], context: Context) -> None:
    losses = [loss for answer in answers for loss in answer["losses"]]
    finite = sum(map(math.isfinite, losses))
    context.check(
        "loss_finite",
        finite == len(losses),
        f"{finite} of {len(losses)} losses are finite numbers",
        severity="hard",
    )
    if finite < len(losses):
        context.fail(ErrorKind.WRONG_RESULT, f"{len(losses) - finite} of {len(losses)} losses are not finite")
    if len(answers) > 1:
        different = len({answer["checksum"] for answer in answers})
        context.check(
            "ranks_agree",
            different == 1,
            f"after the last step {len(answers)} ranks have {different} different sets of weights",
            severity="hard",
            value=different,
            limit=1,
            unit="count",
        )
        if different > 1:
            context.fail(ErrorKind.WRONG_RESULT, "the ranks have different weights after the same steps")
    precision = answers[0]["precision"]
    context.check(
        "bf16_autocast",
        precision == "bfloat16",
        f"computed under autocast in {precision}"
        + ("" if precision == "bfloat16" else ", with a loss scaler: this GPU has no hardware for bfloat16"),
    )
    _check_steady(mean_over_ranks([answer["step_seconds"] for answer in answers]), context)


def _check_steady(seconds: list[float], context: Context) -> None:
    if len(seconds) < _STEADY_STEPS:
        context.check("steps_steady", None, f"{len(seconds)} steps are too few to tell")
        return
    half = len(seconds) // 2
    first, second = statistics.median(seconds[:half]), statistics.median(seconds[half:])
    change = 100 * abs(second - first) / first
    context.check(
        "steps_steady",
        change <= _STEADY_PERCENT,
        f"the median step of the second half differs from that of the first by {change:.1f} %",
        value=round(change, 2),
        limit=_STEADY_PERCENT,
        unit="%",
    )
