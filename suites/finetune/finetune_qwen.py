"""Architectures for random weights: Qwen2.5-1.5B in full, and a tiny one of the same family."""

from __future__ import annotations

from typing import Any

__all__ = ["ARCHITECTURES"]

# The published config.json of Qwen/Qwen2.5-1.5B-Instruct, as far as it shapes the model.
_QWEN_1_5B: dict[str, Any] = {
    "hidden_size": 1536,
    "intermediate_size": 8960,
    "num_hidden_layers": 28,
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
    "use_sliding_window": False,
}

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "qwen2.5-1.5b": _QWEN_1_5B,
    "tiny": {
        **_QWEN_1_5B,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": 512,
        "max_position_embeddings": 512,
    },
}
