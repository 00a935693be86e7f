"""Examples as token ids: a synthetic set with the published lengths, or a JSON file with alpaca's fields."""

from __future__ import annotations

import hashlib
import json
import math
import random
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from rentbench.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "SYNTHETIC",
    "Batch",
    "DataSet",
    "alpaca_texts",
    "batches",
    "read_alpaca",
    "synthetic_lengths",
    "synthetic_set",
]

Tensor: TypeAlias = Any  # torch is not installed where types are checked
Row: TypeAlias = dict[str, str]
Ids: TypeAlias = list[int]

SYNTHETIC = "synthetic"
# Spread of the logarithm of the synthetic lengths, and the shortest one.
_SIGMA = 0.7
_SHORTEST = 16
_IGNORED = -100  # of no loss, by PyTorch's convention


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """Examples as token ids; `train` is in the order of training."""

    train: list[Ids]
    held_out: list[Ids]

    @property
    def tokens(self) -> int:
        """Tokens of the training set, without padding."""
        return sum(map(len, self.train))


@dataclass(frozen=True, kw_only=True)
class Batch:
    """A micro-batch, padded on the right to its longest example.

    Attributes:
        inputs: input_ids, attention_mask and labels, each examples × longest; padding has the label −100.
        targets: Tokens that are predicted: all but each example's first.
    """

    inputs: dict[str, Tensor]
    targets: int


def synthetic_lengths(count: int, total: int, longest: int) -> list[int]:
    """Return `count` lengths in ascending order with exactly this sum: quantiles of a clipped log-normal.

    Length i is exp(μ + 0.7·z), rounded and clipped to 16 … `longest`, where z is the normal quantile of
    (i + ½) ÷ count. μ is the one whose sum comes closest from below; what is left is added one by one.

    Raises:
        UsageError: No such lengths exist.
    """
    shortest = min(_SHORTEST, longest)
    if not count * shortest <= total <= count * longest:
        msg = f"{count} examples of {shortest} to {longest} tokens cannot have {total} tokens"
        raise UsageError(msg, hint="change synthetic_tokens, train_examples or max_tokens")
    quantiles = [NormalDist().inv_cdf((index + 0.5) / count) for index in range(count)]

    def lengths(mu: float) -> list[int]:
        return [min(longest, max(shortest, round(math.exp(mu + _SIGMA * z)))) for z in quantiles]

    low, high = 0.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(lengths(middle)) <= total else (low, middle)
    found = lengths(low)
    while (left := total - sum(found)) > 0:
        free = [index for index, length in enumerate(found) if length < longest]
        for index in free[:left]:
            found[index] += 1
    return sorted(found)


def synthetic_set(
    *, train: int, held_out: int, tokens: int, longest: int, vocabulary: int, seed: int
) -> DataSet:
    """Return uniformly random token ids in the published lengths, shuffled.

    Args:
        train: Training examples.
        held_out: Held-out examples, with the same mean length.
        tokens: Of the training examples together.
        longest: Tokens of an example at most.
        vocabulary: Ids are below it.
        seed: Of the order and of the ids.
    """
    shuffler = random.Random(seed)  # noqa: S311  (no secret)
    generator = torch.Generator().manual_seed(seed)

    def examples(lengths: list[int]) -> list[Ids]:
        shuffler.shuffle(lengths)
        return [torch.randint(0, vocabulary, (length,), generator=generator).tolist() for length in lengths]

    return DataSet(
        train=examples(synthetic_lengths(train, tokens, longest)),
        held_out=examples(synthetic_lengths(held_out, round(tokens * held_out / train), longest)),
    )


def read_alpaca(path: str, *, train: int, held_out: int) -> tuple[list[Row], str]:
    """Return the first `train` + `held_out` rows of a JSON list, and the file's SHA-256.

    Raises:
        UsageError: The file is not such a list, or too short.
    """
    try:
        raw = Path(path).read_bytes()
        rows = json.loads(raw)
    except (OSError, ValueError, RecursionError) as error:
        msg = f"data={path} cannot be read: {error}"
        hint = "give a JSON list of objects with instruction, input and output, or data=synthetic"
        raise UsageError(msg, hint=hint) from error
    wanted = train + held_out
    if not isinstance(rows, list) or len(rows) < wanted:
        found = len(rows) if isinstance(rows, list) else "no list of"
        msg = f"data={path} has {found} rows, and {wanted} are needed"
        raise UsageError(msg, hint=f"{train} to train on, and the next {held_out} held out")
    for number, row in enumerate(rows[:wanted], start=1):
        texts = row if isinstance(row, dict) else {}
        # An input that is null or absent is none.
        needed = [texts.get("instruction"), texts.get("output"), texts.get("input") or ""]
        strings = [text for text in needed if isinstance(text, str)]
        if len(strings) < len(needed):
            msg = f"row {number} of data={path} lacks a text for instruction or output, or input is no text"
            raise UsageError(msg, hint="each row is an object with instruction, output and optionally input")
        if not _is_unicode("".join(strings)):
            msg = f"row {number} of data={path} has half a surrogate pair, which no tokenizer takes"
            raise UsageError(msg, hint="write the file anew with whole characters")
    return rows[:wanted], hashlib.sha256(raw).hexdigest()


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def alpaca_texts(rows: Sequence[Row], template: Callable[[list[Row]], str] | None, end: str) -> list[str]:
    """Return each row as one text: by the model's chat template, else under alpaca's headings.

    Args:
        rows: Rows with instruction, output and optionally input.
        template: Turns messages (role, content) into text; None where the tokenizer has no chat template.
        end: The end-of-text token, which closes a text that was made without a template.
    """
    texts = []
    for row in rows:
        question = "\n\n".join(part for part in (row["instruction"], row.get("input", "")) if part)
        if template is not None:
            messages = [
                {"role": "user", "content": question},
                {"role": "assistant", "content": row["output"]},
            ]
            texts.append(template(messages))
        else:
            texts.append(f"### Instruction:\n{question}\n\n### Response:\n{row['output']}{end}")
    return texts


def batches(examples: Sequence[Ids], size: int) -> list[Batch]:
    """Return micro-batches of `size` examples in order; the last one may be smaller."""
    return [_collate(examples[first : first + size]) for first in range(0, len(examples), size)]


def _collate(examples: Sequence[Ids]) -> Batch:
    longest = max(map(len, examples))
    ids = torch.zeros(len(examples), longest, dtype=torch.int64)
    mask = torch.zeros_like(ids)
    for row, example in enumerate(examples):
        ids[row, : len(example)] = torch.tensor(example)
        mask[row, : len(example)] = 1
    labels = ids.masked_fill(mask == 0, _IGNORED)
    return Batch(
        inputs={"input_ids": ids, "attention_mask": mask, "labels": labels},
        targets=sum(len(example) - 1 for example in examples),
    )
