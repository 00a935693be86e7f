"""Texts to token ids, with the model's own tokenizer or one that is made here from the texts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from finetune_data import DataSet, alpaca_texts, read_alpaca
from finetune_models import RANDOM
from tokenizers import ByteLevelBPETokenizer
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from rentbench.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["alpaca_set", "make_tokenizer"]

Tokenizer: TypeAlias = Any  # transformers is not installed where types are checked

_END = "<|endoftext|>"
_LARGEST_VOCABULARY = 16384
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json")
_FEWEST_TOKENS = 2  # the first is given, the second predicted


def alpaca_set(
    path: str, weights: str, *, train: int, held_out: int, longest: int, vocabulary: int
) -> tuple[DataSet, str]:
    """Return a JSON file's examples as token ids, cut to `longest`, and the file's SHA-256.

    Args:
        path: The file.
        weights: The model's folder, which holds a tokenizer; or "random", which has none, so that one is
            made from the file's own texts.
        train: Examples to train on, from the file's beginning.
        held_out: The next ones.
        longest: Tokens of an example at most.
        vocabulary: Token ids that the model has.

    Raises:
        UsageError: The file or the tokenizer will not do, or they do not fit the model.
    """
    rows, digest = read_alpaca(path, train=train, held_out=held_out)
    if weights == RANDOM:
        tokenizer = make_tokenizer(alpaca_texts(rows, None, _END), min(vocabulary, _LARGEST_VOCABULARY))
    else:
        tokenizer = _load_tokenizer(weights)
    template = None
    if getattr(tokenizer, "chat_template", None):

        def template(messages: list[dict[str, str]]) -> str:
            return str(tokenizer.apply_chat_template(messages, tokenize=False))

    texts = alpaca_texts(rows, template, tokenizer.eos_token or "")
    ids = tokenizer(texts, add_special_tokens=False, truncation=True, max_length=longest)["input_ids"]
    _require_fit(ids, vocabulary, path)
    return DataSet(train=ids[:train], held_out=ids[train:]), digest


def _load_tokenizer(folder: str) -> Tokenizer:
    # Without these files transformers may make an empty tokenizer, which turns texts into nothing.
    if not any((Path(folder) / name).is_file() for name in _TOKENIZER_FILES):
        msg = f"weights={folder} holds no tokenizer ({' or '.join(_TOKENIZER_FILES)})"
        raise UsageError(msg, hint="copy the model's tokenizer into the folder, or take data=synthetic")
    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # the library below raises a bare Exception for a file that is torn
        msg = f"the tokenizer of weights={folder} cannot be read: {error}"
        raise UsageError(msg, hint="copy the model's tokenizer into the folder anew") from error


def _require_fit(ids: list[list[int]], vocabulary: int, path: str) -> None:
    """Refuse examples that give no loss, and token ids that would end the GPU's context."""
    for number, example in enumerate(ids, start=1):
        if len(example) < _FEWEST_TOKENS:
            msg = f"row {number} of data={path} has {len(example)} tokens, which leaves none to predict"
            raise UsageError(msg, hint="remove the row, and see whether the tokenizer is the model's")
        if max(example) >= vocabulary:
            msg = f"row {number} of data={path} has token id {max(example)}; the model has {vocabulary}"
            raise UsageError(msg, hint="the tokenizer in the folder is not this model's")


def make_tokenizer(texts: Iterable[str], vocabulary: int) -> Tokenizer:
    """Return a byte-level BPE tokenizer trained on the texts; nothing is downloaded.

    Args:
        texts: What it learns to write shortly.
        vocabulary: Tokens at most; at least 257, for the bytes and the end of a text.
    """
    bpe = ByteLevelBPETokenizer()
    bpe.train_from_iterator(texts, vocab_size=vocabulary, show_progress=False, special_tokens=[_END])
    return PreTrainedTokenizerFast(tokenizer_object=bpe._tokenizer, eos_token=_END)
