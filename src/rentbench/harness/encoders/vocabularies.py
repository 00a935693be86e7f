"""Tokenizers made from a text itself: WordPiece as BERT has it, Unigram as XLM-RoBERTa has it.

The algorithms are those of the real tokenizers, so the time they take is too. The vocabulary is simple: a
word is cut every six letters, which gives about as many tokens as the published models make of English prose.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["make_tokenizer"]

_PIECE_LETTERS: Final = 6
_WORD: Final = re.compile(r"\w+|[^\w\s]")
_SPACE: Final = "▁"  # how Unigram marks the begin of a word
# One score for every piece, and a worse one for a single character: the best cut has the fewest tokens.
_PIECE_SCORE: Final = -5.0
_CHARACTER_SCORE: Final = -10.0
_ROBERTA_TOKENS: Final = {
    "bos_token": "<s>",
    "cls_token": "<s>",
    "eos_token": "</s>",
    "sep_token": "</s>",
    "unk_token": "<unk>",
    "pad_token": "<pad>",
    "mask_token": "<mask>",
}


def make_tokenizer(family: str, texts: Sequence[str], *, size: int, max_tokens: int) -> Any:  # noqa: ANN401
    """Return transformers' tokenizer of a family ("bert", "xlm-roberta") for texts.

    Args:
        family: Decides on algorithm, normalisation and special tokens.
        texts: What it will see; other texts work too, in more tokens.
        size: Entries that the vocabulary may have at most; the rarest pieces are left out.
        max_tokens: Where it cuts a text, special tokens included.
    """
    from transformers import PreTrainedTokenizerFast

    if family == "bert":
        return PreTrainedTokenizerFast(
            tokenizer_object=_word_piece(texts, size),
            model_max_length=max_tokens,
            model_input_names=["input_ids", "token_type_ids", "attention_mask"],
            **{f"{name}_token": f"[{name.upper()}]" for name in ("unk", "sep", "pad", "cls", "mask")},
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=_unigram(texts, size),
        model_max_length=max_tokens,
        model_input_names=["input_ids", "attention_mask"],
        **_ROBERTA_TOKENS,
    )


def _word_piece(texts: Sequence[str], size: int) -> Any:  # noqa: ANN401
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    lowered = [text.lower() for text in texts]
    characters = _characters(lowered)
    entries = [*special, *characters, *(f"##{character}" for character in characters)]
    entries += [piece if first else f"##{piece}" for piece, first in _pieces(lowered)]
    vocabulary = {entry: number for number, entry in enumerate(list(dict.fromkeys(entries))[:size])}
    tokenizer = Tokenizer(models.WordPiece(vocab=vocabulary, unk_token="[UNK]"))  # noqa: S106  no secret
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return _with_ends(tokenizer, "[CLS]", "[SEP]")


def _unigram(texts: Sequence[str], size: int) -> Any:  # noqa: ANN401
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    scores = dict.fromkeys([*special, _SPACE, *_characters(texts)], _CHARACTER_SCORE)
    for piece, first in _pieces(texts):
        scores.setdefault(f"{_SPACE}{piece}" if first else piece, _PIECE_SCORE)
    tokenizer = Tokenizer(models.Unigram(list(scores.items())[:size], unk_id=special.index("<unk>")))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return _with_ends(tokenizer, "<s>", "</s>")


def _with_ends(tokenizer: Any, first: str, last: str) -> Any:  # noqa: ANN401
    from tokenizers import processors

    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}",
        pair=f"{first} $A {last} $B {last}",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in (first, last)],
    )
    return tokenizer


def _characters(texts: Iterable[str]) -> list[str]:
    found = set(string.printable).union(*texts)
    return sorted(character for character in found if not character.isspace())


def _pieces(texts: Iterable[str]) -> list[tuple[str, bool]]:
    """Return the pieces that words are cut into, and whether they begin a word; the most frequent first."""
    words = Counter(word for text in texts for word in _WORD.findall(text))
    pieces: Counter[tuple[str, bool]] = Counter()
    for word, count in words.items():
        for start in range(0, len(word), _PIECE_LETTERS):
            pieces[word[start : start + _PIECE_LETTERS], start == 0] += count
    return sorted(pieces, key=lambda piece: (-pieces[piece], piece))
