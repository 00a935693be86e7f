"""The suites on a real card. Run on a GPU machine with `pytest -m gpu`."""

from __future__ import annotations

import os
import statistics
import subprocess
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


def measure(tmp_path: Path, *arguments: str) -> Finished:
    environment = {
        **os.environ,
        "RENTBENCH_ROOT": str(REPOSITORY),
        "RENTBENCH_RESULTS": str(tmp_path / "results"),
    }
    ended = subprocess.run(
        command(*arguments, "--device", "cuda"),
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    return collect(tmp_path, ended.returncode, ended.stdout, ended.stderr)


@pytest.mark.parametrize("suite", ["gemm", "preflight"])
def test_smoke_runs_on_a_gpu(tmp_path: Path, suite: str) -> None:
    run = measure(tmp_path, suite, "--preset", "smoke")
    assert run.code == 0, run.stderr
    assert run.document is not None
    assert check(run.document, "measurement", folder=run.folder) == []
    assert run.checks["results_right"]["outcome"] == "passed"


def test_every_type_that_the_card_has_is_measured_and_right(tmp_path: Path) -> None:
    types = ("bf16", "fp16", "tf32", "fp32", "fp8", "int8")
    cases = [f"--case=op=matmul,dtype={dtype},size=2048,state=burst" for dtype in types]
    run = measure(tmp_path, "gemm", "--preset", "standard", "--repeats", "1", *cases)
    assert run.document is not None
    capability = torch.cuda.get_device_capability()
    for case in run.document["cases"]:
        least = {"bf16": (8, 0), "tf32": (8, 0), "fp8": (8, 9), "int8": (7, 5)}
        has_it = capability >= least.get(case["parameters"]["dtype"], (0, 0))
        assert case["status"] == ("ok" if has_it else "skipped"), case["error"] or case["reason"]


def test_a_burst_agrees_with_a_plain_loop(tmp_path: Path) -> None:
    """2048 is short enough that neither run comes near the power limit."""
    size = 2048
    arguments = ("--case", f"op=matmul,dtype=fp16,size={size},state=burst", "--repeats", "3")
    run = measure(tmp_path, "gemm", "--preset", "standard", *arguments)
    assert run.document is not None
    (measurement,) = [one for one in run.document["cases"][0]["measurements"] if one["metric"] == "tflops"]
    a, b = (torch.randn(size, size, device="cuda").half() for _ in range(2))
    c, flush = torch.empty_like(a), torch.empty(2**28, dtype=torch.int8, device="cuda")
    times = []
    for _ in range(200):
        flush.zero_()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        torch.mm(a, b, out=c)
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    plain = 2 * size**3 / statistics.median(times[50:]) / 1e12
    assert measurement["median"] == pytest.approx(plain, rel=0.05)
