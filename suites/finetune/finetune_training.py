"""The training loop: micro-batches, accumulation, AdamW, a cosine schedule; and the held-out loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from finetune_data import Batch

__all__ = ["Trainer", "held_out_loss"]

Tensor: TypeAlias = Any  # torch is not installed where types are checked


class Trainer:
    """One epoch of optimizer steps, each over several micro-batches.

    Args:
        model: A causal language model, prepared by `apply_method`.
        micro_batches: Of the whole epoch, in order.
        accumulation: Micro-batches of a step; they divide the number of micro-batches.
        learning_rate: Of the first step; it falls to 0 along a half cosine. No warm-up, no weight decay.
        device: Where the batches go.
        part: Names the part that runs, for errors: `Context.part`.

    Attributes:
        steps: Steps of the epoch.
        losses: Mean loss of each step's tokens, still on the device: nothing is waited for.
    """

    def __init__(
        self,
        model: Any,  # noqa: ANN401
        micro_batches: Sequence[Batch],
        *,
        accumulation: int,
        learning_rate: float,
        device: str,
        part: Callable[[str], AbstractContextManager[None]],
    ) -> None:
        self.steps = len(micro_batches) // accumulation
        self.losses: list[Tensor] = []
        self._model = model
        self._batches = micro_batches
        self._accumulation = accumulation
        self._device = device
        self._part = part
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._optimizer = torch.optim.AdamW(trained, lr=learning_rate, weight_decay=0.0, fused=True)
        self._schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self._optimizer, T_max=self.steps)

    def step(self) -> None:
        """Queue the next step: forward and backward for each micro-batch, then the optimizer.

        Every token of a step weighs the same, whatever micro-batch it is in, so that 4×4 and 8×2 compute the
        same gradient.
        """
        begin = len(self.losses) * self._accumulation
        batches = self._batches[begin : begin + self._accumulation]
        targets = sum(batch.targets for batch in batches)
        losses = []
        for batch in batches:
            with self._part("forward"):
                loss = _loss(self._model, batch, self._device) * (batch.targets / targets)
            with self._part("backward"):
                loss.backward()
            losses.append(loss.detach())
        with self._part("optimizer"):
            self._optimizer.step()
            self._schedule.step()
            self._optimizer.zero_grad(set_to_none=True)
        self.losses.append(torch.stack(losses).sum())


def held_out_loss(model: Any, batches: Sequence[Batch], device: str) -> float:  # noqa: ANN401
    """Return the mean loss of all predicted tokens, in nats; the model is left in training mode."""
    model.eval()
    with torch.no_grad():
        sums = [_loss(model, batch, device) * batch.targets for batch in batches]
    model.train()
    return float(torch.stack(sums).sum()) / sum(batch.targets for batch in batches)


def _loss(model: Any, batch: Batch, device: str) -> Tensor:  # noqa: ANN401
    inputs = {name: tensor.to(device, non_blocking=True) for name, tensor in batch.inputs.items()}
    with torch.autocast(device, dtype=torch.bfloat16):
        return model(**inputs).loss
