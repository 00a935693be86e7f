"""The host probe on machines of many kinds: with NVML, with nvidia-smi only, with faults, without any GPU."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from rentbench.core.schemas import schema
from rentbench.harness.probe.host import HostProbe, probe_host

if TYPE_CHECKING:
    from support.fake_nvml import FakeNvml

XML = Path(__file__).parents[2] / "fixtures" / "nvidia_smi"


def check(probe: HostProbe) -> None:
    """The host fits its schema, every null has a reason, and every reason has a null."""
    whole = schema("measurement")
    jsonschema.validate(probe.host, {"$defs": whole["$defs"], "$ref": "#/$defs/host"})
    jsonschema.validate(probe.unavailable, {"$defs": whole["$defs"], "$ref": "#/$defs/unavailable"})
    assert {entry["path"] for entry in probe.unavailable} == set(nulls(probe.host, "/host"))


def nulls(value: Any, pointer: str) -> list[str]:
    if value is None:
        return [pointer]
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    return [found for key, child in children for found in nulls(child, f"{pointer}/{key}")]


def reason(probe: HostProbe, path: str) -> str:
    return next(entry["reason"] for entry in probe.unavailable if entry["path"] == path)


@pytest.mark.usefixtures("fake_nvml")
def test_one_h200() -> None:
    probe = probe_host()
    check(probe)
    gpu = probe.host["gpus"][0]
    assert gpu.pop("uuid_hash").startswith("sha256:")
    assert gpu == {
        "name": "NVIDIA H200",
        "vendor": "nvidia",
        "memory_total_bytes": 143771 << 20,
        "memory_usable_bytes": (143771 - 616) << 20,
        "memory_used_before_bytes": 0,
        "compute_capability": "9.0",
        "vbios": "96.00.CC.00.0D",
        "power_limit_watts": 700.0,
        "power_limit_default_watts": 700.0,
        "power_limit_max_watts": 700.0,
        "clock_max_sm_mhz": 1980,
        "clock_max_memory_mhz": 3201,
        "ecc_enabled": True,
        "ecc_uncorrected_errors": 0,
        "remapped_rows": {"correctable": 0, "uncorrectable": 0, "pending": False, "failed": False},
        "persistence_mode": True,
        "mig_mode": False,
        "mig_profile": None,
        "vgpu": False,
        "pcie_generation": 5,
        "pcie_generation_max": 5,
        "pcie_width": 16,
        "pcie_width_max": 16,
        "numa_node": None,
    }
    assert probe.host["driver_version"] == "580.159.04"
    assert probe.host["cuda_driver_version"] == "13.0"
    assert probe.host["topology"] == {"matrix": [["X"]], "summary": "single"}
    assert probe.gpu_problem is None


def test_identifiers_do_not_come_out(fake_nvml: FakeNvml) -> None:
    fake_nvml.plug(2)
    text = repr(probe_host())
    assert "aaaa-bbbb-cccc" not in text
    assert "16550240" not in text


def test_the_uuid_hash_tells_gpus_apart_but_not_machines(fake_nvml: FakeNvml) -> None:
    fake_nvml.plug(2)
    first, second = (
        [gpu["uuid_hash"] for gpu in probe.host["gpus"]] for probe in (probe_host(), probe_host())
    )
    assert len({*first, *second}) == 4


def test_a_function_that_is_not_supported_is_null_and_the_reason_says_so(fake_nvml: FakeNvml) -> None:
    fake_nvml.fault("nvmlDeviceGetRemappedRows", "NOT_SUPPORTED")
    fake_nvml.fault("nvmlDeviceGetPowerManagementLimit", "NO_PERMISSION")
    probe = probe_host()
    check(probe)
    assert probe.host["gpus"][0]["remapped_rows"] is None
    assert reason(probe, "/host/gpus/0/remapped_rows") == "NVML: Not Supported"
    assert reason(probe, "/host/gpus/0/power_limit_watts") == "NVML: Insufficient Permissions"


def test_an_old_driver_does_not_tell_what_it_reserves(fake_nvml: FakeNvml) -> None:
    fake_nvml.fault("nvmlDeviceGetMemoryInfo_v2", "FUNCTION_NOT_FOUND")
    gpu = probe_host().host["gpus"][0]
    assert (gpu["memory_total_bytes"], gpu["memory_usable_bytes"]) == (143771 << 20, None)


def test_eight_gpus_with_their_links(fake_nvml: FakeNvml) -> None:
    fake_nvml.plug(8)
    probe = probe_host()
    check(probe)
    assert len(probe.host["gpus"]) == 8
    assert probe.host["topology"]["summary"] == "NVLink"


def test_only_the_gpus_that_cuda_sees_in_its_order(fake_nvml: FakeNvml) -> None:
    fake_nvml.plug(4)
    fake_nvml.gpu(2, name="NVIDIA A40")
    probe = probe_host(environment={"CUDA_VISIBLE_DEVICES": "2,0"})
    check(probe)
    assert [gpu["name"] for gpu in probe.host["gpus"]] == ["NVIDIA A40", "NVIDIA H200"]
    assert probe.host["topology"]["matrix"] == [["X", "NV18"], ["NV18", "X"]]


@pytest.mark.usefixtures("fake_nvml")
def test_hidden_gpus_are_no_gpus() -> None:
    probe = probe_host(environment={"CUDA_VISIBLE_DEVICES": ""})
    check(probe)
    assert probe.host["gpus"] == []
    assert probe.gpu_problem == "CUDA_VISIBLE_DEVICES='' hides all GPUs"
    assert probe.host["driver_version"] == "580.159.04"


def test_a_mig_slice_is_not_the_whole_gpu(fake_nvml: FakeNvml) -> None:
    fake_nvml.gpu(mig_mode=1, name="NVIDIA H100 80GB HBM3")
    for number, (profile, mib) in enumerate([("3g.40gb", 40448), ("1g.10gb", 9984)]):
        fake_nvml.mig(
            0,
            number,
            uuid=f"MIG-0000000{number}-aaaa-bbbb-cccc-0123456789ab",
            name=f"NVIDIA H100 80GB HBM3 MIG {profile}",
            memory_total=mib << 20,
            memory_reserved=0,
            memory_used=9 << 20,
        )
    probe = probe_host()
    check(probe)
    assert len(probe.host["gpus"]) == 1
    gpu = probe.host["gpus"][0]
    assert (gpu["mig_mode"], gpu["mig_profile"], gpu["memory_total_bytes"]) == (True, "3g.40gb", 40448 << 20)
    chosen = probe_host(environment={"CUDA_VISIBLE_DEVICES": "MIG-00000001"}).host["gpus"][0]
    assert (chosen["mig_profile"], chosen["memory_total_bytes"]) == ("1g.10gb", 9984 << 20)
    assert "MIG-0000" not in repr(probe)


def test_mig_without_a_device_leaves_nothing_to_run_on(fake_nvml: FakeNvml) -> None:
    fake_nvml.gpu(mig_mode=1)
    probe = probe_host()
    check(probe)
    assert (probe.host["gpus"], probe.gpu_problem) == ([], "the GPU is in MIG mode and has no MIG device")


@pytest.mark.parametrize(
    ("values", "vgpu"),
    [
        ({"name": "GRID V100DX-16Q", "virtualization_mode": 2}, True),
        ({"name": "GRID V100DX-16Q", "virtualization_mode": None}, True),
        ({"name": "NVIDIA A40-48Q", "virtualization_mode": None}, True),
        ({"name": "NVIDIA A40", "virtualization_mode": 1}, False),
        ({"name": "NVIDIA A40", "virtualization_mode": None}, None),
    ],
)
def test_virtual_gpus_keep_their_raw_name(
    fake_nvml: FakeNvml, values: dict[str, Any], vgpu: bool | None
) -> None:
    fake_nvml.gpu(**values)
    probe = probe_host()
    check(probe)
    assert (probe.host["gpus"][0]["name"], probe.host["gpus"][0]["vgpu"]) == (values["name"], vgpu)


def test_a_driver_that_was_changed_without_a_reboot(fake_nvml: FakeNvml) -> None:
    fake_nvml.fault("nvmlInitWithFlags", "LIB_RM_VERSION_MISMATCH")
    probe = probe_host()
    check(probe)
    assert probe.host["gpus"] == []
    assert "Failed to initialize NVML: Driver/library version mismatch" in (probe.gpu_problem or "")


def test_nvml_hangs_and_nvidia_smi_answers(fake_nvml: FakeNvml) -> None:
    fake_nvml.fault("nvmlInitWithFlags", "hang")
    (fake_nvml.nvidia_smi / "query.xml").write_text((XML / "h200-580.xml").read_text())
    (fake_nvml.nvidia_smi / "query.csv").write_text(
        "uuid, compute_cap\nGPU-11111111-2222-3333-4444-555555555555, 9.0\n"
    )
    begun = time.monotonic()
    probe = probe_host(timeout_seconds=1.5)
    assert time.monotonic() - begun < 6
    check(probe)
    gpu = probe.host["gpus"][0]
    assert (gpu["name"], gpu["compute_capability"], gpu["power_limit_watts"]) == ("NVIDIA H200", "9.0", 700.0)
    assert "GPU-11111111" not in probe.outputs["nvidia-smi.xml"]
    assert "1650522003820" not in probe.outputs["nvidia-smi.xml"]
    assert "/home/alice/secret-job" not in probe.outputs["nvidia-smi.xml"]
    assert "580.159.04" in probe.outputs["nvidia-smi.xml"]


def test_everything_hangs_and_the_probe_comes_back(fake_nvml: FakeNvml) -> None:
    fake_nvml.fault("nvmlInitWithFlags", "hang")
    (fake_nvml.nvidia_smi / "hang").touch()
    begun = time.monotonic()
    probe = probe_host(timeout_seconds=0.5)
    assert time.monotonic() - begun < 5
    check(probe)
    assert probe.host["gpus"] == []
    assert "nvidia-smi gave no answer within 0.5 s and was killed" in (probe.gpu_problem or "")


def test_what_was_read_before_a_gpu_hung_is_kept(fake_nvml: FakeNvml) -> None:
    fake_nvml.plug(3)
    fake_nvml.fault("nvmlDeviceGetEccMode", "hang", gpu=1)
    (fake_nvml.nvidia_smi / "hang").touch()
    probe = probe_host(timeout_seconds=1.5)
    check(probe)
    assert [gpu["name"] for gpu in probe.host["gpus"]] == ["NVIDIA H200", "unknown", "unknown"]
    assert "gave no answer within 1.5 s" in (probe.gpu_problem or "")


def test_a_lost_gpu_is_told(fake_nvml: FakeNvml) -> None:
    fake_nvml.plug(2)
    fake_nvml.fault("nvmlDeviceGetHandleByIndex_v2", "GPU_IS_LOST", gpu=1)
    probe = probe_host()
    check(probe)
    assert [gpu["name"] for gpu in probe.host["gpus"]] == ["NVIDIA H200", "unknown"]
    assert probe.gpu_problem == "NVML: GPU is lost"


def test_no_topology_is_a_gap_and_no_end(fake_nvml: FakeNvml) -> None:
    (fake_nvml.nvidia_smi / "topo.txt").write_text("ERROR: Option -m is missing its value.\n")
    (fake_nvml.nvidia_smi / "topo.txt.rc").write_text("255")
    probe = probe_host()
    check(probe)
    assert probe.host["topology"] is None
    assert "exit code 255: ERROR: Option -m is missing its value." in reason(probe, "/host/topology")


@pytest.mark.usefixtures("no_gpu")
def test_a_machine_without_a_gpu(tmp_path: Path) -> None:
    probe = probe_host(disk=tmp_path / "not" / "there" / "yet")
    check(probe)
    assert probe.host["gpus"] == []
    assert "NVML library not found" in (probe.gpu_problem or "")
    assert probe.host["cpu"]["usable_cores"] == len(os.sched_getaffinity(0))
    assert probe.host["memory"]["total_bytes"] > 1 << 20
    assert probe.host["disk"]["total_bytes"] >= probe.host["disk"]["free_bytes"] > 0
    assert probe.host["disk"]["filesystem"]
    assert probe.host["kernel"] == os.uname().release


@pytest.mark.usefixtures("no_gpu")
def test_without_the_binding_the_reason_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "pynvml.py").write_text("raise ImportError('not here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    probe = probe_host()
    check(probe)
    assert "nvidia-ml-py is not installed" in (probe.gpu_problem or "")
