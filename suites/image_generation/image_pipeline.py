"""The pipeline: a folder in diffusers' format, or the same architecture with random weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from diffusers import AutoencoderKL, EulerDiscreteScheduler, StableDiffusionXLPipeline, UNet2DConditionModel
from tokenizers import pre_tokenizers
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection, CLIPTokenizer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from image_architectures import Architecture

__all__ = ["build_random_pipeline", "count_parameters", "load_pipeline"]

Pipeline: TypeAlias = Any  # diffusers is not there when types are checked

_LONGEST_PROMPT = 77
# As SDXL's scheduler_config.json has it.
_SCHEDULER = {
    "num_train_timesteps": 1000,
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "prediction_type": "epsilon",
    "timestep_spacing": "leading",
    "steps_offset": 1,
}


def build_random_pipeline(architecture: Architecture, *, device: str, dtype: torch.dtype) -> Pipeline:
    """Return a pipeline with random weights, each module initialised as its class does, from torch's seed.

    Modules are made on the device and in their type, so that no more memory is taken than they need.

    Args:
        architecture: Of its parts.
        device: "cuda" or "cpu".
        dtype: Of all weights.
    """
    return StableDiffusionXLPipeline(
        vae=_make(lambda: AutoencoderKL(**architecture.vae), device, dtype),
        text_encoder=_make(lambda: CLIPTextModel(_text_config(architecture.text_encoder)), device, dtype),
        text_encoder_2=_make(
            lambda: CLIPTextModelWithProjection(_text_config(architecture.text_encoder_2)), device, dtype
        ),
        tokenizer=_tokenizer(padding="<|endoftext|>"),
        tokenizer_2=_tokenizer(padding="!"),
        unet=_make(lambda: UNet2DConditionModel(**architecture.unet), device, dtype),
        scheduler=EulerDiscreteScheduler(**_SCHEDULER),
        add_watermarker=False,
    )


def load_pipeline(folder: Path, *, device: str, dtype: torch.dtype) -> Pipeline:
    """Return the SDXL pipeline of a folder; of two sets of weights the one named fp16 is taken.

    Raises:
        OSError: The folder does not hold such a pipeline.
        ValueError: It is not one of SDXL.
    """
    variant = "fp16" if any(folder.glob("unet/*.fp16.safetensors")) else None
    pipeline = StableDiffusionXLPipeline.from_pretrained(
        str(folder), dtype=dtype, variant=variant, local_files_only=True, add_watermarker=False
    )
    return pipeline.to(device)


def count_parameters(pipeline: Pipeline) -> dict[str, int]:
    """Return the number of parameters of each part of a pipeline."""
    return {
        name: sum(parameter.numel() for parameter in part.parameters())
        for name, part in pipeline.components.items()
        if isinstance(part, torch.nn.Module)
    }


def _make(build: Callable[[], Any], device: str, dtype: torch.dtype) -> Any:  # noqa: ANN401
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            return build().eval()
    finally:
        torch.set_default_dtype(before)


def _text_config(sizes: Any) -> CLIPTextConfig:  # noqa: ANN401
    last = sizes["vocab_size"] - 1
    return CLIPTextConfig(
        **sizes, max_position_embeddings=_LONGEST_PROMPT, bos_token_id=last - 1, eos_token_id=last
    )


def _tokenizer(*, padding: str) -> CLIPTokenizer:
    """Return a byte-level tokenizer with CLIP's number of token ids, which knows no words of any language.

    Prompts are padded to one length anyway, so which ids they become costs the same.
    """
    characters = sorted(pre_tokenizers.ByteLevel.alphabet())
    known = [*characters, *(f"{character}</w>" for character in characters)]
    invented = [f"w{number}</w>" for number in range(49_406 - len(known))]
    tokens = [*known, *invented, "<|startoftext|>", "<|endoftext|>"]
    return CLIPTokenizer(
        vocab={token: number for number, token in enumerate(tokens)},
        merges=[],
        pad_token=padding,
        model_max_length=_LONGEST_PROMPT,
    )
