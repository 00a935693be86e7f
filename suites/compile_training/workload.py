"""Training steps of a Llama in bf16, eager and compiled, with each attention. README.md is the method."""

from __future__ import annotations

import math
import os
import statistics
import time
from typing import TYPE_CHECKING

import torch
from compile_compiler import missing_for_compile
from compile_model import Shape, Training, build_model, unsupported_reason

from rentbench.core.errors import ErrorKind

if TYPE_CHECKING:
    from rentbench.harness.context import Case, Context

# An untrained model gives every token about the same probability: its loss is ln(vocabulary), and a little
# more where the logits scatter (transformers draws weights with a deviation of 0.02).
_LOSS_BELOW, _LOSS_ABOVE = 0.3, 1.0


def prepare(context: Context) -> None:
    """Give compiled code an empty cache of its own, so that every first step compiles anew."""
    for variable in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        folder = context.scratch / variable.lower()
        folder.mkdir(exist_ok=True)
        os.environ[variable] = str(folder)
    context.describe(
        weights={"kind": "random", "repository": None, "revision": None},
        data={
            "kind": "synthetic",
            "name": "uniform random token ids",
            "revision": None,
            "seed": context.seed,
        },
    )


def run(case: Case, context: Context) -> None:
    """Measure one setup."""
    if set(case) != {"mode", "attention"}:
        context.fail(ErrorKind.USAGE, "a case has the parameters mode and attention")
    mode, attention = str(case["mode"]), str(case["attention"])
    capability = torch.cuda.get_device_capability() if context.device == "cuda" else None
    reason = unsupported_reason(mode, capability)
    if reason is not None:
        context.skip(reason)
    if mode == "compile":
        missing = missing_for_compile(context.device)
        if missing is not None:
            context.fail(ErrorKind.DEPENDENCY_MISSING, missing.message, missing.hint)
    training = _load(mode, attention, context)
    first = _first_step(training, mode, context)
    with context.phase("warm_up"):
        for _ in range(int(context.settings["warm_up_steps"])):
            training.step()
    with context.phase("measure"):
        seconds = context.timer.time_calls(training.step, iterations=int(context.settings["steps"]))
    _check_losses(training, context)
    _record(training, first, seconds, context)


def _load(mode: str, attention: str, context: Context) -> Training:
    settings = context.settings
    shape = Shape(
        hidden=int(settings["hidden"]),
        layers=int(settings["layers"]),
        heads=int(settings["heads"]),
        feed_forward=int(settings["feed_forward"]),
        vocabulary=int(settings["vocabulary"]),
        positions=int(settings["sequence"]),
    )
    if shape.hidden % shape.heads:
        context.fail(ErrorKind.USAGE, f"{shape.heads} heads do not divide a width of {shape.hidden}")
    with context.phase("load"), context.part("load"):
        return Training(
            build_model(shape, attention, context.device),
            compiled=mode == "compile",
            batch=int(settings["batch"]),
            sequence=int(settings["sequence"]),
            vocabulary=shape.vocabulary,
            learning_rate=float(settings["learning_rate"]),
            device=context.device,
            part=context.part,
        )


def _first_step(training: Training, mode: str, context: Context) -> float:
    """Return the wall seconds of the first step; it is a phase of its own where it compiles."""
    with context.phase("compile" if mode == "compile" else "warm_up"):
        begin = time.perf_counter()
        training.step()
        context.timer.synchronize()
        return time.perf_counter() - begin


def _check_losses(training: Training, context: Context) -> None:
    losses = [float(loss) for loss in training.losses]
    not_finite = sum(not math.isfinite(loss) for loss in losses)
    context.check(
        "loss_finite",
        not_finite == 0,
        f"{not_finite} of {len(losses)} losses are not finite",
        severity="hard",
        value=not_finite,
        limit=0,
        unit="count",
    )
    if not_finite:
        context.fail(ErrorKind.WRONG_RESULT, f"{not_finite} of {len(losses)} losses are not finite")
    expected = math.log(int(context.settings["vocabulary"]))
    context.check(
        "loss_plausible",
        expected - _LOSS_BELOW <= losses[0] <= expected + _LOSS_ABOVE,
        f"the first loss is {losses[0]:.3f}; untrained, it is near ln(vocabulary) = {expected:.3f}",
        severity="hard",
        value=losses[0],
        limit=expected,
        unit="nats",
    )
    context.record("loss_first", losses[0])
    context.record("loss_last", losses[-1])


def _record(training: Training, first: float, seconds: list[float], context: Context) -> None:
    tokens, mean = training.tokens, statistics.fmean(seconds)
    context.record("tokens_per_second", tokens / mean, samples=seconds, samples_unit="s")
    context.record("tokens_per_second_median", tokens / statistics.median(seconds))
    context.record("tokens_per_second_best", tokens / min(seconds))
    context.record("step_seconds", mean)
    context.record("first_step_seconds", first)
    if context.device == "cuda":
        peak = torch.cuda.max_memory_allocated()
        context.record("peak_memory_gb", peak / 1e9)
        context.record("peak_memory_gib", peak / 2**30)
