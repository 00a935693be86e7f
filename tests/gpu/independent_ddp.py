"""The one-GPU figures of suite ddp-training, taken by code that shares nothing with it: a check from outside.

Run on a GPU machine: `python tests/gpu/independent_ddp.py --model 124M`. It prints one JSON object:
parameters, tokens a second of 40 steps in a row after 10, the same where each step is waited for (which
leaves the GPU idle while the next one is prepared), the mean step, the peak memory.
The model is GPT-2 written anew, as functions over a table of tensors.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as f

SIZES = {"124M": (12, 768, 12), "355M": (24, 1024, 16)}
VOCABULARY, SEQUENCE, BATCH = 50257, 1024, 8


def weights(layers: int, width: int) -> dict[str, torch.Tensor]:
    """Every trainable tensor by name; qkv, mix, up, down are GPT-2's c_attn, c_proj, c_fc, c_proj."""
    shapes: dict[str, tuple[int, ...]] = {"wte": (VOCABULARY, width), "wpe": (SEQUENCE, width)}
    for layer in range(layers):
        for name, rows, columns in (("qkv", 3, 1), ("mix", 1, 1), ("up", 4, 1), ("down", 1, 4)):
            shapes[f"{layer}.{name}.w"] = (rows * width, columns * width)
            shapes[f"{layer}.{name}.b"] = (rows * width,)
    for norm in [f"{layer}.{name}" for layer in range(layers) for name in ("n1", "n2")] + ["n"]:
        shapes[f"{norm}.w"] = shapes[f"{norm}.b"] = (width,)
    return {
        name: torch.nn.Parameter(
            torch.randn(shape, device="cuda") * 0.02
            if len(shape) == 2
            else torch.full(shape, float(name.endswith(("n1.w", "n2.w", "n.w"))), device="cuda")
        )
        for name, shape in shapes.items()
    }


def loss_of(w: dict[str, torch.Tensor], tokens: torch.Tensor, layers: int, heads: int) -> torch.Tensor:
    """Mean cross-entropy of the next token; `tokens` is (batch, sequence + 1)."""

    def linear(x: torch.Tensor, name: str) -> torch.Tensor:
        return f.linear(x, w[f"{name}.w"], w[f"{name}.b"])

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        return f.layer_norm(x, x.shape[-1:], w[f"{name}.w"], w[f"{name}.b"])

    x = f.embedding(tokens[:, :-1], w["wte"]) + w["wpe"]
    for i in range(layers):
        qkv = linear(norm(x, f"{i}.n1"), f"{i}.qkv").unflatten(-1, (3, heads, -1))
        q, k, v = (part.transpose(1, 2) for part in qkv.unbind(2))
        mixed = f.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + linear(mixed.transpose(1, 2).flatten(2), f"{i}.mix")
        x = x + linear(f.gelu(linear(norm(x, f"{i}.n2"), f"{i}.up"), approximate="tanh"), f"{i}.down")
    logits = f.linear(norm(x, "n"), w["wte"])
    return f.cross_entropy(logits.view(-1, VOCABULARY), tokens[:, 1:].reshape(-1))


def main() -> None:
    """Train, and print what came out."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=SIZES, default="124M")
    parser.add_argument("--accumulation", type=int, default=1)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--warm-up", type=int, default=10)
    options = parser.parse_args()
    torch.manual_seed(0)
    layers, width, heads = SIZES[options.model]
    w = weights(layers, width)
    optimizer = torch.optim.AdamW(w.values(), lr=3e-4, fused=True)

    def step() -> None:
        for _ in range(options.accumulation):
            tokens = torch.randint(VOCABULARY, (BATCH, SEQUENCE + 1), device="cuda")
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = loss_of(w, tokens, layers, heads)
            (loss / options.accumulation).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(options.warm_up):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    begin = time.perf_counter()
    for _ in range(options.steps):
        step()
    torch.cuda.synchronize()
    in_a_row = time.perf_counter() - begin
    waits = []
    for _ in range(options.steps):
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        waits.append(time.perf_counter() - begin)
    tokens = BATCH * SEQUENCE * options.accumulation
    print(
        json.dumps(
            {
                "model": options.model,
                "accumulation": options.accumulation,
                "parameters": sum(weight.numel() for weight in w.values()),
                "tokens_per_second": tokens * options.steps / in_a_row,
                "tokens_per_second_waiting_after_each_step": tokens / statistics.median(waits),
                "step_ms": in_a_row / options.steps * 1e3,
                "peak_gib": torch.cuda.max_memory_allocated() / 2**30,
                "gpu": torch.cuda.get_device_name(),
                "torch": torch.__version__,
            }
        )
    )


if __name__ == "__main__":
    main()
