"""The figures of suite llm-serving, taken by code that shares nothing with it: a check from outside.

On a GPU machine with vLLM, `python tests/gpu/independent_llm.py` writes a Qwen2.5-7B config with a tokenizer
of its own, starts `vllm serve` with random weights and runs the bare `vllm bench serve` at concurrency 1, 8,
32 and 64, a fresh seed each. It prints one JSON object: output tokens a second by concurrency, completed
requests and prefix-cache hits.

For both on one server: `--write-model DIR` (and no more), `vllm serve DIR … --port 8000` by hand, then this
with `--base-url http://127.0.0.1:8000 --model DIR`, and the suite with
`--device cpu --set endpoint=http://127.0.0.1:8000 --set tokenizer=DIR`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

SWEEP = ((1, 16), (8, 64), (32, 192), (64, 320))
QWEN = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "max_position_embeddings": 32768,
    "rope_theta": 1000000.0,
    "rms_norm_eps": 1e-06,
    "vocab_size": 152064,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "eos_token_id": 0,
}
SMALL = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
    "vocab_size": 32000,
}


def write_model(folder: Path, *, small: bool) -> None:
    """A config, and a byte-level BPE tokenizer trained on words of random letters."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**QWEN, **(SMALL if small else {})}))
    letters = random.Random(7)
    words = {"".join(letters.choices("abcdefghijklmnopqrstuvwxyz", k=5)) for _ in range(30000)}
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=30000, special_tokens=["<eos>"], show_progress=False)
    tokenizer.train_from_iterator((f" {word}" for word in sorted(words) for _ in range(2)), trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<eos>", "pad_token": "<eos>"})
    )


@contextlib.contextmanager
def server(model: Path, port: int, more: list[str]):
    """Start `vllm serve` and yield its address; kill its whole session afterwards."""
    with tempfile.NamedTemporaryFile("w+", suffix=".log") as log:
        process = subprocess.Popen(
            [
                *("vllm", "serve", str(model), "--load-format", "dummy", "--port", str(port)),
                *("--host", "127.0.0.1", "--dtype", "bfloat16", *more),
            ],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            url = f"http://127.0.0.1:{port}"
            until = time.monotonic() + 900
            while not answers(f"{url}/health"):
                if process.poll() is not None or time.monotonic() > until:
                    raise SystemExit(Path(log.name).read_text()[-5000:])
                time.sleep(1)
            yield url
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def answers(url: str) -> bool:
    try:
        return urllib.request.urlopen(url, timeout=5).status == 200
    except OSError:
        return False


def prefix_hits(url: str) -> float:
    text = urllib.request.urlopen(f"{url}/metrics", timeout=10).read().decode()
    return sum(map(float, re.findall(r"^vllm:prefix_cache_hits_total\{.*\} (\S+)$", text, re.MULTILINE)))


def bench(url: str, model: str, name: str, concurrency: int, prompts: int, lengths: tuple[int, int]) -> dict:
    """One bare `vllm bench serve` with a seed that nobody has had."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [
                *("vllm", "bench", "serve", "--base-url", url, "--model", name, "--tokenizer", model),
                *("--dataset-name", "random", "--random-input-len", str(lengths[0])),
                *("--random-output-len", str(lengths[1]), "--ignore-eos", "--temperature", "0"),
                *("--num-prompts", str(prompts), "--max-concurrency", str(concurrency)),
                *("--seed", str(random.SystemRandom().randrange(2**31)), "--ready-check-timeout-sec", "0"),
                *("--save-result", "--result-dir", folder, "--result-filename", "r.json", "--disable-tqdm"),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        return json.loads((Path(folder) / "r.json").read_text())


def sweep(url: str, model: str, cells, lengths: tuple[int, int]) -> dict[str, dict[str, float]]:
    with urllib.request.urlopen(f"{url}/v1/models", timeout=10) as listed:
        name = json.load(listed)["data"][0]["id"]
    bench(url, model, name, cells[-1][0], cells[-1][0], lengths)  # warms up
    found = {}
    for concurrency, prompts in cells:
        before = prefix_hits(url)
        result = bench(url, model, name, concurrency, prompts, lengths)
        found[str(concurrency)] = {
            "output_tokens_per_second": result["total_output_tokens"] / result["duration"],
            "median_ttft_ms": result["median_ttft_ms"],
            "median_tpot_ms": result["median_tpot_ms"],
            "completed": result["completed"],
            "requested": prompts,
            "input_tokens": result["total_input_tokens"],
            "prefix_cache_hits": prefix_hits(url) - before,
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write-model", type=Path, help="write a model folder there, and stop")
    parser.add_argument(
        "--base-url", help="a server that runs already; --model is then its tokenizer's folder"
    )
    parser.add_argument("--model", type=Path)
    parser.add_argument("--port", type=int, default=8123)
    parser.add_argument("--small", action="store_true", help="a tiny model and a short sweep, for a CPU")
    arguments = parser.parse_args()
    if arguments.write_model:
        write_model(arguments.write_model, small=arguments.small)
        return
    cells = ((1, 2), (4, 8)) if arguments.small else SWEEP
    lengths = (128, 16) if arguments.small else (512, 256)
    with contextlib.ExitStack() as stack:
        model = arguments.model
        if model is None:
            model = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            write_model(model, small=arguments.small)
        more = ["--max-model-len", "1024", "--enforce-eager"] if arguments.small else []
        more = more or ["--max-model-len", "4096", "--gpu-memory-utilization", "0.90"]
        url = arguments.base_url or stack.enter_context(server(model, arguments.port, more))
        print(json.dumps(sweep(url, str(model), cells, lengths), indent=1))


if __name__ == "__main__":
    main()
