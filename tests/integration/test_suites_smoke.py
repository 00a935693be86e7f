"""The real suites through the real harness, as a user runs them: processes, documents, exit codes."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from rentbench.core.manifests import load_suites
from rentbench.core.validation import check
from support.harness_runs import REPOSITORY, Finished, collect, command

if TYPE_CHECKING:
    from pathlib import Path

torch = pytest.importorskip("torch")

PATIENCE = 240


def measure(tmp_path: Path, *arguments: str, device: str = "cpu") -> Finished:
    environment = {
        **os.environ,
        "RENTBENCH_ROOT": str(REPOSITORY),
        "RENTBENCH_RESULTS": str(tmp_path / "results"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    ended = subprocess.run(
        command(*arguments, "--device", device),
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return collect(tmp_path, ended.returncode, ended.stdout, ended.stderr)


@pytest.mark.slow
def test_gemm_smoke_leaves_a_valid_result(tmp_path: Path) -> None:
    run = measure(tmp_path, "gemm", "--preset", "smoke")
    assert run.code == 0, run.stderr
    assert run.document is not None
    assert check(run.document, "measurement", folder=run.folder) == []
    cases = {tuple(case["parameters"].values()): case for case in run.document["cases"]}
    assert len(cases) == len(load_suites()["gemm"].cases("smoke"))
    skipped = {key for key, case in cases.items() if case["status"] == "skipped"}
    assert {key[0] if key[0] != "matmul" else key[1] for key in skipped} == {
        "tf32",
        "host_to_device",
        "device_to_host",
    }
    assert {case["status"] for key, case in cases.items() if key not in skipped} == {"ok"}
    headline = next(
        measurement
        for measurement in cases["matmul", "bf16", 256, "steady"]["measurements"]
        if measurement["metric"] == "tflops"
    )
    assert (headline["n"], headline["unit"], headline["samples"]["unit"]) == (2, "TFLOPS", "s")
    assert run.checks["results_right"]["outcome"] == "passed"
    assert "tflops" in run.stdout
    assert run.document["data"]["kind"] == "synthetic"


@pytest.mark.slow
def test_preflight_smoke_leaves_a_valid_result(tmp_path: Path) -> None:
    run = measure(tmp_path, "preflight", "--preset", "smoke", "--set", f"disk_folder={tmp_path}")
    assert run.code == 0, run.stderr
    assert run.document is not None
    assert check(run.document, "measurement", folder=run.folder) == []
    assert "sustained-0.csv" in {artifact["name"] for artifact in run.document["artifacts"]}
    assert "preflight: pass" in run.text("log.txt") or "preflight: warn" in run.text("log.txt")
    assert run.checks["gpu_model"]["outcome"] == "not_checked"


@pytest.mark.slow
def test_a_machine_that_was_not_ordered_is_invalid(tmp_path: Path) -> None:
    run = measure(
        tmp_path,
        *("preflight", "--preset", "smoke", "--case", "probe=cpu"),
        *("--set", "expect_gpu=H200", "--set", "expect_gpus=1"),
    )
    assert run.code == 3
    assert run.document is not None
    assert run.document["status"] == "invalid"
    assert check(run.document, "measurement", folder=run.folder) == []
    assert run.checks["gpu_model"]["detail"] == "ordered H200, found no GPU"
    assert "ordered H200, found no GPU" in run.stdout
    assert "preflight: fail" in run.text("log.txt")


@pytest.mark.slow
@pytest.mark.parametrize("suite", ["gemm", "preflight"])
def test_standard_is_refused_without_a_gpu(tmp_path: Path, suite: str) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    run = measure(tmp_path, suite, "--preset", "standard", device="cuda")
    assert run.code == 3
    assert run.document is not None
    assert run.document["error"]["kind"] == "no_gpu"
    assert run.document["cases"]
    assert all(case["measurements"] == [] for case in run.document["cases"])


@pytest.mark.parametrize("suite", ["gemm", "preflight"])
@pytest.mark.parametrize("option", ["--help", "--list-cases", "--version"])
def test_every_suite_answers(tmp_path: Path, suite: str, option: str) -> None:
    ended = subprocess.run(
        command(suite, option, *(["--preset", "standard"] if option == "--list-cases" else [])),
        env={**os.environ, "RENTBENCH_ROOT": str(REPOSITORY)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert list(tmp_path.iterdir()) == []
    wanted = {"--help": suite, "--version": load_suites()[suite].version, "--list-cases": "8192"}
    assert wanted[option] in ended.stdout


@pytest.mark.parametrize("argument", ["dtype=fp7,op=matmul", "colour=red"])
def test_a_case_outside_the_manifest_is_wrong_usage(tmp_path: Path, argument: str) -> None:
    run = measure(tmp_path, "gemm", "--preset", "smoke", "--case", argument)
    assert run.code == 2
    assert run.document is None
