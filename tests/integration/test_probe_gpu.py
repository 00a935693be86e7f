"""Probe and telemetry with a real NVIDIA GPU: two sources that must agree, and a counter that counts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from rentbench.harness.nvml import Reader
from rentbench.harness.probe import nvidia_smi
from rentbench.harness.probe.host import probe_host
from rentbench.harness.telemetry import TelemetryProcess, summarize

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.gpu

# nvidia-smi prints whole MiB; what is in use changes between two questions.
MEMORY = ("memory_total_bytes", "memory_usable_bytes")
SAMPLES = 5
CHANGING = ("memory_used_before_bytes", "pcie_generation", "name")


@pytest.fixture(autouse=True)
def _a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    reader = Reader()
    if not reader.count:
        pytest.skip(f"no NVIDIA GPU: {reader.reason}")
    reader.close()


def test_nvml_and_nvidia_smi_agree() -> None:
    probe = probe_host()
    inventory, _ = nvidia_smi.query(timeout_seconds=20)
    assert probe.gpu_problem is None
    assert probe.host["driver_version"] == inventory.driver_version
    for ours, theirs in zip(probe.host["gpus"], inventory.gpus, strict=True):
        assert ours["name"] == theirs.values["name"]
        for name, value in theirs.values.items():
            if name in MEMORY:
                assert ours[name] == pytest.approx(value, abs=2 << 20), name
            elif name not in CHANGING:
                assert ours[name] == value, name


def test_telemetry_of_a_real_gpu(tmp_path: Path) -> None:
    file = tmp_path / "telemetry.jsonl"
    with TelemetryProcess(file, interval_seconds=0.2):
        deadline = time.monotonic() + 30
        while not file.exists() or file.read_text().count('{"t":') <= SAMPLES:
            assert time.monotonic() < deadline, "the samples did not come in time"
            time.sleep(0.01)
    summary = summarize(file, [])
    assert summary.telemetry is not None
    for gpu in summary.telemetry["gpus"]:
        assert len(gpu["offsets_seconds"]) > SAMPLES
        assert 5 < gpu["summary"]["temperature_celsius"]["mean"] < 100
        assert gpu["energy"] is None or gpu["energy"]["joules"] > 0
