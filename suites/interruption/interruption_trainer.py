"""The training process that is interrupted: a loop as a user would write it, that tells what it does.

Run as `python interruption_trainer.py PLAN EVENTS_DESCRIPTOR`: the plan in JSON, and an open file descriptor
that takes one JSON object a line. Times in events are time.monotonic(), which all processes of a machine
share.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import threading
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from checkpointer import (
    Checkpointer,
    FolderDestination,
    Restored,
    ResumableBatches,
    Save,
    StopFlag,
    TrainingState,
    Upload,
)
from interruption_model import SIZES, Decoder, RandomTokens

if TYPE_CHECKING:
    from collections.abc import Iterator

    from checkpointer import Destination, Event

__all__ = ["Plan", "train"]

_LEARNING_RATE = 1e-4
_SCHEDULE_STEPS = 10_000


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a training process does.

    Attributes:
        size: One of `SIZES`.
        device: "cuda" or "cpu".
        seed: Of weights, data and dropout.
        data_workers: Processes that prepare batches.
        last_step: Where it ends.
        folder: Of local checkpoints; None trains without any.
        upload_folder: Destination; None where it is S3 or nothing.
        s3: Arguments of S3Destination; None where it is a folder or nothing. Credentials are the
            environment's.
        first_save: The step after which checkpoints are on, and the first one is made.
        interval: Steps between checkpoints.
        grace_seconds: Between a signal and the kill.
    """

    size: str
    device: str
    seed: int
    data_workers: int
    last_step: int
    folder: str | None = None
    upload_folder: str | None = None
    s3: dict[str, Any] | None = None
    first_save: int = 1
    interval: int = 1
    grace_seconds: float = 25.0

    def encode(self) -> str:
        """Return the plan as the command line takes it."""
        return json.dumps(asdict(self))


class _Reporter:
    """Writes events; the upload's thread does, too."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        # Data workers must not hold the pipe: its end tells that this process has ended.
        os.register_at_fork(after_in_child=lambda: os.close(descriptor))

    def __call__(self, event: str, **content: float | str | None) -> None:
        line = json.dumps({"event": event, **content}).encode() + b"\n"
        with self._lock:
            os.write(self._descriptor, line)

    def checkpoint(self, event: Event) -> None:
        names = {Save: "saved", Upload: "uploaded", Restored: "restored"}
        self(names[type(event)], **asdict(event))


def train(plan: Plan, descriptor: int) -> None:
    """Train until the last step, or until a signal asks to end."""
    report = _Reporter(descriptor)
    size, device = SIZES[plan.size], torch.device(plan.device)
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.manual_seed(plan.seed)
    half = _half_type(plan.device)
    with device:
        model = Decoder(size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=_LEARNING_RATE, fused=plan.device == "cuda")
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, _SCHEDULE_STEPS)
    scaler = torch.amp.GradScaler(plan.device, enabled=half is torch.float16)
    batches = ResumableBatches(
        RandomTokens(size, plan.seed),
        batch_size=size.micro_batch,
        seed=plan.seed,
        options={"num_workers": plan.data_workers, "pin_memory": plan.device == "cuda"},
    )
    state = TrainingState(model, data=batches, optimizer=optimizer, scheduler=scheduler, scaler=scaler)

    with _checkpointer(plan, state, report) as checkpoints:
        step = 0 if checkpoints is None else checkpoints.restore()
        data = iter(batches)
        while step < plan.last_step:
            begin = time.monotonic()
            tokens = next(data).to(device, non_blocking=True)
            with torch.autocast(plan.device, dtype=half, enabled=half is not None):
                loss = model(tokens[:, :-1], tokens[:, 1:])
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
            value = loss.item()
            if device.type == "cuda":
                torch.cuda.synchronize()
            step += 1
            peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else None
            report("step", step=step, loss=value.hex(), begin=begin, end=time.monotonic(), peak_bytes=peak)
            if checkpoints is not None and step >= plan.first_save and checkpoints.after_step(step):
                break
        if checkpoints is not None:
            report(
                "ended",
                step=step,
                reason=checkpoints.stop.reason,
                saved=checkpoints.last_saved_step,
                uploaded=checkpoints.last_uploaded_step,
                error=checkpoints.save_error or checkpoints.upload_error,
            )


def _half_type(device: str) -> torch.dtype | None:
    """Return the type of autocast: bf16, fp16 where the GPU only emulates that, none on a CPU."""
    if device == "cpu":
        return None
    return torch.bfloat16 if torch.cuda.get_device_capability() >= (8, 0) else torch.float16


@contextlib.contextmanager
def _checkpointer(plan: Plan, state: TrainingState, report: _Reporter) -> Iterator[Checkpointer | None]:
    if plan.folder is None:
        yield None
        return
    with Checkpointer(
        plan.folder,
        state,
        destination=_destination(plan),
        stop=StopFlag(grace_seconds=plan.grace_seconds),
        every_steps=plan.interval,
        listener=report.checkpoint,
    ) as checkpoints:
        yield checkpoints


def _destination(plan: Plan) -> Destination | None:
    if plan.s3 is not None:
        from checkpointer.s3 import S3Destination

        return S3Destination(**plan.s3)
    return None if plan.upload_folder is None else FolderDestination(plan.upload_folder)


def main(arguments: list[str]) -> None:
    """Run the plan of the command line."""
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    train(Plan(**json.loads(arguments[0])), int(arguments[1]))


if __name__ == "__main__":
    main(sys.argv[1:])
