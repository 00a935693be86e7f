"""The same figures as suite speech-to-text's, by code that shares nothing with it: a check from outside.

Run on a GPU machine with faster-whisper and espeak-ng: `python tests/gpu/independent_speech.py FOLDER`. It
leaves FOLDER/speech.wav and its text, and prints one JSON object. Then the suite on the same speech:

    python -m rentbench.harness speech-to-text --preset standard --set data=FOLDER

- The model has the sizes of large-v3-turbo and random weights, written straight into CTranslate2's format.
  Its output rows for everything but text are zero, so that a window ends only at the limit of tokens.
- A pass is `list(BatchedInferencePipeline.transcribe(...))` between two readings of the clock.

Compare `real_time_factor` of the same batch size.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import tokenizers
import torch  # noqa: F401 (its wheels bring the cuBLAS that CTranslate2 looks for)
from ctranslate2.specs import WhisperSpec
from faster_whisper import BatchedInferencePipeline, WhisperModel, decode_audio
from faster_whisper.tokenizer import _LANGUAGE_CODES

TEXT = 50257
TIMES = 1501
PARAGRAPH = (
    "The harbor was still dark when the first boats came back. Men carried baskets of fish up the "
    "narrow stairs, and the smell of salt and coffee filled the square. A girl in a green coat counted "
    "the boats aloud. One was missing, but nobody seemed worried. Old ships are slow, said the baker, "
    "and opened his shutters. By noon the market was full of people, and the price of everything had "
    "gone up. In the afternoon a warm rain began to fall, and the stones of the street shone like "
    "glass. The missing boat came home in the evening with a broken mast, and the whole town went down "
    "to the water to meet it. "
)


def write_speech(folder: Path, minutes: float) -> None:
    """Let espeak-ng read the paragraph aloud until the minutes are full; a minute holds about 160 words."""
    wav, text = folder / "speech.wav", folder / "speech.txt"
    if not wav.exists():
        times = max(1, round(minutes * 160 / len(PARAGRAPH.split())))
        text.write_text(PARAGRAPH * times)
        subprocess.run(["espeak-ng", "-v", "en-us", "-s", "160", "-f", text, "-w", wav], check=True)


def fill(layer: Any, random: np.random.Generator, shapes: dict[str, tuple[int, ...]]) -> None:
    """Set weights by dotted name: gamma to one, beta and bias to zero, others normal with deviation 0.02."""
    for name, shape in shapes.items():
        *path, last = name.split(".")
        target = layer
        for step in path:
            target = target[int(step)] if step.isdigit() else getattr(target, step)
        if last == "gamma":
            value = np.ones(shape, np.float32)
        elif last in {"beta", "bias"}:
            value = np.zeros(shape, np.float32)
        else:
            value = random.standard_normal(shape, np.float32) * np.float32(0.02)
        setattr(target, last, value)


def norm(name: str, width: int) -> dict[str, tuple[int, ...]]:
    """Shapes of a layer norm."""
    return {f"{name}.gamma": (width,), f"{name}.beta": (width,)}


def linear(name: str, rows: int, columns: int) -> dict[str, tuple[int, ...]]:
    """Shapes of a linear layer."""
    return {f"{name}.weight": (rows, columns), f"{name}.bias": (rows,)}


def block(width: int, inner: int, *, cross: bool) -> dict[str, tuple[int, ...]]:
    """Shapes of a transformer layer; the fused query, key and value are three times as wide."""
    shapes = {
        **norm("self_attention.layer_norm", width),
        **linear("self_attention.linear.0", 3 * width, width),
        **linear("self_attention.linear.1", width, width),
        **norm("ffn.layer_norm", width),
        **linear("ffn.linear_0", inner, width),
        **linear("ffn.linear_1", width, inner),
    }
    if cross:
        shapes |= {
            **norm("attention.layer_norm", width),
            **linear("attention.linear.0", width, width),
            **linear("attention.linear.1", 2 * width, width),
            **linear("attention.linear.2", width, width),
        }
    return shapes


def write_model(folder: Path, options: argparse.Namespace) -> None:
    """Write a Whisper with random weights and a tokenizer with Whisper's ids."""
    special = ["<|endoftext|>", "<|startoftranscript|>", *(f"<|{code}|>" for code in _LANGUAGE_CODES)]
    special += [f"<|{name}|>" for name in ("translate", "transcribe", "startoflm", "startofprev")]
    special += ["<|nospeech|>", "<|notimestamps|>"]
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    text = [*alphabet, *(f"x{number}" for number in range(TEXT - len(alphabet) - 1)), ""]
    times = [f"<|{step * 0.02:.2f}|>" for step in range(TIMES)]
    vocabulary = text + special + times

    random = np.random.default_rng(7)
    width, inner, bands = options.width, 4 * options.width, 128
    spec = WhisperSpec(options.encoder_layers, options.heads, options.decoder_layers, options.heads)
    fill(
        spec.encoder,
        random,
        {
            "conv1.weight": (width, bands, 3),
            "conv1.bias": (width,),
            "conv2.weight": (width, width, 3),
            "conv2.bias": (width,),
            "position_encodings.encodings": (1500, width),
            **norm("layer_norm", width),
        },
    )
    fill(
        spec.decoder,
        random,
        {
            "embeddings.weight": (len(vocabulary), width),
            "projection.weight": (len(vocabulary), width),
            "position_encodings.encodings": (448, width),
            **norm("layer_norm", width),
        },
    )
    spec.decoder.projection.weight[TEXT:] = 0
    for layer in spec.encoder.layer:
        fill(layer, random, block(width, inner, cross=False))
    for layer in spec.decoder.layer:
        fill(layer, random, block(width, inner, cross=True))
    spec.register_vocabulary(vocabulary)
    spec.config.lang_ids = list(range(TEXT + 2, TEXT + 2 + len(_LANGUAGE_CODES)))
    spec.config.suppress_ids = spec.config.suppress_ids_begin = []
    spec.config.alignment_heads = [(0, 0)]
    spec.validate()
    spec.optimize(quantization="float16")
    spec.save(str(folder))

    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.BPE(vocab={token: number for number, token in enumerate(text)}, merges=[])
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(special)
    tokenizer.add_tokens(times)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "preprocessor_config.json").write_text(json.dumps({"feature_size": bands}))


def one_pass(
    pipeline: BatchedInferencePipeline, audio: np.ndarray, options: argparse.Namespace, batch: int
) -> dict:
    """Transcribe once, and return seconds and counts."""
    begin = time.perf_counter()
    segments, _ = pipeline.transcribe(
        audio,
        language="en",
        batch_size=batch,
        beam_size=options.beam,
        # The limit counts the four tokens of the prompt, and decoding ends at half of it.
        max_new_tokens=2 * options.tokens - 4,
    )
    prepared = time.perf_counter()
    segments = list(segments)
    seconds = time.perf_counter() - begin
    return {
        "seconds": seconds,
        "preparation_seconds": prepared - begin,
        "windows": len(segments),
        "tokens": sum(len(segment.tokens) for segment in segments),
        "real_time_factor": len(audio) / 16_000 / seconds,
    }


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 16, 24])
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--compute-type", default="float16")
    parser.add_argument("--encoder-layers", type=int, default=32)
    parser.add_argument("--decoder-layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=20)
    parser.add_argument("--width", type=int, default=1280)
    options = parser.parse_args()

    options.folder.mkdir(parents=True, exist_ok=True)
    write_speech(options.folder, options.minutes)
    audio = decode_audio(str(options.folder / "speech.wav"))
    with tempfile.TemporaryDirectory() as folder:
        write_model(Path(folder), options)
        model = WhisperModel(folder, device=options.device, compute_type=options.compute_type)
    pipeline = BatchedInferencePipeline(model)
    cases = {}
    for batch in options.batch:
        one_pass(pipeline, audio[: 40 * batch * 16_000], options, batch)
        cases[batch] = [one_pass(pipeline, audio, options, batch) for _ in range(options.passes)]
    print(
        json.dumps(
            {
                "ctranslate2": ctranslate2.__version__,
                "compute_type": model.model.compute_type,
                "device": model.model.device,
                "audio_seconds": len(audio) / 16_000,
                "batch": cases,
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
