"""Suite compile-training as the harness calls it, on the CPU."""

from __future__ import annotations

import contextlib
import math
import os
import statistics
from typing import TYPE_CHECKING, Any

import pytest

from support.suites import Recorded, load_workload, manifest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from compile_compiler import missing_for_compile
from compile_model import Shape, build_model, unsupported_reason

from rentbench.core.errors import ErrorKind
from rentbench.harness.context import CaseFailed

if TYPE_CHECKING:
    from pathlib import Path

EAGER = {"mode": "eager", "attention": "sdpa"}


@pytest.fixture(autouse=True)
def _own_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """The workload sets them for its own process, which here is that of all tests."""
    for variable in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        monkeypatch.setenv(variable, "")


def ran(tmp_path: Path, case: dict[str, str], **settings: float) -> Recorded:
    recorded = Recorded("compile_training", tmp_path, **settings)
    workload = load_workload("compile_training")
    torch.manual_seed(1)
    workload.prepare(recorded.context)
    recorded.context.enter(0)
    workload.run(case, recorded.context)
    return recorded


def test_the_standard_model_has_exactly_the_published_number_of_parameters() -> None:
    settings = manifest("compile_training").presets["standard"].settings
    sizes = {
        name: int(settings[name]) for name in ("hidden", "layers", "heads", "feed_forward", "vocabulary")
    }
    model = build_model(Shape(**sizes, positions=int(settings["sequence"])), "sdpa", "meta")
    assert sum(parameter.numel() for parameter in model.parameters()) == 468_239_360
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}


def test_standard_is_the_published_method() -> None:
    standard = manifest("compile_training").presets["standard"]
    settings = standard.settings
    assert (settings["batch"], settings["sequence"]) == (4, 2048)
    assert (settings["warm_up_steps"], settings["steps"]) == (4, 20)
    assert (settings["learning_rate"], standard.repeats) == (1e-4, 3)
    assert len(manifest("compile_training").cases("standard")) == 4
    assert manifest("compile_training").process_per == "case"


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_rates_follow_from_the_times(tmp_path: Path, attention: str) -> None:
    recorded = ran(tmp_path, {"mode": "eager", "attention": attention}, steps=5)
    values, seconds = recorded.values, recorded.samples["tokens_per_second"]
    assert len(seconds) == 5
    tokens = 2 * 32
    assert values["tokens_per_second"] == pytest.approx(tokens / statistics.fmean(seconds))
    assert values["tokens_per_second_median"] == pytest.approx(tokens / statistics.median(seconds))
    assert values["tokens_per_second_best"] == pytest.approx(tokens / min(seconds))
    assert values["step_seconds"] == pytest.approx(statistics.fmean(seconds))
    assert values["first_step_seconds"] > 0
    assert "peak_memory_gb" not in values  # not counted on a CPU, and missing is not 0


def test_both_attentions_compute_the_same_loss_and_training_lowers_it(tmp_path: Path) -> None:
    runs = [
        ran(tmp_path, {"mode": "eager", "attention": attention}, steps=20, learning_rate=1e-2)
        for attention in ("sdpa", "eager")
    ]
    first, second = (one.values for one in runs)
    assert first["loss_first"] == pytest.approx(second["loss_first"], abs=0.02)
    assert first["loss_first"] == pytest.approx(math.log(256), abs=0.3)
    assert first["loss_last"] < first["loss_first"] - 0.5
    assert {check["outcome"] for check in runs[0].checks.values()} == {"passed"}


def test_what_is_compiled_lands_in_the_scratch_folder(tmp_path: Path) -> None:
    recorded = Recorded("compile_training", tmp_path)
    load_workload("compile_training").prepare(recorded.context)
    for variable in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        assert os.environ[variable].startswith(str(tmp_path))


def test_eager_steps_count_as_warm_up_and_not_as_compilation(tmp_path: Path) -> None:
    phases = [event["phase"] for event in ran(tmp_path, EAGER).events if event["event"] == "phase"]
    assert phases == ["load", "warm_up", "warm_up", "measure"]


@pytest.mark.parametrize(("factor", "check"), [(math.nan, "loss_finite"), (1e3, "loss_plausible")])
def test_a_model_that_computes_nonsense_makes_the_run_invalid(
    tmp_path: Path, factor: float, check: str
) -> None:
    def build_broken_model(*arguments: Any) -> Any:
        model = build_model(*arguments)
        with torch.no_grad():
            model.lm_head.weight.mul_(factor)
        return model

    recorded = Recorded("compile_training", tmp_path)
    workload = load_workload("compile_training")
    workload.build_model = build_broken_model  # type: ignore[attr-defined]
    recorded.context.enter(0)
    with contextlib.suppress(CaseFailed):
        workload.run(EAGER, recorded.context)
    assert (recorded.checks[check]["severity"], recorded.checks[check]["outcome"]) == ("hard", "failed")


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_a_missing_compiler_is_told_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    assert missing_for_compile(device) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    for variable in ("CC", "CXX"):
        monkeypatch.delenv(variable, raising=False)
    missing = missing_for_compile(device)
    assert missing is not None
    assert "compiler" in missing.message
    assert "apt-get install g++" in missing.hint


def test_without_a_compiler_only_compiled_setups_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "/nowhere/g++")
    with pytest.raises(CaseFailed) as failure:
        ran(tmp_path, {"mode": "compile", "attention": "sdpa"})
    assert failure.value.kind == ErrorKind.DEPENDENCY_MISSING
    assert "/nowhere/g++" in failure.value.message
    assert ran(tmp_path, EAGER).values["tokens_per_second"] > 0


@pytest.mark.parametrize(
    ("mode", "capability", "words"),
    [
        ("eager", (7, 0), "emulated"),
        ("compile", (7, 0), "Triton"),
        ("compile", (7, 5), "emulated"),
        ("eager", (8, 0), None),
        ("compile", (9, 0), None),
        ("compile", None, None),
    ],
)
def test_cards_without_bf16_are_skipped(
    mode: str, capability: tuple[int, int] | None, words: str | None
) -> None:
    reason = unsupported_reason(mode, capability)
    assert reason is None if words is None else reason is not None and words in reason


@pytest.mark.parametrize(("case", "settings"), [({"mode": "eager"}, {}), (EAGER, {"heads": 3})])
def test_what_cannot_be_built_is_wrong_usage(
    tmp_path: Path, case: dict[str, str], settings: dict[str, int]
) -> None:
    with pytest.raises(CaseFailed) as failure:
        ran(tmp_path, case, **settings)
    assert failure.value.kind == ErrorKind.USAGE
