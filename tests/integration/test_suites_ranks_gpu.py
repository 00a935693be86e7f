"""allreduce and ddp-training on real cards. Run on a GPU machine with `pytest -m gpu`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from rentbench.core.validation import check
from support.harness_runs import REPOSITORY, Finished, collect, command

if TYPE_CHECKING:
    from pathlib import Path

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here"),
]

several_gpus = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.device_count() < 2, reason="needs 2 GPUs"
)


def measure(tmp_path: Path, *arguments: str) -> Finished:
    ended = subprocess.run(
        command(*arguments, "--device", "cuda", "--repeats", "1"),
        env={
            **os.environ,
            "RENTBENCH_ROOT": str(REPOSITORY),
            "RENTBENCH_RESULTS": str(tmp_path / "results"),
        },
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    run = collect(tmp_path, ended.returncode, ended.stdout, ended.stderr)
    assert run.document is not None, run.stderr
    assert check(run.document, "measurement", folder=run.folder) == []
    return run


def test_one_gpu_trains_as_fast_as_an_independent_script(tmp_path: Path) -> None:
    run = measure(tmp_path, "ddp-training", "--preset", "standard", "--case=model=124M,ranks=1,variant=plain")
    assert run.code == 0, run.stderr
    assert run.document is not None
    (case,) = run.document["cases"]
    ours = {measurement["metric"]: measurement["median"] for measurement in case["measurements"]}
    script = REPOSITORY / "tests" / "gpu" / "independent_ddp.py"
    told = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300, check=True)
    theirs = json.loads(told.stdout)
    assert ours["tokens_per_second"] == pytest.approx(theirs["tokens_per_second"], rel=0.02)
    assert case["peak_memory_bytes"] / 2**30 == pytest.approx(theirs["peak_gib"], rel=0.02)


def test_a_card_that_is_too_small_says_where_and_how_full_it_was(tmp_path: Path) -> None:
    run = measure(
        tmp_path,
        *("ddp-training", "--preset", "standard", "--case=model=355M,ranks=1,variant=plain"),
        *("--set", "micro_batch=256"),
    )
    assert run.code == 3
    assert run.document is not None
    error = run.document["cases"][0]["error"]
    assert error["kind"] == "oom"
    assert error["phase"] in {"forward", "backward"}
    assert error["memory_allocated_bytes"] > 2**30
    assert error["message"].startswith("rank 0 of 1: ")


@pytest.mark.skipif(torch.cuda.device_count() != 1, reason="for a machine with one GPU")
def test_one_gpu_is_too_few_to_reduce(tmp_path: Path) -> None:
    run = measure(tmp_path, "allreduce", "--preset", "standard")
    assert run.code == 5
    assert run.document is not None
    assert {case["status"] for case in run.document["cases"]} == {"skipped"}
    assert "needs 2 GPUs, found 1" in run.stdout


@several_gpus
def test_two_gpus_reduce_and_train(tmp_path: Path) -> None:
    variants = ("default", "p2p_sys", "no_p2p")
    run = measure(
        tmp_path / "allreduce",
        *("allreduce", "--preset", "standard"),
        *(f"--case=ranks=2,variant={variant},bytes=1073741824" for variant in variants),
    )
    assert run.code == 0, run.stderr
    assert run.checks["results_right"]["outcome"] == "passed"
    run = measure(
        tmp_path / "ddp",
        *("ddp-training", "--preset", "standard"),
        *(f"--case=model=124M,ranks=2,variant={variant}" for variant in ("plain", "both")),
    )
    assert run.code == 0, run.stderr
    assert run.checks["ranks_agree"]["outcome"] == "passed"
