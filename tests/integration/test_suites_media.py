"""Speech to text and image generation through the real harness, as a user runs them."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from rentbench.core.manifests import load_suites
from rentbench.core.validation import check
from support.harness_runs import REPOSITORY, Finished, collect, command

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("torch")
pytest.importorskip("faster_whisper")
pytest.importorskip("diffusers")

PATIENCE = 240
pytestmark = pytest.mark.slow


def smoke(tmp_path: Path, suite: str, *arguments: str, **environment: str) -> Finished:
    ended = subprocess.run(
        command(suite, "--preset", "smoke", "--repeats", "1", "--device", "cpu", *arguments),
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
    if run.document is not None:
        assert check(run.document, "measurement", folder=run.folder) == []
    return run


@pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="espeak-ng is not installed")
def test_speech_to_text_smoke_leaves_a_valid_result(tmp_path: Path) -> None:
    run = smoke(tmp_path, "speech-to-text")
    assert run.code == 0, run.stderr
    assert run.document is not None
    cases = {tuple(case["parameters"].values()): case for case in run.document["cases"]}
    assert len(cases) == len(load_suites()["speech-to-text"].cases("smoke"))
    ok = {key for key, case in cases.items() if case["status"] == "ok"}
    assert {kind for kind, _ in ok} == {"float32", "int8_float32"}
    assert {case["status"] for key, case in cases.items() if key not in ok} == {"skipped"}
    assert run.checks["compute_type"]["outcome"] == "passed"
    assert run.checks["work_fixed"]["outcome"] == "passed"
    assert "not meaningful" in run.checks["text_recognized"]["detail"]
    assert run.document["weights"]["kind"] == "random"
    assert run.document["data"]["name"] == "espeak-ng"
    assert {"faster-whisper", "ctranslate2", "onnxruntime"} <= set(run.document["software"])
    assert "x real time" in run.stdout


def test_without_espeak_the_run_says_what_to_install(tmp_path: Path) -> None:
    run = smoke(tmp_path, "speech-to-text", PATH=str(tmp_path))
    assert run.code == 3
    assert run.document is not None
    error = run.document["error"]
    assert error["kind"] == "dependency_missing"
    assert "espeak-ng" in error["message"]
    assert "install" in error["hint"]


def test_image_generation_smoke_leaves_a_valid_result(tmp_path: Path) -> None:
    run = smoke(tmp_path, "image-generation")
    assert run.code == 0, run.stderr
    assert run.document is not None
    cases = {case["parameters"]["mode"]: case for case in run.document["cases"]}
    assert {case["status"] for case in cases.values()} == {"ok"}
    assert cases["compile"]["phases"]["compile"] > 0
    assert cases["eager"]["phases"].get("compile") is None
    assert run.checks["images_sane"]["outcome"] == "passed"
    assert run.document["weights"]["kind"] == "random"
    assert {"diffusers", "transformers", "torch"} <= set(run.document["software"])
    assert "images/s" in run.stdout
