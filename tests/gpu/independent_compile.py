"""The same figures as suite compile-training's, by code that shares nothing with it: a check from outside.

Run on a GPU machine: `python tests/gpu/independent_compile.py`. It runs itself once a setup, and prints
one JSON line a setup: tokens/s of 20 steps in a row by the host's clock; the same where each step is waited
for, which leaves the GPU idle while the next one is prepared; the first step's seconds; peak memory of the
whole run, and of the 20 steps alone, in bytes by torch's allocator.

`--setup compile,sdpa` runs one setup in this process. `--tiny` is for a try without a GPU.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

SETUPS = ("eager,sdpa", "compile,sdpa", "eager,eager", "compile,eager")
VOCABULARY = 32000


def measure(mode: str, attention: str, *, tiny: bool) -> dict[str, object]:
    """Train for 25 steps and return the figures."""
    import torch
    import transformers

    device = "cuda" if torch.cuda.is_available() else "cpu"
    width, layers, heads, batch, length = (64, 1, 4, 2, 32) if tiny else (1024, 24, 16, 4, 2048)
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        model = transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                hidden_size=width,
                num_hidden_layers=layers,
                num_attention_heads=heads,
                intermediate_size=4 * width,
                vocab_size=VOCABULARY,
                use_cache=False,
                attn_implementation=attention,
            )
        )
    torch.set_default_dtype(torch.float32)
    parameters = sum(one.numel() for one in model.parameters())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    forward = torch.compile(model) if mode == "compile" else model
    tokens = torch.randint(VOCABULARY, (batch, length), device=device)

    cuda = device == "cuda"

    def step() -> torch.Tensor:
        loss = forward(tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    def waited(steps: int) -> float:
        """Return the seconds of some steps in a row, with one wait for the GPU at the end."""
        begin = time.perf_counter()
        for _ in range(steps):
            last = step()
        assert math.isfinite(last.item())
        return time.perf_counter() - begin

    first = waited(1)
    waited(4)
    whole = torch.cuda.max_memory_allocated() if cuda else None
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    seconds = waited(20)
    waits = [waited(1) for _ in range(20)]
    steps_alone = torch.cuda.max_memory_allocated() if cuda else None
    return {
        "setup": f"{mode},{attention}",
        "gpu": torch.cuda.get_device_name() if cuda else None,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "parameters": parameters,
        "first_step_s": first,
        "tokens_per_s": batch * length * 20 / seconds,
        "tokens_per_s_waiting_after_each_step": batch * length / statistics.fmean(waits),
        "peak_bytes": max(whole, steps_alone) if cuda else None,
        "peak_bytes_of_the_steps": steps_alone,
    }


def main() -> None:
    """Run one setup here, or each in a process of its own."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--setup", choices=SETUPS, action="append")
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    setups = options.setup or SETUPS
    if len(setups) == 1:
        mode, attention = setups[0].split(",")
        print(json.dumps(measure(mode, attention, tiny=options.tiny)))
        return
    for setup in setups:
        with tempfile.TemporaryDirectory() as cache:  # every compilation begins from nothing
            subprocess.run(
                [sys.executable, __file__, "--setup", setup, *(["--tiny"] if options.tiny else [])],
                env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache},
                check=False,
            )


if __name__ == "__main__":
    main()
