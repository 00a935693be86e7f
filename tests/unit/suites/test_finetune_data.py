"""Data of suite finetune: lengths, examples, micro-batches, texts."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

from finetune_data import alpaca_texts, batches, read_alpaca, synthetic_lengths, synthetic_set
from finetune_tokens import alpaca_set, make_tokenizer

from rentbench.core.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

ROWS = [
    {
        "instruction": f"Name number {number}.",
        "input": "in words" * (number % 2),
        "output": f"It is {number}.",
    }
    for number in range(12)
]


@pytest.fixture
def alpaca(tmp_path: Path) -> Path:
    path = tmp_path / "alpaca.json"
    path.write_text(json.dumps(ROWS))
    return path


def test_the_published_set_comes_out_exactly() -> None:
    lengths = synthetic_lengths(4000, 753_486, 512)
    assert (len(lengths), sum(lengths)) == (4000, 753_486)
    assert (lengths[0], lengths[-1]) == (16, 512)
    assert lengths == sorted(lengths)
    assert 0.04 < lengths.count(512) / 4000 < 0.05


@pytest.mark.parametrize(
    ("count", "total", "longest"),
    [
        (1, 16, 16),
        (1, 300, 512),
        (3, 48, 512),
        (3, 1536, 512),
        (7, 1000, 512),
        (300, 56_511, 512),
        (5, 10, 2),
    ],
)
def test_every_possible_total_is_met(count: int, total: int, longest: int) -> None:
    lengths = synthetic_lengths(count, total, longest)
    assert (len(lengths), sum(lengths)) == (count, total)
    assert max(lengths) <= longest


@pytest.mark.parametrize(("count", "total"), [(3, 47), (3, 1537)])
def test_an_impossible_total_is_refused(count: int, total: int) -> None:
    with pytest.raises(UsageError, match="cannot have"):
        synthetic_lengths(count, total, 512)


def synthetic(seed: int, **changes: int) -> Any:
    sizes = {"train": 40, "held_out": 10, "tokens": 4000, "longest": 256, "vocabulary": 50, **changes}
    return synthetic_set(**sizes, seed=seed)


def test_a_synthetic_set_depends_on_the_seed_and_on_nothing_else() -> None:
    first, again, other = synthetic(1), synthetic(1), synthetic(2)
    assert first == again
    assert first != other
    assert first.tokens == other.tokens == 4000
    assert sorted(map(len, first.train)) == sorted(map(len, other.train))
    assert sum(map(len, first.held_out)) == 1000
    assert {token for example in first.train for token in example} == set(range(50))


def test_padding_has_no_loss_and_is_not_attended_to() -> None:
    first, second = batches([[5, 6, 7], [8], [9, 9]], 2)
    assert first.inputs["input_ids"].tolist() == [[5, 6, 7], [8, 0, 0]]
    assert first.inputs["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]
    assert first.inputs["labels"].tolist() == [[5, 6, 7], [8, -100, -100]]
    assert (first.targets, second.targets) == (2, 1)
    assert second.inputs["input_ids"].shape == (1, 2)


def test_a_file_gives_its_first_rows_and_its_hash(alpaca: Path) -> None:
    rows, digest = read_alpaca(str(alpaca), train=8, held_out=2)
    assert rows == ROWS[:10]
    assert digest == hashlib.sha256(alpaca.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read"),
        ("[{", "cannot be read"),
        ("{}", "no list of rows"),
        (json.dumps(ROWS[:9]), "has 9 rows, and 10 are needed"),
        (json.dumps([*ROWS[:3], {"instruction": "x"}, *ROWS[4:]]), "row 4"),
        (json.dumps([*ROWS[:9], 7]), "row 10"),
        (json.dumps([*ROWS[:2], ROWS[2] | {"input": 5}, *ROWS[3:]]), "row 3 .* input is no text"),
        (json.dumps([*ROWS[:2], ROWS[2] | {"output": "\ud800"}, *ROWS[3:]]), "row 3 .* surrogate"),
        ("[" * 200_000, "cannot be read"),
    ],
)
def test_a_file_that_will_not_do_is_told_apart(tmp_path: Path, content: str | None, words: str) -> None:
    path = tmp_path / "rows.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UsageError, match=words):
        read_alpaca(str(path), train=8, held_out=2)


def test_texts_follow_the_template_or_alpacas_headings() -> None:
    plain = alpaca_texts(ROWS[1:2], None, "<end>")
    assert plain == [
        "### Instruction:\nName number 1.\n\nin words\n\n### Response:\nIt is 1.<end>",
    ]
    chat = alpaca_texts(ROWS[:1], lambda messages: "|".join(one["content"] for one in messages), "<end>")
    assert chat == ["Name number 0.|It is 0."]


def test_with_random_weights_a_tokenizer_is_made_from_the_file(alpaca: Path) -> None:
    data, _ = alpaca_set(str(alpaca), "random", train=8, held_out=4, longest=20, vocabulary=512)
    assert (len(data.train), len(data.held_out)) == (8, 4)
    assert all(1 <= len(example) <= 20 for example in data.train)
    assert max(token for example in data.train for token in example) < 512
    again, _ = alpaca_set(str(alpaca), "random", train=8, held_out=4, longest=20, vocabulary=512)
    assert data == again


@pytest.fixture
def tokenizer_folder(tmp_path: Path) -> Path:
    make_tokenizer([str(row) for row in ROWS], 300).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def from_folder(alpaca: Path, folder: Path, **changes: int) -> Any:
    sizes = {"train": 8, "held_out": 4, "longest": 20, "vocabulary": 300, **changes}
    return alpaca_set(str(alpaca), str(folder), **sizes)


def test_a_folder_without_a_tokenizer_makes_no_empty_one(alpaca: Path, tokenizer_folder: Path) -> None:
    assert from_folder(alpaca, tokenizer_folder)[0].tokens > 16
    (tokenizer_folder / "tokenizer.json").write_text("{torn")
    with pytest.raises(UsageError, match="cannot be read"):
        from_folder(alpaca, tokenizer_folder)
    (tokenizer_folder / "tokenizer.json").unlink()
    with pytest.raises(UsageError, match="holds no tokenizer"):
        from_folder(alpaca, tokenizer_folder)


def test_another_models_tokenizer_and_examples_without_a_loss_are_told(
    alpaca: Path, tokenizer_folder: Path
) -> None:
    with pytest.raises(UsageError, match=r"token id .*; the model has 50"):
        from_folder(alpaca, tokenizer_folder, vocabulary=50)
    with pytest.raises(UsageError, match=r"row 1 .* has 1 tokens"):
        from_folder(alpaca, tokenizer_folder, longest=1)
