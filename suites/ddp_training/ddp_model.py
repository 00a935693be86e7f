"""A decoder like GPT-2, in plain PyTorch: learned positions, biases everywhere, tied embeddings, no dropout.

Architecture and initial values are those of GPT-2 (Radford et al., "Language Models are Unsupervised
Multitask Learners", 2019; code: openai/gpt-2, src/model.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

__all__ = ["SHAPES", "Decoder", "Shape"]

_INITIAL_DEVIATION = 0.02


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Sizes of a model.

    Attributes:
        layers: Blocks of attention and MLP.
        width: Elements of a token's vector; the MLP is four times as wide.
        heads: Of each attention.
        vocabulary: Different tokens.
        sequence: Tokens of an example.
        parameters: Trainable ones, the embedding that input and output share counted once.
    """

    layers: int
    width: int
    heads: int
    vocabulary: int = 50257
    sequence: int = 1024
    parameters: int


SHAPES = {
    "124M": Shape(layers=12, width=768, heads=12, parameters=124_439_808),
    "355M": Shape(layers=24, width=1024, heads=16, parameters=354_823_168),
    "tiny": Shape(layers=2, width=32, heads=2, vocabulary=101, sequence=32, parameters=29_728),
}


class Decoder(nn.Module):  # type: ignore[misc]  # torch has no types here
    """The model, with its loss inside, so that data parallelism wraps it whole.

    Args:
        shape: Its sizes.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.sequence, shape.width)
        self.blocks = nn.ModuleList(_Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.apply(_initialize)
        # What is added to the residual stream is scaled down by how often that happens.
        for name, parameter in self.named_parameters():
            if name.endswith("output.weight"):
                nn.init.normal_(parameter, std=_INITIAL_DEVIATION / math.sqrt(2 * shape.layers))

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the mean cross-entropy, in nats.

        Args:
            tokens: Indices of shape (batch, sequence).
            targets: The token that follows each, of the same shape.
        """
        hidden = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            hidden = block(hidden)
        logits = functional.linear(self.norm(hidden), self.tokens.weight)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


class _Block(nn.Module):  # type: ignore[misc]  # torch has no types here
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(shape.width)
        self.attention = _Attention(shape)
        self.mlp_norm = nn.LayerNorm(shape.width)
        self.mlp = _Mlp(shape)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        hidden = hidden + self.attention(self.attention_norm(hidden))
        mixed: torch.Tensor = hidden + self.mlp(self.mlp_norm(hidden))
        return mixed


class _Attention(nn.Module):  # type: ignore[misc]  # torch has no types here
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.input = nn.Linear(shape.width, 3 * shape.width)
        self.output = nn.Linear(shape.width, shape.width)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        batch, sequence, width = hidden.shape
        query, key, value = (
            part.view(batch, sequence, self.heads, width // self.heads).transpose(1, 2)
            for part in self.input(hidden).split(width, dim=2)
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        result: torch.Tensor = self.output(mixed.transpose(1, 2).reshape(batch, sequence, width))
        return result


class _Mlp(nn.Module):  # type: ignore[misc]  # torch has no types here
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.input = nn.Linear(shape.width, 4 * shape.width)
        self.output = nn.Linear(4 * shape.width, shape.width)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.output(functional.gelu(self.input(hidden), approximate="tanh"))
        return result


def _initialize(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=_INITIAL_DEVIATION)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)
