"""A training step with its variants: alone or data-parallel, compressed gradients, accumulation."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from ddp_model import SHAPES, Decoder
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rentbench.harness.ranks.rank import Rank

__all__ = ["VARIANTS", "Trainer", "Variant", "half_precision"]

_LEARNING_RATE = 3e-4
# The first generation with tensor cores for bf16.
_BF16_CAPABILITY = 8
_COMPRESS_HOOKS = {
    torch.bfloat16: default_hooks.bf16_compress_hook,
    torch.float16: default_hooks.fp16_compress_hook,
}


@dataclass(frozen=True, kw_only=True)
class Variant:
    """What a step does differently.

    Attributes:
        compress: Gradients are sent in half precision.
        accumulation: Micro-batches of a step; gradients are sent with the last one only.
    """

    compress: bool
    accumulation: int


VARIANTS = {
    "plain": Variant(compress=False, accumulation=1),
    "bf16_gradients": Variant(compress=True, accumulation=1),
    "accumulate_4": Variant(compress=False, accumulation=4),
    "both": Variant(compress=True, accumulation=4),
}


def half_precision(device: str) -> torch.dtype:
    """Return the type to compute in: bfloat16, or float16 on GPUs that only emulate it (before Ampere)."""
    if device == "cpu" or torch.cuda.get_device_capability(device)[0] >= _BF16_CAPABILITY:
        return torch.bfloat16
    return torch.float16


class Trainer:
    """One rank's part of the training.

    Args:
        rank: This one. The weights are the same on every rank, the data are not.
        model: Name of a shape.
        variant: How a step is done.
        micro_batch: Examples that go through the model at once.
        seed: Of weights and data.
        data_parallel: Whether gradients are averaged over the ranks.
    """

    def __init__(
        self, rank: Rank, *, model: str, variant: Variant, micro_batch: int, seed: int, data_parallel: bool
    ) -> None:
        self.shape = SHAPES[model]
        self._rank = rank
        self._variant = variant
        self._micro_batch = micro_batch
        self._dtype = half_precision(rank.device)
        torch.manual_seed(seed)
        with torch.device(rank.device):
            self.model = Decoder(self.shape)
        self._data = torch.Generator(device=rank.device).manual_seed(seed + rank.index)
        self._optimizer = torch.optim.AdamW(self.model.parameters(), lr=_LEARNING_RATE, fused=True)
        device = rank.device.partition(":")[0]
        self._autocast = torch.autocast(device, dtype=self._dtype)
        self._scaler = torch.amp.GradScaler(device, enabled=self._dtype == torch.float16)
        self._parallel: DistributedDataParallel | None = None
        if data_parallel:
            self._parallel = DistributedDataParallel(
                self.model,
                device_ids=None if device == "cpu" else [rank.index],
                gradient_as_bucket_view=True,
            )
            if variant.compress:
                self._parallel.register_comm_hook(None, _COMPRESS_HOOKS[self.gradient_dtype])

    @property
    def gradient_dtype(self) -> torch.dtype:
        """Type in which gradients are sent."""
        if not self._variant.compress:
            return torch.float32
        # On a CPU, DDP refuses the hook for bfloat16.
        return torch.float16 if self._rank.device == "cpu" else self._dtype

    @property
    def gradient_bytes(self) -> int:
        """Bytes that one rank gives to the all-reduces of a step."""
        itemsize: int = self.gradient_dtype.itemsize
        return self.shape.parameters * itemsize

    @property
    def tokens_per_step(self) -> int:
        """Tokens that one rank trains on in a step."""
        return self._micro_batch * self.shape.sequence * self._variant.accumulation

    def step(self) -> torch.Tensor:
        """Do one step and return the mean loss of its last micro-batch, on the device."""
        loss = torch.zeros(())
        for number in range(self._variant.accumulation):
            tokens = torch.randint(
                self.shape.vocabulary,
                (self._micro_batch, self.shape.sequence + 1),
                generator=self._data,
                device=self._rank.device,
            )
            with self._synchronized(last=number + 1 == self._variant.accumulation):
                with self._rank.part("forward"), self._autocast:
                    loss = (self._parallel or self.model)(tokens[:, :-1], tokens[:, 1:])
                with self._rank.part("backward"):
                    self._scaler.scale(loss / self._variant.accumulation).backward()
        with self._rank.part("optimizer"):
            self._scaler.step(self._optimizer)
            self._scaler.update()
            self._optimizer.zero_grad()
        return loss.detach()

    def checksum(self) -> int:
        """Return the sum of all weights' bits, read as integers: equal weights have equal sums."""
        sums = [
            weight.detach().view(torch.int32).sum(dtype=torch.int64) for weight in self.model.parameters()
        ]
        return int(torch.stack(sums).sum().item())

    def _synchronized(self, *, last: bool) -> AbstractContextManager[Any]:
        """Return the context of a micro-batch: gradients are sent with the last one only."""
        if self._parallel is None or last:
            return nullcontext()
        no_sync: AbstractContextManager[Any] = self._parallel.no_sync()
        return no_sync
