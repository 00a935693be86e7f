"""Shapes of published sentence encoders, so that one of the same size can be built without a download."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ARCHITECTURES", "Architecture"]


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """One encoder.

    Attributes:
        family: transformers' name of the network.
        config: What transformers' config of that family is given. `initializer_range` is wider than the
            published 0.02, with which random vectors would differ by little more than rounding does, and no
            wider than half precision bears: the larger the network, the sharper its attention becomes.
        max_tokens: Longest input that the published model takes, special tokens included.
    """

    family: Literal["bert", "xlm-roberta"]
    config: Mapping[str, int | float]
    max_tokens: int


_BERT: Final = {"vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2}
# Positions begin behind the padding's id, 1: two more than tokens.
_XLM_ROBERTA: Final = {"vocab_size": 250002, "type_vocab_size": 1, "layer_norm_eps": 1e-5}

ARCHITECTURES: Final[Mapping[str, Architecture]] = {
    # BAAI/bge-m3, 567,754,752 parameters: XLM-RoBERTa large with longer positions.
    "bge-m3": Architecture(
        family="xlm-roberta",
        config={
            **_XLM_ROBERTA,
            "hidden_size": 1024,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "intermediate_size": 4096,
            "max_position_embeddings": 8194,
            "initializer_range": 0.05,
        },
        max_tokens=8192,
    ),
    # BAAI/bge-small-en-v1.5, 33,360,000 parameters.
    "bge-small": Architecture(
        family="bert",
        config={
            **_BERT,
            "hidden_size": 384,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
            "intermediate_size": 1536,
            "initializer_range": 0.08,
        },
        max_tokens=512,
    ),
    # Nobody's: for smoke, where a path is proved and nothing is published.
    "tiny-xlm-roberta": Architecture(
        family="xlm-roberta",
        config={
            **_XLM_ROBERTA,
            "vocab_size": 8192,
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 128,
            "initializer_range": 0.2,
            "max_position_embeddings": 514,
        },
        max_tokens=512,
    ),
    "tiny-bert": Architecture(
        family="bert",
        config={
            **_BERT,
            "vocab_size": 8192,
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 128,
            "initializer_range": 0.2,
        },
        max_tokens=512,
    ),
}
