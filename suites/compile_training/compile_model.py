"""The model, its random batch and one training step: forward, backward, optimizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from transformers import AutoModelForCausalLM, LlamaConfig

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

__all__ = ["Shape", "Training", "build_model", "unsupported_reason"]

Tensor: TypeAlias = Any  # torch is not installed where types are checked
Capability: TypeAlias = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Sizes of a Llama. Queries have as many heads as keys and values; embeddings are not tied."""

    hidden: int
    layers: int
    heads: int
    feed_forward: int
    vocabulary: int
    positions: int


def unsupported_reason(mode: str, capability: Capability | None) -> str | None:
    """Return why a setup cannot be measured on a device, or None where it can.

    Args:
        mode: "eager" or "compile".
        capability: The GPU's compute capability; None for a CPU.
    """
    if capability is None or capability >= (8, 0):
        return None
    found = "{}.{}".format(*capability)
    reason = f"bf16 weights need compute capability 8.0 or higher, found {found}: bf16 is emulated there"
    if mode == "compile" and capability < (7, 5):
        reason += ", and Triton has no tensor-core products for it"
    return reason


def build_model(shape: Shape, attention: str, device: str) -> Any:  # noqa: ANN401
    """Return a `LlamaForCausalLM` with random bf16 weights, in training mode.

    Args:
        shape: Its sizes.
        attention: "sdpa" or "eager".
        device: Where it is built ("meta": shapes only).
    """
    config = LlamaConfig(
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        intermediate_size=shape.feed_forward,
        vocab_size=shape.vocabulary,
        max_position_embeddings=shape.positions,
        tie_word_embeddings=False,
        use_cache=False,
    )
    with torch.device(device):
        # Not `.to(bfloat16)` afterwards: that would round the rotary frequencies too.
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation=attention)
    return model.train()


class Training:
    """A model, one batch of uniformly random token ids, and fused AdamW.

    Args:
        model: A causal language model that computes its own loss.
        compiled: Whether it runs through `torch.compile` (default mode).
        batch: Sequences in a step.
        sequence: Tokens of each.
        vocabulary: Token ids are below it.
        learning_rate: Of AdamW; all else is PyTorch's default.
        device: Of the batch.
        part: Names the part that runs, for errors: `Context.part`.

    Attributes:
        tokens: Tokens of a step.
        losses: One scalar a step, still on the device: nothing is waited for.
    """

    def __init__(
        self,
        model: Any,  # noqa: ANN401
        *,
        compiled: bool,
        batch: int,
        sequence: int,
        vocabulary: int,
        learning_rate: float,
        device: str,
        part: Callable[[str], AbstractContextManager[None]],
    ) -> None:
        self.tokens = batch * sequence
        self.losses: list[Tensor] = []
        self._part = part
        self._ids = torch.randint(0, vocabulary, (batch, sequence), device=device)
        self._optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, fused=True)
        self._model = torch.compile(model) if compiled else model

    def step(self) -> None:
        """Queue one training step."""
        with self._part("forward"):
            loss = self._model(input_ids=self._ids, labels=self._ids).loss
        with self._part("backward"):
            loss.backward()
        with self._part("optimizer"):
            self._optimizer.step()
            self._optimizer.zero_grad(set_to_none=True)
        self.losses.append(loss.detach())
