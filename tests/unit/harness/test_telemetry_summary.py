"""From telemetry files, whole and broken ones, to what a document keeps."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from rentbench.core.schemas import schema
from rentbench.harness.telemetry.sampler import COLUMNS
from rentbench.harness.telemetry.summary import TelemetrySummary, summarize

if TYPE_CHECKING:
    from pathlib import Path

HEADER = {
    "telemetry": 1,
    "started": "2026-11-30T22:05:00.000Z",
    "monotonic": 100.0,
    "interval": 1.0,
    "columns": COLUMNS,
}
READING: dict[str, Any] = {
    "power_watts": 100.0,
    "power_kind": "instant",
    "temperature_celsius": 40,
    "clock_sm_mhz": 1980,
    "clock_memory_mhz": 3201,
    "utilization_percent": 100,
    "memory_used_bytes": 1 << 30,
    "energy_millijoules": None,
    "throttle_bits": 1,
    "foreign_processes": 0,
    "pcie_generation": 5,
    "pcie_width": 16,
}


def row(**values: object) -> list[object]:
    return [{**READING, **values}[column] for column in COLUMNS]


def write(folder: Path, *samples: tuple[float, list[object] | None], count: int = 1, extra: str = "") -> Path:
    lines = [json.dumps(HEADER), json.dumps({"gpus": count, "problem": None})]
    lines += [json.dumps({"t": stamp, "gpus": [values]}) for stamp, values in samples]
    file = folder / "telemetry.jsonl"
    file.write_text("\n".join(lines) + "\n" + extra)
    return file


def gpu(summary: TelemetrySummary) -> dict[str, Any]:
    assert summary.telemetry is not None
    whole = schema("measurement")
    jsonschema.validate(summary.telemetry, {"$defs": whole["$defs"], "$ref": "#/$defs/telemetry"})
    jsonschema.validate(summary.unavailable, {"$defs": whole["$defs"], "$ref": "#/$defs/unavailable"})
    found: dict[str, Any] = summary.telemetry["gpus"][0]
    return found


def test_the_counter_beats_the_integral(tmp_path: Path) -> None:
    file = write(tmp_path, *((100.0 + t, row(energy_millijoules=5_000_000 + 150_000 * t)) for t in range(5)))
    assert gpu(summarize(file, []))["energy"] == {"joules": 600.0, "source": "counter"}


@pytest.mark.parametrize(
    "counter",
    [[0, 0, 0, 0, 0], [7, 7, 7, 7, 7], [900, 950, 20, 70, 120], [1, None, None, None, None], [None] * 5],
    ids=["zero", "stuck", "reset", "lost", "none"],
)
def test_a_counter_that_does_not_count_is_replaced_by_the_integral(
    tmp_path: Path, counter: list[int | None]
) -> None:
    file = write(tmp_path, *((100.0 + t, row(energy_millijoules=value)) for t, value in enumerate(counter)))
    assert gpu(summarize(file, []))["energy"] == {"joules": 400.0, "source": "integrated_power"}


def test_power_with_a_hole_gives_no_energy(tmp_path: Path) -> None:
    holes = [None if 2 <= t <= 5 else 100.0 for t in range(8)]
    summary = summarize(
        write(tmp_path, *((100.0 + t, row(power_watts=value)) for t, value in enumerate(holes))), []
    )
    assert gpu(summary)["energy"] is None
    assert "/telemetry/gpus/0/energy" in {entry["path"] for entry in summary.unavailable}
    short = [None if t == 3 else 100.0 for t in range(8)]
    file = write(tmp_path, *((100.0 + t, row(power_watts=value)) for t, value in enumerate(short)))
    assert gpu(summarize(file, []))["energy"] == {"joules": 700.0, "source": "integrated_power"}


def test_throttle_reasons_count_inside_the_windows_only(tmp_path: Path) -> None:
    bits = [0x4, 0x1, 0x4 | 0x40, 0x4, 0x8, 0x4]
    file = write(tmp_path, *((100.0 + t, row(throttle_bits=value)) for t, value in enumerate(bits)))
    summary = summarize(file, [(101.0, 102.5), (104.0, 104.0)])
    assert gpu(summary)["throttle"] == {"power_cap": 1, "thermal_hardware": 1, "hardware_slowdown": 1}
    assert summary.throttle_samples == [3]


def test_utilisation_counts_inside_the_windows_only(tmp_path: Path) -> None:
    shares = [0, 90, None, 95, 0]
    file = write(tmp_path, *((100.0 + t, row(utilization_percent=value)) for t, value in enumerate(shares)))
    assert summarize(file, [(101.0, 103.5)]).utilization_samples == [2]


def test_throttle_reasons_that_were_never_read_are_told_apart_from_none_seen(tmp_path: Path) -> None:
    file = write(tmp_path, *((100.0 + t, row(throttle_bits=None)) for t in range(3)))
    summary = summarize(file, [(0, 1e9)])
    assert (gpu(summary)["throttle"], summary.throttle_samples) == (None, [0])


def test_nulls_have_reasons_and_the_summary_leaves_them_out(tmp_path: Path) -> None:
    gap = json.dumps({"gap": 0, "column": "temperature_celsius", "reason": "Not Supported"})
    file = write(
        tmp_path,
        (100.0, row(temperature_celsius=None, utilization_percent=50)),
        (101.0, row(temperature_celsius=None)),
        (102.0, None),
        extra=gap,
    )
    summary = summarize(file, [])
    found = gpu(summary)
    assert found["series"]["utilization_percent"] == [50, 100, None]
    assert found["summary"]["utilization_percent"] == {"min": 50, "mean": 75.0, "max": 100}
    assert found["summary"]["temperature_celsius"] is None
    reasons = {entry["path"]: entry["reason"] for entry in summary.unavailable}
    assert reasons["/telemetry/gpus/0/series/temperature_celsius"] == "3 of 3 readings failed: Not Supported"
    assert reasons["/telemetry/gpus/0/summary/temperature_celsius"] == "Not Supported"
    assert "1 of 3" in reasons["/telemetry/gpus/0/series/power_watts"]


def test_offsets_and_the_link_under_load(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        (100.25, row(pcie_generation=1, pcie_width=8)),
        (101.25, row(pcie_generation=4)),
        (102.25, row(pcie_generation=1, foreign_processes=2)),
    )
    summary = summarize(file, [(101.0, 102.0)])
    assert gpu(summary)["offsets_seconds"] == [0.25, 1.25, 2.25]
    assert gpu(summary)["foreign_processes"] == 2
    assert summary.link_under_load == [(4, 16)]


def test_the_mean_stays_inside_the_range(tmp_path: Path) -> None:
    file = write(tmp_path, *((100.0 + t, row(power_watts=0.1)) for t in range(3)))
    found = gpu(summarize(file, []))["summary"]["power_watts"]
    assert found["min"] <= found["mean"] <= found["max"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot be read"),
        ("", "did not start"),
        ("ModuleNotFoundError: No module named 'rentbench'\n", "did not start: ModuleNotFoundError"),
        (json.dumps(HEADER), "ended before NVML answered"),
        (json.dumps(HEADER) + '\n{"gpus": 0, "problem": "no driver"}', "no driver"),
        (json.dumps(HEADER) + '\n{"gpus": 1, "problem": null}', "no sample was taken"),
    ],
)
def test_files_without_samples(tmp_path: Path, content: str | None, reason: str) -> None:
    file = tmp_path / "telemetry.jsonl"
    if content is not None:
        file.write_text(content)
    summary = summarize(file, [])
    assert summary.telemetry is None
    assert [entry["path"] for entry in summary.unavailable] == ["/telemetry"]
    assert reason in summary.unavailable[0]["reason"]


def test_a_file_that_was_cut_short_keeps_its_whole_lines(tmp_path: Path) -> None:
    file = write(tmp_path, (100.0, row()), (101.0, row()), extra='{"t": 102.0, "gpus": [[1')
    assert gpu(summarize(file, []))["offsets_seconds"] == [0.0, 1.0]


def test_another_number_of_gpus_than_the_host_has_is_of_no_use(tmp_path: Path) -> None:
    summary = summarize(write(tmp_path, (100.0, row())), [], gpu_count=2)
    assert summary.telemetry is None
    assert summary.unavailable[0]["reason"] == "1 GPUs were sampled, and the host has 2"
