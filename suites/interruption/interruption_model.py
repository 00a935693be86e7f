"""A decoder like GPT-2 in plain PyTorch, and the random tokens that it trains on."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy, scaled_dot_product_attention
from torch.utils.data import Dataset

__all__ = ["SIZES", "Decoder", "RandomTokens", "Size"]

_DROPOUT = 0.1  # so that the random generators matter
_EXAMPLES = 8192  # an epoch


@dataclass(frozen=True, kw_only=True)
class Size:
    """Shape of a model and of its batches; embeddings are tied."""

    layers: int
    width: int
    heads: int
    vocabulary: int
    sequence: int
    micro_batch: int

    @property
    def parameters(self) -> int:
        """Number of trainable values: 12·L·w² + 13·L·w + (V + S + 2)·w, and 4 bytes each in float32."""
        per_layer = 12 * self.width**2 + 13 * self.width
        return self.layers * per_layer + (self.vocabulary + self.sequence + 2) * self.width

    @property
    def checkpoint_bytes(self) -> int:
        """Size of a checkpoint, about: weights and both moments of AdamW in float32."""
        return 12 * self.parameters


SIZES = {
    "tiny": Size(layers=2, width=32, heads=2, vocabulary=128, sequence=16, micro_batch=4),
    "124M": Size(layers=12, width=768, heads=12, vocabulary=50257, sequence=1024, micro_batch=8),
    "355M": Size(layers=24, width=1024, heads=16, vocabulary=50257, sequence=1024, micro_batch=8),
}


class Decoder(nn.Module):  # type: ignore[misc]  # torch is Any to the type checker
    """Token and position embeddings, pre-norm blocks, and a head that shares the token embeddings."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size.vocabulary, size.width)
        self.positions = nn.Parameter(torch.empty(size.sequence, size.width))
        self.blocks = nn.ModuleList(_Block(size.width, size.heads) for _ in range(size.layers))
        self.norm = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, size.vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        nn.init.normal_(self.tokens.weight, std=0.02)
        nn.init.normal_(self.positions, std=0.02)

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the mean loss of token ids [batch, sequence] that should be followed by `targets`."""
        hidden = self.tokens(inputs) + self.positions[: inputs.shape[1]]
        for block in self.blocks:
            hidden = block(hidden)
        logits = self.head(self.norm(hidden))
        return cross_entropy(logits.flatten(0, 1), targets.flatten())


class _Block(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention = nn.LayerNorm(width)
        self.project = nn.Linear(width, 3 * width)
        self.merge = nn.Linear(width, width)
        self.norm_feed = nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(_DROPOUT)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        batch, length, width = hidden.shape
        shape = (batch, length, self.heads, width // self.heads)
        projected = self.project(self.norm_attention(hidden)).chunk(3, dim=-1)
        query, key, value = (part.view(shape).transpose(1, 2) for part in projected)
        # Only these two have a backward pass that gives the same bits twice.
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
            attended = scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.dropout(self.merge(attended.transpose(1, 2).reshape(batch, length, width)))
        return hidden + self.dropout(self.feed(self.norm_feed(hidden)))


class RandomTokens(Dataset[torch.Tensor]):  # type: ignore[misc]
    """Uniformly random token ids; an example follows from its index and the seed alone."""

    def __init__(self, size: Size, seed: int) -> None:
        self._size = size
        self._seed = seed

    def __len__(self) -> int:
        """Return the number of examples of an epoch."""
        return _EXAMPLES

    def __getitem__(self, index: int) -> torch.Tensor:
        """Return one token more than a sequence: inputs and targets overlap."""
        generator = torch.Generator().manual_seed(self._seed * _EXAMPLES + index)
        return torch.randint(self._size.vocabulary, (self._size.sequence + 1,), generator=generator)
