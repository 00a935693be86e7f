"""The suites of several ranks, with gloo on the CPU: documents, checks, figures."""

from __future__ import annotations

import os
import subprocess
import uuid
from typing import TYPE_CHECKING

import pytest

from rentbench.core.validation import check
from support.harness_runs import REPOSITORY, Finished, collect, command
from support.ranks import MARK, alive
from support.suites import Recorded, load_workload

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("torch")

pytestmark = pytest.mark.slow


def smoke(tmp_path: Path, suite: str) -> Finished:
    """Run a suite's smoke preset; no process may be left, and the document must be valid."""
    mark = uuid.uuid4().hex
    ended = subprocess.run(
        command(suite, "--preset", "smoke", "--device", "cpu"),
        env={
            **os.environ,
            "RENTBENCH_ROOT": str(REPOSITORY),
            "RENTBENCH_RESULTS": str(tmp_path / "results"),
            "PYTHONDONTWRITEBYTECODE": "1",
            MARK: mark,
        },
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert alive(mark) == []
    run = collect(tmp_path, ended.returncode, ended.stdout, ended.stderr)
    assert run.code == 0, run.stderr
    assert run.document is not None
    assert check(run.document, "measurement", folder=run.folder) == []
    return run


def values(run: Finished, number: int) -> dict[str, float]:
    assert run.document is not None
    case = run.document["cases"][number]
    return {measurement["metric"]: measurement["median"] for measurement in case["measurements"]}


def test_allreduce_smoke_leaves_a_valid_result(tmp_path: Path) -> None:
    run = smoke(tmp_path, "allreduce")
    assert run.document is not None
    assert run.checks["results_right"]["outcome"] == "passed"
    small, large = values(run, 0), values(run, 2)
    assert small["algorithm_bandwidth"] == pytest.approx(32768 / small["time"] / 1e3)
    assert large["bus_bandwidth"] == pytest.approx(large["algorithm_bandwidth"])  # two ranks
    assert "flatness" not in values(run, 1)
    assert 0 < large["flatness"] <= 1
    # The second size needed no new start: loading is the first one's.
    first, second = (case["phases"] for case in run.document["cases"][:2])
    assert first["load"] > 0
    assert not second.get("load")


def test_ddp_training_smoke_leaves_a_valid_result(tmp_path: Path) -> None:
    run = smoke(tmp_path, "ddp-training")
    assert run.document is not None
    one, two, both = (values(run, number) for number in range(3))
    assert [found["tokens_per_step"] for found in (one, two, both)] == [64, 2 * 64, 4 * 2 * 64]
    assert "gradient_bytes" not in one
    assert two["gradient_bytes"] == 4 * 29_728
    assert both["gradient_bytes"] == 2 * 29_728
    assert two["all_reduce_bus_bandwidth"] == pytest.approx(two["all_reduce_algorithm_bandwidth"])
    assert run.checks["ranks_agree"]["outcome"] == "passed"
    assert run.checks["loss_finite"]["outcome"] == "passed"
    assert run.document["weights"]["kind"] == "random"


def test_four_ranks_reduce_and_are_right(tmp_path: Path) -> None:
    recorded = Recorded("allreduce", tmp_path)
    recorded.context.enter(0)
    workload = load_workload("allreduce")
    workload.run({"ranks": 4, "variant": "default", "bytes": 32768}, recorded.context)
    workload.finish(recorded.context)
    found = recorded.values
    assert found["bus_bandwidth"] == pytest.approx(1.5 * found["algorithm_bandwidth"])
    assert recorded.checks["results_right"]["value"] == 0


def test_four_ranks_train_and_agree(tmp_path: Path) -> None:
    recorded = Recorded("ddp_training", tmp_path)
    recorded.context.enter(0)
    load_workload("ddp_training").run({"model": "tiny", "ranks": 4, "variant": "both"}, recorded.context)
    assert recorded.values["tokens_per_step"] == 4 * 4 * 64
    assert recorded.checks["ranks_agree"]["value"] == 1
