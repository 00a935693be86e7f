"""Suite finetune as the harness calls it, on the CPU."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from support.suites import Recorded, load_workload, manifest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

import torch
from finetune_data import batches, synthetic_set
from finetune_models import apply_method, load_model
from finetune_tokens import make_tokenizer
from finetune_training import Trainer, held_out_loss

from rentbench.core.errors import ErrorKind, UsageError
from rentbench.harness.context import CaseFailed, CaseSkipped

if TYPE_CHECKING:
    from pathlib import Path

FULL = {"method": "full", "micro_batch": 4}


def ran(tmp_path: Path, case: dict[str, Any], **settings: Any) -> Recorded:
    recorded = Recorded("finetune", tmp_path, **settings)
    workload = load_workload("finetune")
    torch.manual_seed(1)
    recorded.context.enter(0)
    workload.run(case, recorded.context)
    return recorded


def described(recorded: Recorded) -> dict[str, Any]:
    (event,) = [event for event in recorded.events if event["event"] == "describe"]
    return event


def test_standard_is_the_published_method() -> None:
    suite = manifest("finetune")
    settings = suite.presets["standard"].settings
    assert settings["train_examples"] // settings["examples_per_step"] == 250
    assert (settings["held_out_examples"], settings["max_tokens"], settings["synthetic_tokens"]) == (
        300,
        512,
        753_486,
    )
    assert (settings["learning_rate_full"], settings["learning_rate_lora"]) == (1e-5, 2e-4)
    assert (settings["lora_rank"], settings["lora_alpha"]) == (16, 32)
    rows = [(case["method"], case["micro_batch"]) for case in suite.cases("standard")]
    assert rows == [(method, size) for size in (4, 8) for method in ("full", "lora", "qlora")]
    assert suite.process_per == "case"


@pytest.mark.parametrize("method", ["full", "lora", "qlora"])
def test_each_method_trains(tmp_path: Path, method: str) -> None:
    if method == "qlora":
        pytest.importorskip("bitsandbytes")
    recorded = ran(tmp_path, {"method": method, "micro_batch": 4})
    values, seconds = recorded.values, recorded.samples["tokens_per_second"]
    assert len(seconds) == 2
    assert values["tokens"] == 400
    assert values["tokens_per_second"] == pytest.approx(400 / values["train_seconds"])
    assert sum(seconds) <= values["train_seconds"]
    assert recorded.checks["loss_finite"]["outcome"] == "passed"
    phases = [event["phase"] for event in recorded.events if event["event"] == "phase"]
    assert phases == ["load", "evaluate", "measure", "evaluate"]


def test_losses_of_random_weights_are_told_but_not_recorded(tmp_path: Path) -> None:
    recorded = ran(tmp_path, FULL)
    assert not {"loss_before", "loss_after", "peak_memory_gib"} & set(recorded.values)
    check = recorded.checks["loss_fell"]
    assert check["outcome"] == "not_checked"
    assert check["detail"].startswith("not meaningful")
    assert described(recorded)["weights"]["kind"] == "random"
    assert described(recorded)["data"] == {
        "kind": "synthetic",
        "name": "uniform random token ids",
        "revision": None,
        "seed": 1,
    }


def test_a_given_model_and_a_given_set_have_their_losses_recorded(tmp_path: Path) -> None:
    rows = [
        {"instruction": f"Count to {number}.", "input": "", "output": " ".join(map(str, range(number)))}
        for number in range(20)
    ]
    (tmp_path / "numbers.json").write_text(json.dumps(rows))
    folder = tmp_path / "tiny-model"
    load_model("random", "full", architecture="tiny", device="cpu").save_pretrained(folder)
    make_tokenizer((json.dumps(row) for row in rows), 400).save_pretrained(folder)
    recorded = ran(
        tmp_path, FULL, weights=str(folder), data=str(tmp_path / "numbers.json"), learning_rate_full=3e-3
    )
    assert recorded.values["loss_after"] < recorded.values["loss_before"]
    assert recorded.checks["loss_fell"]["outcome"] == "passed"
    told = described(recorded)
    assert told["weights"] == {"kind": "pretrained", "repository": "tiny-model", "revision": None}
    assert (told["data"]["kind"], told["data"]["name"]) == ("dataset", "numbers")
    assert told["data"]["revision"].startswith("sha256:")


def trained(size: int, *, steps: int = 2) -> Trainer:
    torch.manual_seed(2)
    model = load_model("random", "full", architecture="tiny", device="cpu")
    model = apply_method(model, "full", rank=16, alpha=32)
    data = synthetic_set(train=16 * steps, held_out=4, tokens=800 * steps, longest=64, vocabulary=512, seed=1)
    recorder = Recorded("finetune", None)  # type: ignore[arg-type]  # no scratch folder is needed
    trainer = Trainer(
        model,
        batches(data.train, size),
        accumulation=16 // size,
        learning_rate=1e-3,
        device="cpu",
        part=recorder.context.part,
    )
    for _ in range(trainer.steps):
        trainer.step()
    return trainer


def test_micro_batches_of_4_and_8_compute_the_same_training() -> None:
    by_four, by_eight = trained(4), trained(8)
    for one, other in zip(by_four.losses, by_eight.losses, strict=True):
        assert float(one) == pytest.approx(float(other), rel=2e-3)


def test_the_learning_rate_falls_to_nothing_along_a_cosine() -> None:
    trainer = trained(8, steps=4)
    assert trainer.steps == 4
    assert trainer._schedule.get_last_lr() == [pytest.approx(0.0, abs=1e-12)]


def test_the_held_out_loss_weighs_every_token_alike() -> None:
    model = load_model("random", "full", architecture="tiny", device="cpu")
    examples = [list(range(5, 5 + length)) for length in (3, 40, 7, 25, 9)]
    losses = [held_out_loss(model, batches(examples, size), "cpu") for size in (1, 2, 5)]
    assert losses == [pytest.approx(losses[0], rel=2e-3)] * 3
    assert model.training


@pytest.mark.parametrize(
    ("case", "settings"),
    [
        ({"method": "full"}, {}),
        ({"method": "full", "micro_batch": 3}, {}),
        (FULL, {"train_examples": 12}),
    ],
)
def test_numbers_that_do_not_fit_are_wrong_usage(
    tmp_path: Path, case: dict[str, Any], settings: dict[str, int]
) -> None:
    with pytest.raises(CaseFailed) as failure:
        ran(tmp_path, case, **settings)
    assert failure.value.kind == ErrorKind.USAGE


def test_a_set_that_is_not_there_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere"):
        ran(tmp_path, FULL, data="/nowhere.json")


def test_without_bitsandbytes_qlora_is_skipped_on_a_cpu(tmp_path: Path) -> None:
    recorded = Recorded("finetune", tmp_path)
    workload = load_workload("finetune")
    workload.missing_for = lambda _: "bitsandbytes"  # type: ignore[attr-defined]
    recorded.context.enter(0)
    with pytest.raises(CaseSkipped, match="bitsandbytes"):
        workload.run({"method": "qlora", "micro_batch": 4}, recorded.context)
