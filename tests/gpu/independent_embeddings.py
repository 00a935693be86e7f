"""The figures of suites embeddings-corpus and embeddings-passages, by code that shares nothing with them.

Run on a GPU machine: `python tests/gpu/independent_embeddings.py`. It prints one JSON line a figure:

- `passages`: 4,096 passages of 128 tokens through a BERT of bge-small's size, by batch size; passages/s and
  tokens/s, by the median of several passes;
- `corpus`: texts of as many tokens as `--chunks FILE` says (chunks.csv beside a result of embeddings-corpus),
  twenty times over, through an XLM-RoBERTa of bge-m3's size; tokens/s of real tokens.

Each figure is taken twice: `library` calls sentence-transformers by itself; `plain` is a loop around the
network with nothing but transformers: sorted by length, tokenised, computed, normalised, and copied to the
host batch by batch. Weights are random, in half precision on a GPU.
`--tiny` is for a try without one.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

if TYPE_CHECKING:
    from collections.abc import Callable

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ALPHABET = "abcdefghijklmnop"


def words_of(letters: int) -> list[str]:
    """Return 4,096 different words of that many letters."""
    draw = random.Random(5)
    words: set[str] = set()
    while len(words) < 4096:
        words.add("".join(draw.choices(ALPHABET, k=letters)))
    return sorted(words)


def bert_tokenizer(words: list[str]) -> transformers.PreTrainedTokenizerFast:
    """Return a WordPiece tokenizer for which each word is one token."""
    entries = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words]
    inner = Tokenizer(
        models.WordPiece(vocab={entry: number for number, entry in enumerate(entries)}, unk_token="[UNK]")
    )
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        model_max_length=512,
    )


def roberta_tokenizer(words: list[str]) -> transformers.PreTrainedTokenizerFast:
    """Return a Unigram tokenizer for which each word is one token."""
    entries = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -10.0)]
    entries += [(letter, -10.0) for letter in ALPHABET] + [(f"▁{word}", -5.0) for word in words]
    inner = Tokenizer(models.Unigram(entries, unk_id=3))
    inner.pre_tokenizer = pre_tokenizers.Metaspace()
    inner.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        unk_token="<unk>",
        cls_token="<s>",
        sep_token="</s>",
        model_input_names=["input_ids", "attention_mask"],
        model_max_length=512,
    )


def network(family: str, *, tiny: bool) -> Any:
    """Return a network of the published size, or a tiny one, with random weights on the device."""
    width, layers, heads = (64, 2, 4) if tiny else (1024, 24, 16) if family == "xlm" else (384, 12, 12)
    shape = {
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": 4 * width,
    }
    if family == "xlm":
        config: Any = transformers.XLMRobertaConfig(
            vocab_size=8192 if tiny else 250002,
            type_vocab_size=1,
            max_position_embeddings=8194,
            initializer_range=0.05,
            pad_token_id=1,
            bos_token_id=0,
            eos_token_id=2,
            **shape,
        )
    else:
        config = transformers.BertConfig(initializer_range=0.08, **shape)
    torch.manual_seed(0)
    with torch.device(DEVICE):
        made = transformers.AutoModel.from_config(config).eval()
    return made.half() if DEVICE == "cuda" else made


def plain(net: Any, tokenizer: Any, limit: int) -> Callable[[list[str], int], torch.Tensor]:
    """Return a loop around the network that turns texts into vectors."""

    @torch.inference_mode()
    def encode(texts: list[str], batch_size: int) -> torch.Tensor:
        order = sorted(range(len(texts)), key=lambda index: -len(texts[index]))
        vectors: list[torch.Tensor] = []
        for start in range(0, len(order), batch_size):
            batch = [texts[index] for index in order[start : start + batch_size]]
            inputs = tokenizer(batch, padding=True, truncation=True, max_length=limit, return_tensors="pt")
            hidden = net(**inputs.to(DEVICE)).last_hidden_state[:, 0]
            vectors.append(torch.nn.functional.normalize(hidden, dim=1).cpu())
        return torch.cat(vectors)

    return encode


def library(net: Any, tokenizer: Any, limit: int) -> Callable[[list[str], int], Any]:
    """Return sentence-transformers' encode on the same network, saved to a folder and loaded from there."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    with tempfile.TemporaryDirectory() as folder:
        net.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        module = Transformer(folder, max_seq_length=limit, model_kwargs={"dtype": net.dtype})
    pooling = Pooling(net.config.hidden_size, pooling_mode="cls")
    model = SentenceTransformer(modules=[module, pooling], device=DEVICE)

    def encode(texts: list[str], batch_size: int) -> Any:
        return model.encode(texts, batch_size=batch_size, normalize_embeddings=True, show_progress_bar=False)

    return encode


def seconds_of(call: Callable[[], object], at_least: float) -> float:
    """Return the median seconds of a call, after one that is not counted."""
    call()
    times: list[float] = []
    while sum(times) < at_least:
        begin = time.perf_counter()
        call()
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def say(**figures: object) -> None:
    """Print a line."""
    print(json.dumps(figures), flush=True)


def measure_passages(batches: list[int], *, tiny: bool) -> None:
    """Print passages/s of 128-token passages."""
    words, draw = words_of(5), random.Random(1)
    count = 64 if tiny else 4096
    texts = [" ".join(draw.choices(words, k=126)) for _ in range(count)]
    net, tokenizer = network("bert", tiny=tiny), bert_tokenizer(words)
    assert {len(ids) for ids in tokenizer(texts)["input_ids"]} == {128}
    for make in (library, plain):
        encode = make(net, tokenizer, 128)
        for batch in batches:
            rate = count / seconds_of(lambda size=batch, run=encode: run(texts, size), 0.1 if tiny else 2)
            say(
                figure="passages", by=make.__name__, batch=batch, passages_per_s=rate, tokens_per_s=128 * rate
            )


def measure_corpus(counts: list[int], batches: list[int], *, tiny: bool) -> None:
    """Print tokens/s of texts with these token counts, special tokens included, cut at 512."""
    words, draw = words_of(4), random.Random(1)
    passes = 1 if tiny else 20
    texts = [" ".join(draw.choices(words, k=max(1, count - 2))) for count in counts] * passes
    seen = sum(min(max(3, count), 512) for count in counts) * passes
    net, tokenizer = network("xlm", tiny=tiny), roberta_tokenizer(words)
    assert sum(len(ids) for ids in tokenizer(texts, truncation=True, max_length=512)["input_ids"]) == seen
    for make in (library, plain):
        encode = make(net, tokenizer, 512)
        encode(texts[:256], 64)
        for batch in batches:
            begin = time.perf_counter()
            encode(texts, batch)
            if DEVICE == "cuda":
                torch.cuda.synchronize()
            say(
                figure="corpus",
                by=make.__name__,
                batch=batch,
                tokens=seen,
                tokens_per_s=seen / (time.perf_counter() - begin),
            )


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--what", choices=["passages", "corpus", "both"], default="both")
    parser.add_argument("--chunks", type=Path, help="chunks.csv of a result, for the corpus's token counts")
    parser.add_argument(
        "--batches", type=int, nargs="+", help="default: those of the suites' standard presets"
    )
    parser.add_argument("--tiny", action="store_true")
    asked = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if asked.what != "corpus":
        measure_passages(asked.batches or [16, 64, 128, 256, 512, 1024], tiny=asked.tiny)
    if asked.what != "passages":
        if asked.chunks is None:
            parser.error("the corpus needs --chunks")
        rows = csv.DictReader(asked.chunks.read_text().splitlines())
        counts = [int(row["tokens"]) for row in rows]
        measure_corpus(counts, asked.batches or [16, 64, 128], tiny=asked.tiny)


if __name__ == "__main__":
    main()
