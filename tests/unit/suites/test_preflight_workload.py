"""The preflight workload as the harness calls it, on the CPU."""

from __future__ import annotations

import base64
import statistics
from typing import TYPE_CHECKING, Any

import pytest

from support.suites import Recorded, gpu, host, load_workload, manifest

pytest.importorskip("torch")

from preflight_findings import Finding, summary

from rentbench.core.errors import ErrorKind
from rentbench.harness.context import CaseFailed, CaseSkipped

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    return Recorded("preflight", tmp_path, disk_folder=str(tmp_path))


@pytest.fixture
def workload(recorded: Recorded) -> ModuleType:
    module = load_workload("preflight")
    module.prepare(recorded.context)
    recorded.context.enter(0)
    return module


def test_every_case_of_smoke_runs_or_says_why_not(workload: ModuleType, recorded: Recorded) -> None:
    skipped = {}
    for index, case in enumerate(manifest("preflight").cases("smoke")):
        recorded.context.enter(index)
        try:
            workload.run(case, recorded.context)
        except CaseSkipped as skip:
            skipped[case["probe"]] = str(skip)
    assert skipped == {
        "network": "no URL was given (network_url)",
        "pcie": "no GPU in this run",
        "peers": "needs 2 GPUs, found 0",
    }
    assert {"cpu_cores", "disk_write", "tflops", "bandwidth", "tflops_first", "tflops_last"} <= set(
        recorded.values
    )


def test_nothing_about_a_gpu_is_claimed_on_a_cpu(workload: ModuleType, recorded: Recorded) -> None:
    for index, case in enumerate(manifest("preflight").cases("smoke")):
        recorded.context.enter(index)
        try:
            workload.run(case, recorded.context)
        except CaseSkipped:
            continue
    workload.finish(recorded.context)
    judged = {name for name, check in recorded.checks.items() if check["outcome"] != "not_checked"}
    assert judged <= {"shared_memory", "cpu_obtained", "cpu_steal", "results_right"}


def test_a_clone_counts_reading_and_writing(workload: ModuleType, recorded: Recorded) -> None:
    workload.run({"probe": "clone"}, recorded.context)
    elements = recorded.context.settings["clone_elements"]
    median = statistics.median(recorded.samples["bandwidth"])
    assert len(recorded.samples["bandwidth"]) == recorded.context.settings["clone_iterations"]
    assert recorded.values["bandwidth"] == pytest.approx(2 * 4 * elements / median / 1e9)


def test_a_product_is_2n3(workload: ModuleType, recorded: Recorded) -> None:
    workload.run({"probe": "matmul", "dtype": "fp32", "size": 128}, recorded.context)
    median = statistics.median(recorded.samples["tflops"])
    assert recorded.values["tflops"] == pytest.approx(2 * 128**3 / median / 1e12)


def test_the_long_load_leaves_its_samples(workload: ModuleType, recorded: Recorded) -> None:
    workload.run({"probe": "sustained"}, recorded.context)
    artifact = next(event for event in recorded.events if event["event"] == "artifact")
    assert artifact["name"] == "sustained-0.csv"
    assert len(base64.b64decode(artifact["base64"]).splitlines()) > 5


def test_a_rate_below_what_was_asked_for_is_a_warning(tmp_path: Path) -> None:
    recorded = Recorded("preflight", tmp_path, minimum_bandwidth=1e6)
    module = load_workload("preflight")
    recorded.context.enter(0)
    module.run({"probe": "clone"}, recorded.context)
    check = recorded.checks["memory_bandwidth"]
    assert (check["severity"], check["outcome"], check["limit"]) == ("soft", "failed", 1e6)


def test_a_download_that_fails_is_a_warning_and_a_failed_case(tmp_path: Path) -> None:
    recorded = Recorded("preflight", tmp_path, network_url="http://127.0.0.1:9/x?token=abcdef")
    module = load_workload("preflight")
    recorded.context.enter(0)
    with pytest.raises(CaseFailed) as failure:
        module.run({"probe": "network"}, recorded.context)
    assert failure.value.kind == ErrorKind.NETWORK
    assert recorded.checks["network_download"]["outcome"] == "failed"
    assert "abcdef" not in str(recorded.events)


def test_too_little_room_on_the_disk_is_told_before_it_is_full(tmp_path: Path) -> None:
    recorded = Recorded("preflight", tmp_path, disk_folder=str(tmp_path), disk_mebibytes=2**20)
    module = load_workload("preflight")
    recorded.context.enter(0)
    with pytest.raises(CaseFailed) as failure:
        module.run({"probe": "disk"}, recorded.context)
    assert failure.value.kind == ErrorKind.DISK_FULL


def test_a_folder_in_main_memory_is_no_disk(tmp_path: Path) -> None:
    recorded = Recorded("preflight", tmp_path, disk_folder="/dev/shm")
    module = load_workload("preflight")
    recorded.context.enter(0)
    with pytest.raises(CaseSkipped, match="disk_folder"):
        module.run({"probe": "disk"}, recorded.context)
    assert recorded.checks["disk_write"]["outcome"] == "not_checked"


@pytest.mark.parametrize("case", [{"probe": "matmul"}, {"probe": "clone", "size": 128}])
def test_a_case_with_other_parameters_is_refused(
    workload: ModuleType, recorded: Recorded, case: dict[str, Any]
) -> None:
    with pytest.raises(CaseFailed) as failure:
        workload.run(case, recorded.context)
    assert failure.value.kind == ErrorKind.USAGE


def test_the_verdict_is_logged_with_its_reasons(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded = Recorded("preflight", tmp_path, expect_gpu="H100", minimum_shm_mebibytes=4096)
    recorded.context.host = host(gpus=[gpu()])
    module = load_workload("preflight")
    module.prepare(recorded.context)
    module.finish(recorded.context)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "preflight: fail"
    assert "  gpu_model: ordered H100, found NVIDIA H200" in lines
    assert any(line.startswith("  shared_memory: ") for line in lines)


@pytest.mark.parametrize(
    ("findings", "verdict"),
    [
        ([], "pass"),
        ([(None, "hard"), (True, "hard")], "pass"),
        ([(False, "soft"), (True, "hard")], "warn"),
        ([(False, "soft"), (False, "hard")], "fail"),
    ],
)
def test_verdicts(findings: list[tuple[bool | None, Any]], verdict: str) -> None:
    made = [
        Finding(name="x", passed=passed, detail="why", severity=severity) for passed, severity in findings
    ]
    assert summary(made)[0] == verdict
