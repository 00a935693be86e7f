"""The telemetry process against a fake NVML: it samples, it survives faults, and it always ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rentbench.harness.telemetry import TelemetryProcess, TelemetrySummary, summarize
from rentbench.harness.telemetry.foreign import unreliable_because

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.fake_nvml import FakeNvml

EVER = [(0.0, 1e12)]
INTERVAL = 0.1

PARENT = f"""
import sys, time
from pathlib import Path
from rentbench.harness.telemetry import TelemetryProcess
process = TelemetryProcess(Path(sys.argv[1]), interval_seconds={INTERVAL})
process.start()
print(process.pid, flush=True)
time.sleep(600)
"""


def lines(file: Path) -> list[dict[str, Any]]:
    text = file.read_text() if file.exists() else ""
    return [json.loads(line) for line in text.splitlines() if line.endswith("}")]


def wait_for(condition: Callable[[], object], seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def samples(file: Path) -> list[dict[str, Any]]:
    return [line for line in lines(file) if "t" in line]


def wait_for_samples(file: Path, count: int) -> None:
    """Wait for so many more samples."""
    have = len(samples(file))
    wait_for(lambda: len(samples(file)) >= have + count)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def gpu_of(summary: TelemetrySummary, index: int = 0) -> dict[str, Any]:
    assert summary.telemetry is not None
    return summary.telemetry["gpus"][index]


def reasons(summary: TelemetrySummary) -> dict[str, str]:
    return {entry["path"]: entry["reason"] for entry in summary.unavailable}


def test_readings_change_while_it_runs(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    file = tmp_path / "telemetry.jsonl"
    with TelemetryProcess(file, interval_seconds=INTERVAL):
        wait_for_samples(file, 2)
        fake_nvml.gpu(power_instant_mw=700_000, temperature=81, throttle_bits=0x4 | 0x40, energy_mj=1_500_000)
        begun = time.monotonic()
        wait_for_samples(file, 4)
        ended = time.monotonic()
        fake_nvml.gpu(throttle_bits=1)
        wait_for_samples(file, 2)
    summary = summarize(file, [(begun, ended)], gpu_count=1)
    gpu = gpu_of(summary)
    assert gpu["summary"]["power_watts"]["min"] == 132.43
    assert gpu["summary"]["power_watts"]["max"] == 700.0
    assert gpu["summary"]["temperature_celsius"]["max"] == 81
    assert gpu["energy"] == {"joules": 500.0, "source": "counter"}
    assert set(gpu["throttle"]) == {"power_cap", "thermal_hardware"}
    assert 3 <= gpu["throttle"]["power_cap"] <= 5
    assert summary.power_kinds == ["instant"]
    assert summary.link_under_load == [(5, 16)]
    assert summary.telemetry is not None
    assert summary.telemetry["interval_seconds"] == INTERVAL


@pytest.mark.usefixtures("fake_nvml")
def test_it_ends_on_sigterm(tmp_path: Path) -> None:
    file = tmp_path / "telemetry.jsonl"
    process = TelemetryProcess(file, interval_seconds=INTERVAL)
    process.start()
    wait_for_samples(file, 1)
    pid = process.pid
    assert pid
    os.kill(pid, signal.SIGTERM)
    wait_for(lambda: not alive(pid), 3)
    assert lines(file)[-1]["why"] == "SIGTERM"
    process.stop()


@pytest.mark.usefixtures("fake_nvml")
def test_it_ends_when_standard_input_closes(tmp_path: Path) -> None:
    file = tmp_path / "telemetry.jsonl"
    with TelemetryProcess(file, interval_seconds=INTERVAL) as process:
        wait_for_samples(file, 1)
        pid = process.pid
    assert pid
    assert not alive(pid)
    assert lines(file)[-1]["why"] == "standard input ended"


@pytest.mark.usefixtures("fake_nvml")
def test_it_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "telemetry.jsonl"
    with subprocess.Popen([sys.executable, "-c", PARENT, str(file)], stdout=subprocess.PIPE) as process:
        assert process.stdout
        pid = int(process.stdout.readline())
        wait_for_samples(file, 1)
        process.kill()
    wait_for(lambda: not alive(pid), 3)


@pytest.mark.parametrize("moment", ["at the start", "later"])
def test_it_ends_although_nvml_hangs(fake_nvml: FakeNvml, tmp_path: Path, moment: str) -> None:
    file = tmp_path / "telemetry.jsonl"
    if moment == "at the start":
        fake_nvml.fault("nvmlInitWithFlags", "hang")
    process = TelemetryProcess(file, interval_seconds=INTERVAL)
    process.start()
    if moment == "later":
        wait_for_samples(file, 2)
        fake_nvml.fault("nvmlDeviceGetTemperature", "hang")
        wait_for_samples(file, 2)
    else:
        wait_for(lambda: lines(file))
    pid = process.pid
    assert pid
    begun = time.monotonic()
    process.stop()
    assert time.monotonic() - begun < 3
    assert not alive(pid)
    summary = summarize(file, EVER)
    if moment == "later":
        assert gpu_of(summary)["series"]["power_watts"][0] == 132.43
        assert gpu_of(summary)["series"]["power_watts"][-1] is None
    else:
        assert reasons(summary) == {"/telemetry": "NVML did not answer before the end"}


def test_one_gpu_that_hangs_does_not_take_the_other(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    fake_nvml.plug(2)
    file = tmp_path / "telemetry.jsonl"
    with TelemetryProcess(file, interval_seconds=INTERVAL):
        wait_for_samples(file, 1)
        fake_nvml.fault("nvmlDeviceGetUtilizationRates", "hang", gpu=0)
        wait_for_samples(file, 4)
    summary = summarize(file, EVER, gpu_count=2)
    assert gpu_of(summary, 0)["series"]["temperature_celsius"][-2:] == [None, None]
    assert gpu_of(summary, 1)["series"]["temperature_celsius"][-2:] == [38, 38]
    assert "NVML gave no answer in time" in reasons(summary)["/telemetry/gpus/0/series/temperature_celsius"]


def test_a_lost_gpu_leaves_nulls_and_a_reason(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    file = tmp_path / "telemetry.jsonl"
    with TelemetryProcess(file, interval_seconds=INTERVAL):
        wait_for_samples(file, 2)
        fake_nvml.fault("all", "GPU_IS_LOST", gpu=0)
        wait_for_samples(file, 5)
    summary = summarize(file, EVER)
    gpu = gpu_of(summary)
    assert gpu["series"]["power_watts"][0] == 132.43
    assert gpu["series"]["power_watts"][-1] is None
    assert gpu["energy"] is None
    assert "GPU is lost" in reasons(summary)["/telemetry/gpus/0/series/power_watts"]
    assert "GPU is lost" in reasons(summary)["/telemetry/gpus/0/energy"]


def test_without_a_counter_the_power_is_integrated(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    fake_nvml.gpu(energy_mj=None, power_instant_mw=None, power_mw=200_000)
    file = tmp_path / "telemetry.jsonl"
    with TelemetryProcess(file, interval_seconds=INTERVAL):
        wait_for_samples(file, 5)
    summary = summarize(file, EVER)
    stamps = [line["t"] for line in samples(file)]
    energy = gpu_of(summary)["energy"]
    assert energy["source"] == "integrated_power"
    assert energy["joules"] == pytest.approx(200 * (stamps[-1] - stamps[0]), abs=0.01)
    assert summary.power_kinds == ["average"]


def test_without_power_and_counter_the_energy_is_null_not_zero(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    fake_nvml.gpu(energy_mj=0, power_instant_mw=None, power_mw=None)
    file = tmp_path / "telemetry.jsonl"
    with TelemetryProcess(file, interval_seconds=INTERVAL):
        wait_for_samples(file, 3)
    gpu = gpu_of(summarize(file, EVER))
    assert gpu["energy"] is None
    assert gpu["summary"]["power_watts"] is None


def test_processes_of_others_are_counted_and_ours_are_not(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    if unreliable_because():
        pytest.skip("in a container with process ids of its own, nothing is counted")
    file = tmp_path / "telemetry.jsonl"
    with subprocess.Popen(["sleep", "600"]) as ours, TelemetryProcess(file, interval_seconds=INTERVAL):
        gone = subprocess.run(["sh", "-c", "echo $$"], capture_output=True, check=True)
        fake_nvml.gpu(compute_pids=f"{ours.pid},1,{int(gone.stdout)}", graphics_pids="1")
        wait_for_samples(file, 3)
        ours.kill()
    assert gpu_of(summarize(file, EVER))["foreign_processes"] == 1


def test_process_ids_that_the_driver_hides_are_not_counted(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    fake_nvml.gpu(compute_pids="0,1")
    file = tmp_path / "telemetry.jsonl"
    with TelemetryProcess(file, interval_seconds=INTERVAL):
        wait_for_samples(file, 2)
    summary = summarize(file, EVER)
    assert gpu_of(summary)["foreign_processes"] is None
    assert reasons(summary)["/telemetry/gpus/0/foreign_processes"]


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_it_ends_by_itself_and_says_why(tmp_path: Path) -> None:
    file = tmp_path / "telemetry.jsonl"
    process = TelemetryProcess(file)
    process.start()
    wait_for(lambda: process.pid is None)
    process.stop()
    summary = summarize(file, EVER)
    assert summary.telemetry is None
    assert "NVML library not found" in reasons(summary)["/telemetry"]
