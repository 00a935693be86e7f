"""The suites' manifests agree with their code and with the method."""

from __future__ import annotations

import re

import pytest

from support.suites import SUITES, manifest

FOLDERS = (
    "gemm",
    "preflight",
    "allreduce",
    "ddp_training",
    "compile_training",
    "finetune",
    "embeddings_corpus",
    "embeddings_passages",
    "speech_to_text",
    "image_generation",
    "llm_serving",
)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_setting_is_given_by_every_preset(folder: str) -> None:
    suite = manifest(folder)
    declared = {name for name, parameter in suite.parameters.items() if parameter.kind == "setting"}
    for preset in suite.presets.values():
        assert set(preset.settings) == declared


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_code_reads_every_setting_and_no_other(folder: str) -> None:
    suite = manifest(folder)
    declared = {name for name, parameter in suite.parameters.items() if parameter.kind == "setting"}
    code = "".join(path.read_text() for path in (SUITES / folder).glob("*.py"))
    assert set(re.findall(r'settings\["(\w+)"\]', code)) <= declared
    assert [name for name in sorted(declared) if f'"{name}"' not in code] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_metric_is_recorded_somewhere(folder: str) -> None:
    code = "".join(path.read_text() for path in (SUITES / folder).glob("*.py"))
    for name in manifest(folder).metrics:
        stem = re.sub(r"^(tflops|tops|bandwidth)_(mean|best)$", r"\1", name)
        assert f'"{stem}"' in code, name


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("preset", ["standard", "full"])
def test_the_headline_has_cases(folder: str, preset: str) -> None:
    suite = manifest(folder)
    assert suite.headline is not None
    wanted = suite.headline.case.items()
    # What it leaves free, such as the number of GPUs, is chosen as each machine does best.
    assert any(wanted <= case.items() for case in suite.cases(preset))


@pytest.mark.parametrize("preset", ["smoke", "standard", "full"])
def test_all_bursts_come_before_all_steady_cases(preset: str) -> None:
    states = [case["state"] for case in manifest("gemm").cases(preset)]
    assert states == sorted(states)
    assert set(states) == {"burst", "steady"}


def test_standard_measures_every_type_and_size_in_both_states() -> None:
    cases = manifest("gemm").cases("standard")
    grid = {(case["dtype"], case["size"], case["state"]) for case in cases if case["op"] == "matmul"}
    assert grid == {
        (dtype, size, state)
        for dtype in ("bf16", "fp16", "tf32", "fp32", "fp8", "int8")
        for size in (1024, 2048, 4096, 8192, 16384)
        for state in ("burst", "steady")
    }
    assert len(cases) == len(grid) + 8


def test_standard_settings_are_the_published_method() -> None:
    gemm = manifest("gemm").presets["standard"].settings
    assert (gemm["warm_up_iterations"], gemm["iterations"], gemm["heat_seconds"]) == (50, 100, 30.0)
    preflight = manifest("preflight").presets
    assert preflight["standard"].settings["clone_elements"] == 256 * 2**20
    assert preflight["standard"].settings["clone_iterations"] == 10
    assert preflight["standard"].settings["sustained_seconds"] == 60
    assert preflight["full"].settings["sustained_seconds"] == 25 * 60
