"""The model's size, what is really sent in a step (gloo, one process), and what is recorded of it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from support.suites import Recorded, load_workload, manifest

pytest.importorskip("torch")

import ddp_trainer
import torch
from ddp_model import SHAPES, Decoder
from ddp_trainer import VARIANTS, Trainer
from torch.profiler import ProfilerActivity, profile

from rentbench.harness.outcomes import CaseFailed, CaseSkipped
from rentbench.harness.ranks.rank import Rank

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BYTES = {"float": 4, "c10::Half": 2}


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Rank]:
    """A group of one rank, in this process: gradients are reduced there as well."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield Rank(index=0, count=1, device="cpu", emit=lambda _: None)  # type: ignore[arg-type]
    torch.distributed.destroy_process_group()


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    found = Recorded("ddp_training", tmp_path)
    found.context.enter(0)
    return found


def trainer(rank: Rank, variant: str, *, data_parallel: bool = True, seed: int = 1) -> Trainer:
    return Trainer(
        rank,
        model="tiny",
        variant=VARIANTS[variant],
        micro_batch=2,
        seed=seed,
        data_parallel=data_parallel,
    )


def reductions(trained: Trainer) -> list[int]:
    """Return the bytes of each all-reduce of one step, as torch's profiler saw them."""
    trained.step()  # with the first step DDP settles its buckets
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        trained.step()
    assert profiler.profiler is not None
    return [
        math.prod(event.shapes()[0]) * BYTES[event.dtypes()[0]]
        for event in profiler.profiler.kineto_results.events()
        if event.name() == "gloo:all_reduce"
    ]


@pytest.mark.parametrize(("name", "parameters"), [("124M", 124_439_808), ("355M", 354_823_168)])
def test_parameters_are_those_of_gpt_2(name: str, parameters: int) -> None:
    with torch.device("meta"):
        model = Decoder(SHAPES[name])
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters
    assert SHAPES[name].parameters == parameters
    assert (SHAPES[name].vocabulary, SHAPES[name].sequence) == (50257, 1024)


def test_the_model_sees_only_what_came_before() -> None:
    torch.manual_seed(0)
    model = Decoder(SHAPES["tiny"])
    tokens = torch.randint(101, (1, 32))
    changed = tokens.clone()
    changed[0, 20:] = (changed[0, 20:] + 1) % 101
    seen: list[torch.Tensor] = []
    model.norm.register_forward_hook(lambda *found: seen.append(found[2]))
    for given in (tokens, changed):
        model(given, given)
    same = torch.isclose(seen[0], seen[1], atol=1e-6).all(dim=2)[0]
    assert same[:20].all()
    assert not same[20:].any()


def test_a_new_model_knows_nothing_and_one_that_trains_learns(alone: Rank) -> None:
    trained = trainer(alone, "plain", data_parallel=False)
    assert trained.step().item() == pytest.approx(math.log(101), abs=0.3)
    before = trained.checksum()
    trained.step()
    assert trained.checksum() != before


def test_ranks_begin_alike_and_draw_other_data(alone: Rank) -> None:
    first = trainer(alone, "plain", data_parallel=False)
    alone.index = 1
    second = trainer(alone, "plain", data_parallel=False)
    assert first.checksum() == second.checksum()
    assert first.step().item() != second.step().item()


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_bytes_of_a_step_are_those_that_are_really_sent(alone: Rank, variant: str) -> None:
    trained = trainer(alone, variant)
    itemsize = 2 if VARIANTS[variant].compress else 4
    assert trained.gradient_bytes == SHAPES["tiny"].parameters * itemsize
    assert sum(reductions(trained)) == trained.gradient_bytes


def test_accumulation_reduces_as_often_as_a_plain_step(alone: Rank) -> None:
    plain, accumulated = trainer(alone, "plain"), trainer(alone, "accumulate_4")
    assert len(reductions(accumulated)) == len(reductions(plain)) > 0
    assert accumulated.tokens_per_step == 4 * plain.tokens_per_step


def test_accumulation_is_the_mean_of_its_micro_batches(alone: Rank) -> None:
    one, parallel = trainer(alone, "accumulate_4", data_parallel=False), trainer(alone, "accumulate_4")
    for _ in range(3):
        assert one.step().item() == pytest.approx(parallel.step().item(), rel=1e-4)


def test_half_precision_with_a_scaler_trains_too(alone: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    # As on Volta, whose bf16 is emulated; here on the CPU, which has both.
    monkeypatch.setattr(ddp_trainer, "half_precision", lambda _: torch.float16)
    trained = trainer(alone, "both")
    before = trained.checksum()
    losses = [trained.step().item() for _ in range(8)]
    assert trained.checksum() != before
    assert all(map(math.isfinite, losses))
    assert trained.gradient_dtype == torch.float16


def answer(**changes: Any) -> dict[str, Any]:
    return {
        "step_seconds": [0.2] * 20,
        "losses": [10.8] * 20,
        "checksum": 7,
        "tokens": 8192,
        "precision": "bfloat16",
        "gradient_bytes": 500_000_000,
        "all_reduce_seconds": [0.1, 0.2, 0.3],
        **changes,
    }


def test_rates_follow_from_the_steps_of_all_ranks(recorded: Recorded) -> None:
    answers = [answer(step_seconds=[0.1] * 20), answer(step_seconds=[0.3] * 20)]
    load_workload("ddp_training")._record(answers, recorded.context)
    values = recorded.values
    assert values["step_seconds"] == pytest.approx(0.2)
    assert values["tokens_per_second"] == pytest.approx(2 * 8192 / 0.2)
    assert values["gradient_bytes"] == 500_000_000
    assert values["all_reduce_algorithm_bandwidth"] == pytest.approx(2.5)
    assert values["all_reduce_bus_bandwidth"] == pytest.approx(2.5)


def test_one_gpu_sends_nothing(recorded: Recorded) -> None:
    load_workload("ddp_training")._record([answer(all_reduce_seconds=[])], recorded.context)
    assert set(recorded.values) == {"tokens_per_second", "step_seconds", "tokens_per_step", "loss"}


def test_ranks_that_differ_make_the_result_invalid(recorded: Recorded) -> None:
    workload = load_workload("ddp_training")
    with pytest.raises(CaseFailed, match="different weights"):
        workload._check([answer(), answer(checksum=8)], recorded.context)
    assert recorded.checks["ranks_agree"]["outcome"] == "failed"
    assert recorded.checks["ranks_agree"]["severity"] == "hard"


def test_a_loss_that_is_no_number_fails_the_case(recorded: Recorded) -> None:
    with pytest.raises(CaseFailed, match="1 of 20 losses"):
        load_workload("ddp_training")._check([answer(losses=[10.8] * 19 + [math.nan])], recorded.context)


def test_what_a_reader_must_know_is_a_warning(recorded: Recorded) -> None:
    drifting = [0.2] * 10 + [0.3] * 10
    load_workload("ddp_training")._check(
        [answer(precision="float16", step_seconds=drifting)], recorded.context
    )
    assert recorded.checks["bf16_autocast"]["outcome"] == "failed"
    assert "float16" in recorded.checks["bf16_autocast"]["detail"]
    assert recorded.checks["steps_steady"]["value"] == 50.0


def test_cases_that_cannot_run_are_skipped_with_the_reason(recorded: Recorded) -> None:
    workload = load_workload("ddp_training")
    with pytest.raises(CaseSkipped, match="one GPU sends no gradients"):
        workload.run({"model": "tiny", "ranks": 1, "variant": "both"}, recorded.context)
    recorded.context.device, recorded.context.device_count = "cuda", 1
    with pytest.raises(CaseSkipped, match="needs 2 GPUs, found 1"):
        workload.run({"model": "tiny", "ranks": 2, "variant": "both"}, recorded.context)


def test_standard_is_the_published_method() -> None:
    suite = manifest("ddp_training")
    standard = suite.presets["standard"].settings
    assert (standard["micro_batch"], standard["warm_up_steps"], standard["steps"]) == (8, 10, 40)
    assert len(suite.cases("standard")) == 2 * 2 + 2 * 3 * 4
    assert suite.headline is not None
    assert suite.headline.case in suite.cases("standard")
