"""Passages of an exact number of tokens, as the model's own tokenizer counts them."""

from __future__ import annotations

import re
from random import Random
from typing import TYPE_CHECKING, Any, Final

from rentbench.harness.encoders.words import Words

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PassageError", "make_passages", "sample_texts"]

_VOCABULARY: Final = 6000
_MOST_WORDS: Final = 4000
# What marks a word's begin in the vocabularies of Unigram and of byte-level BPE; WordPiece marks the rest.
_WORD_BEGINS: Final = "▁Ġ"
_PLAIN_WORD: Final = re.compile(r"[a-z]{2,12}")


class PassageError(Exception):
    """The tokenizer allows no passages of that length."""


def sample_texts(seed: int) -> list[str]:
    """Return texts of words of no language, for a tokenizer to be made from."""
    return [" ".join(Words.make(_VOCABULARY, Random(seed)).words)]  # noqa: S311  no secret


def make_passages(tokenizer: Any, *, count: int, tokens: int, seed: int) -> list[str]:  # noqa: ANN401
    """Return so many different passages of words that are one token each.

    Args:
        tokenizer: transformers' tokenizer of the model.
        count: How many.
        tokens: Of each, special tokens included.
        seed: The same one gives the same passages.

    Raises:
        PassageError: The tokenizer has no such words, or counts otherwise than they add up.
    """
    words = _one_token_words(tokenizer)
    special = len(tokenizer("").input_ids)
    if len(words) < 2 or tokens <= special:
        msg = f"passages of {tokens} tokens cannot be made: {len(words)} words, {special} special tokens"
        raise PassageError(msg)
    random = Random(seed)  # noqa: S311  no secret
    passages = [" ".join(random.choices(words, k=tokens - special)) for _ in range(count)]
    wrong = [length for length in _lengths(tokenizer, passages) if length != tokens]
    if wrong:
        msg = f"{len(wrong)} of {count} passages have other than {tokens} tokens, such as {wrong[0]}"
        raise PassageError(msg)
    return passages


def _one_token_words(tokenizer: Any) -> list[str]:  # noqa: ANN401
    """Return lower-case words of the vocabulary that are one token also between other words."""
    plain = sorted({entry.lstrip(_WORD_BEGINS) for entry in tokenizer.get_vocab()})
    words = [word for word in plain if _PLAIN_WORD.fullmatch(word)]
    if not words:
        return []
    special = len(tokenizer("").input_ids)
    # Three times the word: at the begin, in the middle and at the end of a text.
    lengths = _lengths(tokenizer, [f"{word} {word} {word}" for word in words])
    fitting = [word for word, length in zip(words, lengths, strict=True) if length == special + 3]
    return Random(0).sample(fitting, min(len(fitting), _MOST_WORDS))  # noqa: S311  no secret


def _lengths(tokenizer: Any, texts: Sequence[str]) -> list[int]:  # noqa: ANN401
    return [len(ids) for ids in tokenizer(list(texts), truncation=False, verbose=False).input_ids]
