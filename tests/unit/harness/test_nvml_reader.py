"""The reader that workloads use beside running kernels, against the fake library, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from support.fake_nvml import FakeNvml

READ = """
import json, sys
from dataclasses import asdict
assert "pynvml" not in sys.modules
from rentbench.harness.nvml import Reader
assert "pynvml" not in sys.modules  # imported on use only
reader = Reader()
readings = [asdict(reader.reading(index)) for index in range(int(sys.argv[1]))]
print(json.dumps({"reason": reader.reason, "count": reader.count, "readings": readings}, default=sorted))
reader.close()
"""


def read(count: int = 1, **environment: str) -> dict[str, Any]:
    finished = subprocess.run(
        [sys.executable, "-c", READ, str(count)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    found: dict[str, Any] = json.loads(finished.stdout)
    return found


def test_a_reading(fake_nvml: FakeNvml) -> None:
    fake_nvml.gpu(throttle_bits=0x1 | 0x4 | 0x20, utilization=97, memory_used=5 << 30)
    assert read() == {
        "reason": None,
        "count": 1,
        "readings": [
            {
                "power_watts": 132.43,
                "power_kind": "instant",
                "temperature_celsius": 38,
                "clock_sm_mhz": 1980,
                "clock_memory_mhz": 3201,
                "utilization_percent": 97,
                "memory_used_bytes": 5 << 30,
                "throttle": ["power_cap", "thermal_software"],
            }
        ],
    }


@pytest.mark.parametrize(
    ("architecture", "capability", "kind"),
    [
        (6, "7.5", "instant"),
        (7, "8.6", "average"),
        (9, "9.0", "average"),
        (7, "8.0", None),
        (None, "9.0", None),
    ],
)
def test_what_the_plain_power_reading_is(
    fake_nvml: FakeNvml, architecture: int | None, capability: str, kind: str | None
) -> None:
    fake_nvml.gpu(power_instant_mw=None, architecture=architecture, compute_capability=capability)
    reading = read()["readings"][0]
    assert (reading["power_watts"], reading["power_kind"]) == (131.75, kind)


def test_old_drivers_name_the_throttle_reasons_otherwise(fake_nvml: FakeNvml) -> None:
    fake_nvml.fault("nvmlDeviceGetCurrentClocksEventReasons", "FUNCTION_NOT_FOUND")
    fake_nvml.gpu(throttle_bits=0x80)
    assert read()["readings"][0]["throttle"] == ["power_brake"]


def test_what_is_not_supported_is_none(fake_nvml: FakeNvml) -> None:
    fake_nvml.gpu(power_instant_mw=None, power_mw=None, utilization=None, throttle_bits=None)
    reading = read()["readings"][0]
    assert reading["power_watts"] is reading["utilization_percent"] is reading["throttle"] is None
    assert reading["temperature_celsius"] == 38


def test_a_lost_gpu_reads_none(fake_nvml: FakeNvml) -> None:
    fake_nvml.fault("all", "GPU_IS_LOST", gpu=0)
    found = read()
    assert found["count"] == 1
    assert set(found["readings"][0].values()) == {None}


def test_the_index_is_cudas(fake_nvml: FakeNvml) -> None:
    fake_nvml.plug(3)
    for index in range(3):
        fake_nvml.gpu(index, temperature=40 + index)
    found = read(3, CUDA_VISIBLE_DEVICES="2,0")
    assert found["count"] == 2
    assert [reading["temperature_celsius"] for reading in found["readings"]] == [42, 40, None]


def test_of_a_mig_device_its_own_memory(fake_nvml: FakeNvml) -> None:
    fake_nvml.gpu(mig_mode=1, memory_used=50 << 30, utilization=None)
    fake_nvml.mig(0, 0, uuid="MIG-1-x", memory_total=10 << 30, memory_reserved=0, memory_used=3 << 30)
    reading = read()["readings"][0]
    assert (reading["memory_used_bytes"], reading["temperature_celsius"]) == (3 << 30, 38)


@pytest.mark.usefixtures("no_gpu")
def test_without_a_driver_there_is_a_reason() -> None:
    found = read()
    assert (found["count"], set(found["readings"][0].values())) == (0, {None})
    assert found["reason"] == "Failed to initialize NVML: NVML library not found (no NVIDIA driver here)"


def test_without_the_binding_there_is_a_reason(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    (tmp_path / "pynvml.py").write_text("raise ImportError")
    assert read(PYTHONPATH=str(tmp_path))["reason"] == "nvidia-ml-py is not installed"
    assert fake_nvml


def test_a_driver_that_was_changed(fake_nvml: FakeNvml) -> None:
    fake_nvml.fault("nvmlInitWithFlags", "LIB_RM_VERSION_MISMATCH")
    assert read()["reason"] == "Failed to initialize NVML: Driver/library version mismatch"
