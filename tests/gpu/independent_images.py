"""The same figures as suite image-generation's, by code that shares nothing with it: a check from outside.

Run on a GPU machine: `python tests/gpu/independent_images.py --batch 1 --compile`. It prints one JSON object
with the seconds of each image. No pipeline is used: the denoising loop is written out here, with modules of
diffusers and transformers of SDXL's sizes and random float16 weights. The VAE decodes in float32, as SDXL's
own does. A time is that of a batch from token ids to images in the host's memory, by a monotonic clock around
synchronised work.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any

import torch
from diffusers import AutoencoderKL, EulerDiscreteScheduler, UNet2DConditionModel
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

HALF = torch.float16


def text_config(width: int, layers: int, heads: int, activation: str) -> CLIPTextConfig:
    """Configuration of one of the two text encoders."""
    return CLIPTextConfig(
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        projection_dim=width,
        hidden_act=activation,
    )


class Parts:
    """The four modules, and the scheduler."""

    def __init__(self, device: str, *, compiled: bool) -> None:
        self.device = device
        torch.set_default_dtype(HALF)
        with torch.device(device):
            self.small = CLIPTextModel(text_config(768, 12, 12, "quick_gelu")).eval()
            self.large = CLIPTextModelWithProjection(text_config(1280, 32, 20, "gelu")).eval()
            unet = UNet2DConditionModel(
                sample_size=128,
                block_out_channels=(320, 640, 1280),
                down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
                up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
                transformer_layers_per_block=(1, 2, 10),
                attention_head_dim=(5, 10, 20),
                cross_attention_dim=2048,
                use_linear_projection=True,
                addition_embed_type="text_time",
                addition_time_embed_dim=256,
                projection_class_embeddings_input_dim=2816,
            )
            self.vae = AutoencoderKL(
                block_out_channels=(128, 256, 512, 512),
                down_block_types=("DownEncoderBlock2D",) * 4,
                up_block_types=("UpDecoderBlock2D",) * 4,
                layers_per_block=2,
                sample_size=1024,
                scaling_factor=0.13025,
            )
        torch.set_default_dtype(torch.float32)
        self.unet: Any = torch.compile(unet.eval()) if compiled else unet.eval()
        self.vae.eval()
        self.scheduler = EulerDiscreteScheduler(
            beta_start=0.00085,
            beta_end=0.012,
            beta_schedule="scaled_linear",
            timestep_spacing="leading",
            steps_offset=1,
        )

    def encode(self, batch: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return embeddings of an empty prompt and of one of 77 tokens for each image, and pooled ones."""
        ids = torch.randint(0, 49406, (batch, 77), device=self.device)
        ids[:, 0], ids[:, -1] = 49406, 49407
        halves, pooled = [], []
        for tokens in (torch.zeros_like(ids), ids):
            small = self.small(tokens, output_hidden_states=True).hidden_states[-2]
            large = self.large(tokens, output_hidden_states=True)
            halves.append(torch.cat([small, large.hidden_states[-2]], dim=-1))
            pooled.append(large.text_embeds)
        return torch.cat(halves), torch.cat(pooled)

    @torch.no_grad()
    def generate(self, batch: int, size: int, steps: int, guidance: float) -> torch.Tensor:
        """Return images of shape (batch, 3, size, size) on the host, values from 0 to 1."""
        hidden, pooled = self.encode(batch)
        ids = torch.tensor([[size, size, 0, 0, size, size]] * 2 * batch, device=self.device, dtype=HALF)
        self.scheduler.set_timesteps(steps, device=self.device)
        latents = torch.randn(batch, 4, size // 8, size // 8, device=self.device, dtype=HALF)
        latents = latents * self.scheduler.init_noise_sigma
        for step in self.scheduler.timesteps:
            both = self.scheduler.scale_model_input(torch.cat([latents, latents]), step)
            noise = self.unet(
                both,
                step,
                encoder_hidden_states=hidden,
                added_cond_kwargs={"text_embeds": pooled, "time_ids": ids},
                return_dict=False,
            )[0]
            without, with_text = noise.chunk(2)
            noise = without + guidance * (with_text - without)
            latents = self.scheduler.step(noise, step, latents, return_dict=False)[0]
        self.vae.to(torch.float32)
        images = self.vae.decode(latents.float() / 0.13025, return_dict=False)[0]
        self.vae.to(HALF)
        return (images / 2 + 0.5).clamp(0, 1).float().cpu()


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--guidance", type=float, default=5.0)
    parser.add_argument("--calls", type=int, default=3)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()

    torch.manual_seed(0)
    parts = Parts(options.device, compiled=options.compile)
    begin = time.perf_counter()
    for _ in range(2):
        parts.generate(options.batch, options.size, 2, options.guidance)
    warm = time.perf_counter() - begin
    seconds = []
    for _ in range(options.calls):
        begin = time.perf_counter()
        images = parts.generate(options.batch, options.size, options.steps, options.guidance)
        seconds.append((time.perf_counter() - begin) / options.batch)
    on_gpu = options.device == "cuda"
    print(
        json.dumps(
            {
                "torch": torch.__version__,
                "gpu": torch.cuda.get_device_name() if on_gpu else None,
                "batch": options.batch,
                "compiled": options.compile,
                "warm_up_seconds": warm,
                "seconds_per_image": seconds,
                "median": statistics.median(seconds),
                "images_per_second": 1 / statistics.median(seconds),
                "peak_bytes": torch.cuda.max_memory_allocated() if on_gpu else None,
                "image_deviation": float(images.std()),
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
