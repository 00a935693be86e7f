"""Fine-tuning of a 1.5B model: all weights, LoRA, QLoRA. README.md is the method."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from finetune_data import SYNTHETIC, DataSet, batches, synthetic_set
from finetune_models import (
    RANDOM,
    Method,
    apply_method,
    describe_weights,
    load_model,
    missing_for,
    trainable,
)
from finetune_tokens import alpaca_set
from finetune_training import Trainer, held_out_loss

from rentbench.core.errors import ErrorKind

if TYPE_CHECKING:
    from rentbench.harness.context import Case, Context


def run(case: Case, context: Context) -> None:
    """Measure one row of the table: a method with a size of micro-batches."""
    if set(case) != {"method", "micro_batch"}:
        context.fail(ErrorKind.USAGE, "a case has the parameters method and micro_batch")
    method, micro_batch = cast("Method", case["method"]), int(case["micro_batch"])
    _require(method, micro_batch, context)
    settings = context.settings
    rate = "learning_rate_full" if method == "full" else "learning_rate_lora"
    with context.phase("load"), context.part("load"):
        base = load_model(
            str(settings["weights"]),
            method,
            architecture=str(settings["architecture"]),
            device=context.device,
        )
        data = _load_data(int(base.config.vocab_size), context)
        model = apply_method(base, method, rank=int(settings["lora_rank"]), alpha=int(settings["lora_alpha"]))
        held_out = batches(data.held_out, micro_batch)
        trainer = Trainer(
            model,
            batches(data.train, micro_batch),
            accumulation=int(settings["examples_per_step"]) // micro_batch,
            learning_rate=float(settings[rate]),
            device=context.device,
            part=context.part,
        )
    with context.phase("evaluate"), context.part("evaluation before training"):
        before = held_out_loss(model, held_out, context.device)
    with context.phase("measure"):
        begin = time.perf_counter()
        step_seconds = context.timer.time_calls(trainer.step, iterations=trainer.steps)
        seconds = time.perf_counter() - begin
    with context.phase("evaluate"), context.part("evaluation after training"):
        after = held_out_loss(model, held_out, context.device)
    _check_losses(trainer, before, after, context)
    context.record("tokens_per_second", data.tokens / seconds, samples=step_seconds, samples_unit="s")
    context.record("train_seconds", seconds)
    context.record("tokens", data.tokens)
    context.record("trainable_parameters", trainable(model))
    if context.device == "cuda":
        context.record("peak_memory_gib", torch.cuda.max_memory_allocated() / 2**30)


def _require(method: Method, micro_batch: int, context: Context) -> None:
    """End the case where it cannot run here, or its numbers do not fit each other."""
    capability = torch.cuda.get_device_capability() if context.device == "cuda" else (99, 0)
    if capability < (8, 0):
        found = "{}.{}".format(*capability)
        context.skip(f"bf16 needs compute capability 8.0 or higher, found {found}: it is emulated there")
    package = missing_for(method)
    if package is not None and context.device == "cpu":
        context.skip(f"{method} needs {package}, which is not installed")
    if package is not None:
        context.fail(ErrorKind.DEPENDENCY_MISSING, f"{method} needs {package}", f"pip install {package}")
    per_step, examples = (int(context.settings[name]) for name in ("examples_per_step", "train_examples"))
    if per_step % micro_batch or examples % per_step:
        context.fail(
            ErrorKind.USAGE,
            f"{examples} examples do not make whole steps of {per_step} in micro-batches of {micro_batch}",
            "train_examples must be a multiple of examples_per_step, and that one of micro_batch",
        )


def _load_data(vocabulary: int, context: Context) -> DataSet:
    settings, source = context.settings, str(context.settings["data"])
    train, held_out = int(settings["train_examples"]), int(settings["held_out_examples"])
    longest = int(settings["max_tokens"])
    described: dict[str, Any] = {"kind": "synthetic", "name": "uniform random token ids", "revision": None}
    if source == SYNTHETIC:
        data = synthetic_set(
            train=train,
            held_out=held_out,
            tokens=int(settings["synthetic_tokens"]),
            longest=longest,
            vocabulary=vocabulary,
            seed=context.seed,
        )
    else:
        data, digest = alpaca_set(
            source,
            str(settings["weights"]),
            train=train,
            held_out=held_out,
            longest=longest,
            vocabulary=vocabulary,
        )
        described = {"kind": "dataset", "name": Path(source).stem, "revision": f"sha256:{digest}"}
    context.describe(
        weights=describe_weights(str(settings["weights"])), data={**described, "seed": context.seed}
    )
    return data


def _check_losses(trainer: Trainer, before: float, after: float, context: Context) -> None:
    losses = [before, *(float(loss) for loss in trainer.losses), after]
    not_finite = sum(not math.isfinite(loss) for loss in losses)
    detail = f"{not_finite} of {len(losses)} losses are not finite"
    context.check(
        "loss_finite", not not_finite, detail, severity="hard", value=not_finite, limit=0, unit="count"
    )
    if not_finite:
        context.fail(ErrorKind.WRONG_RESULT, detail)
    went = f"the held-out loss went from {before:.3f} to {after:.3f}"
    if context.settings["weights"] == RANDOM or context.settings["data"] == SYNTHETIC:
        context.check("loss_fell", None, f"not meaningful with random weights or synthetic data: {went}")
        return
    context.record("loss_before", before)
    context.record("loss_after", after)
    context.check("loss_fell", after < before, went, value=after, limit=before, unit="nats")
