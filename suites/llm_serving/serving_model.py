"""A model folder for `--load-format dummy`: a full-size architecture, and a tokenizer made on the spot."""

from __future__ import annotations

import json
from itertools import islice, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ARCHITECTURES", "tokenizer_document", "write_random_model"]

ARCHITECTURES: Final = Path(__file__).parent / "architectures"

_END: Final = "<|end|>"
_SPACE: Final = "Ġ"  # how byte-level BPE writes a space
_CONSONANTS: Final = "bcdfghjklmnpqrstvwxyz"
_VOWELS: Final = "aeiou"


def write_random_model(architecture: str, folder: Path) -> None:
    """Write config and tokenizer of a model whose weights the server draws at random.

    Args:
        architecture: Name of a file in `ARCHITECTURES`, without `.json`.
        folder: Where to; made if need be.

    Raises:
        OSError: The architecture is not there, or the folder cannot be written.
    """
    config = json.loads((ARCHITECTURES / f"{architecture}.json").read_text())
    folder.mkdir(parents=True, exist_ok=True)
    documents = {
        "config.json": config,
        "generation_config.json": {"bos_token_id": 0, "eos_token_id": 0},
        "tokenizer.json": tokenizer_document(config["vocab_size"]),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": _END,
            "eos_token": _END,
            "pad_token": _END,
            "clean_up_tokenization_spaces": False,
            "model_max_length": config["max_position_embeddings"],
        },
    }
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document, ensure_ascii=False))


def tokenizer_document(size: int) -> dict[str, Any]:
    """Return a byte-level BPE tokenizer of exactly `size` tokens, in the form of `tokenizer.json`.

    Its tokens are words such as " balibo": a space and up to three syllables of a consonant and a vowel, so
    that only one way of merging exists. Text made of them is read back as the same tokens, which is what the
    load client needs for prompts of an exact length. Every id has a text, and so has every output.

    Raises:
        ValueError: There are not so many such words, or fewer than the words are made of.
    """
    letters = [_SPACE, *_CONSONANTS, *_VOWELS]
    syllables = ["".join(pair) for pair in product(_CONSONANTS, _VOWELS)]
    merges = [(syllable[0], syllable[1]) for syllable in syllables]
    tokens = [_END, *letters, *syllables]
    words = list(islice(_words(syllables), max(0, size - len(tokens))))
    merges += words
    tokens += [before + after for before, after in words]
    if len(tokens) != size:
        msg = f"a vocabulary of {size} tokens cannot be made of three syllables"
        raise ValueError(msg)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": 0,
                "content": _END,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
        ],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": True,
        },
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": [list(merge) for merge in merges],
        },
    }


def _words(syllables: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the merges that lengthen words by a syllable, the shortest words first."""
    words = [_SPACE]
    while len(words[0]) < len(_SPACE) + 6:
        longer = [(word, syllable) for word in words for syllable in syllables]
        yield from longer
        words = [word + syllable for word, syllable in longer]
