"""Suites compile-training and finetune through the real harness: a process a case, documents, exit codes."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from rentbench.core.validation import check
from support.harness_runs import REPOSITORY, Finished, collect, command

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

PATIENCE = 500


def smoke(tmp_path: Path, suite: str, *cases: str, **environment: str) -> Finished:
    ended = subprocess.run(
        command(suite, "--preset", "smoke", "--device", "cpu", *(f"--case={case}" for case in cases)),
        env={
            **os.environ,
            "RENTBENCH_ROOT": str(REPOSITORY),
            "RENTBENCH_RESULTS": str(tmp_path / "results"),
            "PYTHONDONTWRITEBYTECODE": "1",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    run = collect(tmp_path, ended.returncode, ended.stdout, ended.stderr)
    assert run.document is not None, run.stderr
    assert check(run.document, "measurement", folder=run.folder) == []
    return run


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_setup_is_compiled_and_its_first_step_told_apart(tmp_path: Path) -> None:
    run = smoke(tmp_path, "compile-training", "mode=compile,attention=sdpa")
    assert run.code == 0, run.stdout
    assert run.document is not None
    (case,) = run.document["cases"]
    values = {one["metric"]: one for one in case["measurements"]}
    phases = case["phases"]
    assert {"load", "compile", "warm_up", "measure"} <= {name for name, spent in phases.items() if spent}
    assert values["first_step_seconds"]["median"] > 10 * values["step_seconds"]["median"]
    assert run.checks["loss_finite"]["outcome"] == run.checks["loss_plausible"]["outcome"] == "passed"
    assert run.document["software"]["transformers"]


@pytest.mark.slow
def test_without_a_compiler_eager_setups_run_on(tmp_path: Path) -> None:
    run = smoke(
        tmp_path,
        "compile-training",
        "mode=eager,attention=eager",
        "mode=compile,attention=sdpa",
        CXX="/nowhere/g++",
    )
    assert run.code == 4
    assert run.document is not None
    for case in run.document["cases"]:
        if case["parameters"]["mode"] == "eager":
            assert case["status"] == "ok"
            continue
        assert (case["status"], case["error"]["kind"]) == ("failed", "dependency_missing")
        assert "apt-get install g++" in case["error"]["hint"]


@pytest.mark.slow
def test_fine_tuning_leaves_a_valid_result(tmp_path: Path) -> None:
    pytest.importorskip("bitsandbytes")
    run = smoke(tmp_path, "finetune", "method=lora", "method=qlora")
    assert run.code == 0, run.stdout
    assert run.document is not None
    assert [case["status"] for case in run.document["cases"]] == ["ok", "ok"]
    assert run.document["weights"]["kind"] == "random"
    assert run.document["data"]["kind"] == "synthetic"
    assert run.checks["loss_fell"]["outcome"] == "not_checked"
    assert "not meaningful" in run.checks["loss_fell"]["detail"]
