"""The suite through the real harness, to a folder and to an S3 API."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("moto")

from rentbench.core.validation import check
from support.faulty_s3 import BUCKET, faulty_s3
from support.harness_runs import REPOSITORY, Finished, collect, command

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"


def measure(tmp_path: Path, *arguments: str, **environment: str) -> Finished:
    ended = subprocess.run(
        command("interruption", "--preset", "smoke", "--device", "cpu", *arguments),
        env={
            **os.environ,
            "RENTBENCH_ROOT": str(REPOSITORY),
            "RENTBENCH_RESULTS": str(tmp_path / "results"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return collect(tmp_path, ended.returncode, ended.stdout, ended.stderr)


def values(case: dict[str, Any]) -> dict[str, float]:
    return {measurement["metric"]: measurement["values"][0] for measurement in case["measurements"]}


@pytest.mark.slow
def test_smoke_leaves_a_valid_result(tmp_path: Path) -> None:
    run = measure(tmp_path)
    assert run.code == 0, run.stderr
    assert run.document is not None
    assert check(run.document, "measurement", folder=run.folder) == []
    terminated, killed = run.document["cases"]
    assert terminated["parameters"] == {"size": "tiny", "signal": "SIGTERM"}
    assert (values(terminated)["lost_steps"], values(killed)["lost_steps"] >= 10) == (0, True)
    names = {"losses_identical", "repeated_losses_identical", "last_checkpoint_restored", "uploads_complete"}
    names |= {"stopped_in_time", "last_checkpoint_uploaded"}
    assert {name: run.checks[name]["outcome"] for name in names} == dict.fromkeys(names, "passed")
    assert run.document["weights"]["kind"] == "random"


@pytest.mark.slow
def test_checkpoints_go_to_s3_and_credentials_nowhere(tmp_path: Path) -> None:
    with faulty_s3() as api:
        api.reset()
        api.fail("error", containing="PUT", times=2)
        run = measure(
            tmp_path,
            *("--case", "size=tiny,signal=SIGTERM"),
            *(
                "--set",
                f"s3_bucket={BUCKET}",
                "--set",
                f"s3_endpoint={api.url}",
                "--set",
                "s3_region=us-east-1",
            ),
            AWS_ACCESS_KEY_ID="AKIAIOSFODNN7EXAMPLE",
            AWS_SECRET_ACCESS_KEY=SECRET,
            no_proxy="127.0.0.1",
        )
        assert run.code == 0, run.stderr
        assert run.checks["last_checkpoint_uploaded"]["outcome"] == "passed"
        assert api.names == []  # nothing is left to be paid for
        assert any("manifest.json" in line for line in api.requests)
    assert run.folder is not None
    for path in run.folder.iterdir():
        text = path.read_text()
        assert SECRET not in text
        assert "AKIAIOSFODNN7EXAMPLE" not in text
