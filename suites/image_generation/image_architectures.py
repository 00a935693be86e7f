"""Configurations of the parts of SDXL pipelines, as diffusers and transformers take them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = ["ARCHITECTURES", "Architecture"]

Config: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """What a pipeline is made of.

    Attributes:
        unet: Of `UNet2DConditionModel`.
        vae: Of `AutoencoderKL`.
        text_encoder: Of `CLIPTextModel`.
        text_encoder_2: Of `CLIPTextModelWithProjection`.
    """

    unet: Config
    vae: Config
    text_encoder: Config
    text_encoder_2: Config


_VOCABULARY = 49_408

# From the config.json files of stabilityai/stable-diffusion-xl-base-1.0; what equals the classes' defaults is
# left out. Parameters: UNet 2,567,463,684, VAE 83,653,863, text encoders 123,060,480 and 694,659,840.
_SDXL = Architecture(
    unet={
        "sample_size": 128,
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        "block_out_channels": (320, 640, 1280),
        "attention_head_dim": (5, 10, 20),
        "transformer_layers_per_block": (1, 2, 10),
        "cross_attention_dim": 2048,
        "use_linear_projection": True,
        "addition_embed_type": "text_time",
        "addition_time_embed_dim": 256,
        "projection_class_embeddings_input_dim": 2816,
    },
    vae={
        "sample_size": 1024,
        "down_block_types": ("DownEncoderBlock2D",) * 4,
        "up_block_types": ("UpDecoderBlock2D",) * 4,
        "block_out_channels": (128, 256, 512, 512),
        "layers_per_block": 2,
        "scaling_factor": 0.13025,
        "force_upcast": True,
    },
    text_encoder={
        "vocab_size": _VOCABULARY,
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "projection_dim": 768,
        "hidden_act": "quick_gelu",
    },
    text_encoder_2={
        "vocab_size": _VOCABULARY,
        "hidden_size": 1280,
        "intermediate_size": 5120,
        "num_hidden_layers": 32,
        "num_attention_heads": 20,
        "projection_dim": 1280,
        "hidden_act": "gelu",
    },
)

_TINY_TEXT = {
    "vocab_size": _VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "projection_dim": 32,
    "hidden_act": "gelu",
}
_TINY = Architecture(
    unet={
        "sample_size": 8,
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
        "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
        "block_out_channels": (32, 64),
        "layers_per_block": 1,
        "attention_head_dim": (2, 4),
        "transformer_layers_per_block": (1, 1),
        "cross_attention_dim": 64,
        "use_linear_projection": True,
        "addition_embed_type": "text_time",
        "addition_time_embed_dim": 8,
        "projection_class_embeddings_input_dim": 80,
    },
    vae={
        "sample_size": 16,
        "down_block_types": ("DownEncoderBlock2D",) * 2,
        "up_block_types": ("UpDecoderBlock2D",) * 2,
        "block_out_channels": (32, 32),
        "layers_per_block": 1,
        "scaling_factor": 0.13025,
        "force_upcast": True,
    },
    text_encoder=_TINY_TEXT,
    text_encoder_2=_TINY_TEXT,
)

ARCHITECTURES: Mapping[str, Architecture] = {"sdxl": _SDXL, "tiny-random": _TINY}
