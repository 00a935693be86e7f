"""A GPU run: a fake NVML under the real probe and sampler, and a stand-in for torch in the worker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.harness_runs import Finished, run

if TYPE_CHECKING:
    from support.fake_nvml import FakeNvml

FAKE_TORCH = Path(__file__).resolve().parents[1] / "fixtures" / "fake_torch"
MIB = 2**20


def measure(tmp_path: Path, how: str = "well", trouble: str = "", *arguments: str) -> Finished:
    return run(
        tmp_path,
        "uses-gpu",
        "--set",
        f"how={how}",
        *arguments,
        PYTHONPATH=str(FAKE_TORCH),
        RENTBENCH_FAKE_TORCH=trouble,
    )


def test_a_gpu_run_brings_telemetry_checks_and_peak_memory(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    fake_nvml.gpu(utilization=97, power_instant_mw=690_000, throttle_bits=4)
    finished = measure(tmp_path, "for three readings")
    assert finished.code == 0, finished.stderr
    document = finished.document
    assert document is not None
    assert document["preset"] == "standard"
    assert [gpu["name"] for gpu in document["host"]["gpus"]] == ["NVIDIA H200"]
    assert finished.folder is not None
    assert finished.folder.parent.name == "nvidia-h200"
    (gpu,) = document["telemetry"]["gpus"]
    assert gpu["summary"]["power_watts"]["max"] == 690
    assert gpu["throttle"].keys() == {"power_cap"}
    assert {name: check["outcome"] for name, check in finished.checks.items()} == {
        "gpus_complete": "passed",
        "gpu_idle_before": "passed",
        "gpu_used": "passed",
        "gpu_ours_alone": "passed",
        "not_throttled": "passed",
        "power_readings": "passed",
        "steady_state": "passed",
    }
    # The cache's flush buffer of 256 MiB comes on top, in each case after the first one too.
    assert finished.cases["a"]["peak_memory_bytes"] == 1280 * MIB
    assert finished.cases["c"]["peak_memory_bytes"] == 258 * MIB
    assert document["software"]["torch_cuda"] == "12.8"
    assert document["environment_variables"]["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert "telemetry.jsonl" in {artifact["name"] for artifact in document["artifacts"]}
    assert "power 690.0" in finished.text("log.txt")


@pytest.mark.parametrize(
    ("readings", "name", "severity", "status", "code"),
    [
        ({"memory_used": 10_000 * MIB}, "gpu_idle_before", "soft", "ok", 0),
        ({"compute_pids": "1,2"}, "gpu_ours_alone", "soft", "ok", 0),
        ({"throttle_bits": 0x40}, "not_throttled", "soft", "ok", 0),
    ],
)
def test_what_spoils_a_gpu_run_is_told(
    fake_nvml: FakeNvml,
    tmp_path: Path,
    readings: dict[str, object],
    name: str,
    severity: str,
    status: str,
    code: int,
) -> None:
    fake_nvml.gpu(utilization=97, **readings)
    finished = measure(tmp_path, "for three readings")
    assert finished.document is not None
    assert (finished.document["status"], finished.code) == (status, code)
    assert (finished.checks[name]["outcome"], finished.checks[name]["severity"]) == ("failed", severity)
    word = "INVALID" if severity == "hard" else "warning"
    assert f"{word}: {name}" in finished.stdout


def test_a_gpu_that_others_hold_is_refused_before_anything_runs(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    fake_nvml.gpu(utilization=97, memory_used=80_000 * MIB)
    finished = measure(tmp_path)
    assert finished.code == 3
    assert finished.document is not None
    error = finished.document["error"]
    assert error["kind"] == "gpu_busy"
    assert "56 % of a GPU's memory" in error["message"]
    assert "nvidia-smi" in error["hint"]
    assert not any(case["measurements"] for case in finished.document["cases"])


def test_smoke_runs_on_a_busy_gpu_and_is_invalid(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    fake_nvml.gpu(utilization=97, memory_used=80_000 * MIB)
    finished = measure(tmp_path, "well", "", "--preset", "smoke")
    assert finished.code == 3
    assert finished.document is not None
    assert finished.document["status"] == "invalid"
    assert finished.checks["gpu_idle_before"]["severity"] == "hard"
    assert "INVALID: gpu_idle_before" in finished.stdout
    assert "note: 56 % of a GPU's memory are in use by others" in finished.stderr


@pytest.mark.parametrize(
    ("readings", "note"),
    [
        ({"name": "GRID V100DX-16Q", "virtualization_mode": 2}, "is a virtual GPU"),
        ({"memory_used": 10_000 * MIB}, "7 % of a GPU's memory are in use by others"),
    ],
)
def test_what_a_reader_should_know_is_said_before_the_run(
    fake_nvml: FakeNvml, tmp_path: Path, readings: dict[str, object], note: str
) -> None:
    fake_nvml.gpu(utilization=97, **readings)
    finished = measure(tmp_path)
    before, _, _ = finished.stderr.partition("which=a")
    assert f"{note}" in before


def test_a_mig_slice_is_named_before_the_run(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    fake_nvml.gpu(utilization=97, mig_mode=1)
    fake_nvml.mig(
        0,
        0,
        uuid="MIG-00000000-aaaa-bbbb-cccc-0123456789ab",
        name="NVIDIA H200 MIG 3g.71gb",
        memory_total=71 << 30,
        memory_reserved=0,
        memory_used=9 << 20,
    )
    finished = measure(tmp_path)
    before, _, _ = finished.stderr.partition("which=a")
    assert "is a MIG slice (3g.71gb): its figures are not those of the whole GPU" in before


def test_a_gpu_that_rested_all_the_time_makes_the_run_invalid(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    fake_nvml.gpu(utilization=0)
    finished = measure(tmp_path, "for three readings while measuring")
    assert finished.code == 3
    assert finished.checks["gpu_used"]["outcome"] == "failed"


def test_an_unsteady_warm_up_is_a_warning(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    del fake_nvml
    finished = measure(tmp_path, "unsteady")
    assert finished.checks["steady_state"]["outcome"] == "failed"
    assert finished.code == 0


def test_out_of_memory_is_a_result_and_the_next_case_runs(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    del fake_nvml
    finished = measure(tmp_path, "out of memory")
    assert finished.code == 4
    error = finished.cases["b"]["error"]
    assert (error["kind"], error["phase"]) == ("oom", "measure")
    assert error["memory_allocated_bytes"] == 10 * 1024 * MIB + 256 * MIB
    assert finished.cases["c"]["status"] == "ok"
    assert finished.cases["c"]["peak_memory_bytes"] == 258 * MIB


def test_memory_of_a_workloads_own_processes_and_the_part_that_ran_out(
    fake_nvml: FakeNvml, tmp_path: Path
) -> None:
    del fake_nvml
    finished = measure(tmp_path, "out of memory in a part")
    error = finished.cases["b"]["error"]
    assert (error["kind"], error["phase"]) == ("oom", "backward")
    # As torch's message has it, not what is left when the worker asks.
    assert error["memory_allocated_bytes"] == int(39.6 * 2**30)
    assert finished.cases["c"]["peak_memory_bytes"] == 7 * MIB


def test_a_broken_context_costs_one_case(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    del fake_nvml
    finished = measure(tmp_path, "illegal access")
    statuses = {which: case["status"] for which, case in finished.cases.items()}
    assert statuses == {"a": "ok", "b": "failed", "c": "ok"}
    assert finished.cases["b"]["error"]["kind"] == "crashed"


@pytest.mark.parametrize(
    ("trouble", "kind"),
    [
        ("driver too old", "driver_too_old"),
        ("no device", "no_gpu"),
        ("no kernel image", "unsupported_arch"),
        ("cpu build", "dependency_missing"),
    ],
)
def test_torch_that_cannot_use_the_gpu_never_measures_the_cpu(
    fake_nvml: FakeNvml, tmp_path: Path, trouble: str, kind: str
) -> None:
    del fake_nvml
    finished = measure(tmp_path, "well", trouble)
    assert finished.code == 3
    assert finished.document is not None
    assert finished.document["error"]["kind"] == kind
    assert not any(case["measurements"] for case in finished.document["cases"])


def test_an_unsupported_gpu_is_named_with_what_torch_was_built_for(
    fake_nvml: FakeNvml, tmp_path: Path
) -> None:
    del fake_nvml
    finished = measure(tmp_path, "well", "no kernel image")
    assert finished.document is not None
    assert "the GPU is sm_70; this torch is built for sm_80, sm_90" in finished.document["error"]["message"]


def test_too_few_gpus_is_skipped_and_left_as_a_result(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    del fake_nvml
    finished = run(tmp_path, "needs-two-gpus")
    assert finished.code == 5
    assert finished.document is not None
    assert finished.document["error"]["kind"] == "too_few_gpus"
    assert {case["reason"] for case in finished.document["cases"]} == {"needs 2 GPUs, found 1"}


@pytest.mark.parametrize("arguments", [["needs-two-gpus"], ["well", "--device", "cuda", "--preset", "smoke"]])
@pytest.mark.usefixtures("no_gpu")
def test_no_gpu_is_a_failed_result_that_names_smoke(tmp_path: Path, arguments: list[str]) -> None:
    finished = run(tmp_path, *arguments)
    assert finished.code == 3
    assert finished.document is not None
    assert finished.document["error"]["kind"] == "no_gpu"
    assert "--preset smoke" in finished.document["error"]["hint"]
    assert finished.document["host"]["gpus"] == []


def test_a_gpu_with_a_broken_driver_is_not_replaced_by_the_cpu(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    fake_nvml.fault("nvmlInitWithFlags", "LIB_RM_VERSION_MISMATCH")
    finished = run(tmp_path, "well", "--preset", "smoke")
    assert finished.code == 3
    assert finished.document is not None
    assert finished.document["error"]["kind"] == "driver_mismatch"


def test_the_cpu_on_request_leaves_the_gpu_out_of_the_result(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    del fake_nvml
    finished = run(tmp_path, "well", "--preset", "smoke", "--device", "cpu")
    assert finished.code == 0
    assert finished.document is not None
    assert finished.document["host"]["gpus"] == []
    assert finished.document["telemetry"] is None
    assert finished.folder is not None
    assert finished.folder.parent.name == "cpu"
