"""The same figures as suite finetune's, by code that shares nothing with it: a check from outside.

Run on a GPU machine: `python tests/gpu/independent_finetune.py --method lora --micro-batch 4`. It trains
Qwen2.5-1.5B with random weights for `--steps` steps of 16 examples (250: the whole epoch), and prints one
JSON line: tokens/s without padding, by the host's clock over all steps; peak memory of torch's allocator;
trainable parameters. Lengths are those that suites/finetune/README.md describes. `--tiny` is for a try
without a GPU.

QLoRA takes transformers' own way: the random model is saved to a temporary folder (3 GB) and read in 4 bits.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import tempfile
import time

import peft
import torch
import transformers

TOTAL, COUNT, LONGEST = 753_486, 4000, 512


def lengths() -> list[int]:
    """Quantiles of a log-normal between 16 and 512, made to have the published total."""
    normal = statistics.NormalDist()
    scores = [normal.inv_cdf((number + 0.5) / COUNT) for number in range(COUNT)]
    best: list[int] = []
    low, high = 1.0, 10.0
    while high - low > 1e-12:
        mu = (low + high) / 2
        made = [min(LONGEST, max(16, round(math.exp(mu + 0.7 * score)))) for score in scores]
        if sum(made) > TOTAL:
            high = mu
        else:
            low, best = mu, made
    for number in range(TOTAL - sum(best)):
        best[number] += 1
    random.Random(7).shuffle(best)
    return best


def build(method: str, device: str, *, tiny: bool) -> torch.nn.Module:
    """The model with what the method trains."""
    config = transformers.Qwen2Config(
        vocab_size=512 if tiny else 151_936,
        hidden_size=64 if tiny else 1536,
        intermediate_size=128 if tiny else 8960,
        num_hidden_layers=2 if tiny else 28,
        num_attention_heads=4 if tiny else 12,
        num_key_value_heads=2,
        tie_word_embeddings=True,
        use_cache=False,
        attn_implementation="sdpa",
    )
    torch.set_default_dtype(torch.float32 if method == "full" else torch.bfloat16)
    with torch.device(device):
        model = transformers.Qwen2ForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    if method == "full":
        return model
    if method == "qlora":
        four_bits = transformers.BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16
        )
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            del model
            model = transformers.AutoModelForCausalLM.from_pretrained(
                folder, quantization_config=four_bits, dtype=torch.bfloat16, device_map={"": device}
            )
        model.config.use_cache = False
        model = peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    projections = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    adapters = peft.LoraConfig(r=16, lora_alpha=32, target_modules=projections, task_type="CAUSAL_LM")
    return peft.get_peft_model(model, adapters)


def main() -> None:
    """Train, and print one JSON line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--method", choices=("full", "lora", "qlora"), required=True)
    parser.add_argument("--micro-batch", type=int, choices=(1, 2, 4, 8, 16), default=4)
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = build(options.method, device, tiny=options.tiny).train()
    trained = [one for one in model.parameters() if one.requires_grad]
    rate = 1e-5 if options.method == "full" else 2e-4
    optimizer = torch.optim.AdamW(trained, lr=rate, weight_decay=0, fused=True)
    schedule = transformers.get_cosine_schedule_with_warmup(optimizer, 0, 250)
    examples = lengths()[: 16 * options.steps]
    if options.tiny:
        examples = [min(length, 64) for length in examples]
    vocabulary = model.config.vocab_size
    micro_batches = []
    for first in range(0, len(examples), options.micro_batch):
        sizes = torch.tensor(examples[first : first + options.micro_batch])
        mask = torch.arange(int(sizes.max()))[None, :] < sizes[:, None]
        ids = torch.randint(vocabulary, mask.shape) * mask
        labels = torch.where(mask, ids, -100)
        micro_batches.append((ids, mask.long(), labels))
    loaded = torch.cuda.max_memory_allocated() if device == "cuda" else None

    accumulation = 16 // options.micro_batch
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()
    begin = time.perf_counter()
    for number, (ids, mask, labels) in enumerate(micro_batches, start=1):
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = model(
                input_ids=ids.to(device), attention_mask=mask.to(device), labels=labels.to(device)
            ).loss
        (loss / accumulation).backward()
        if number % accumulation == 0:
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    last = loss.item()
    seconds = time.perf_counter() - begin
    assert math.isfinite(last)
    trained_peak = torch.cuda.max_memory_allocated() if device == "cuda" else None
    print(
        json.dumps(
            {
                "method": options.method,
                "micro_batch": options.micro_batch,
                "steps": options.steps,
                "gpu": torch.cuda.get_device_name() if device == "cuda" else None,
                "torch": torch.__version__,
                "transformers": transformers.__version__,
                "peft": peft.__version__,
                "trainable": sum(one.numel() for one in trained),
                "tokens": sum(examples),
                "seconds": seconds,
                "tokens_per_s": sum(examples) / seconds,
                "peak_gib_training": trained_peak / 2**30 if trained_peak else None,
                "peak_gib_loading": loaded / 2**30 if loaded else None,
            }
        )
    )


if __name__ == "__main__":
    main()
