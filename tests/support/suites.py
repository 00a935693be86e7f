"""Suites' modules, and a context whose events a test can look at."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rentbench.core.manifests import SuiteManifest, read_suite
from rentbench.harness.context import Context
from rentbench.harness.nvml import GpuReading
from rentbench.harness.timing import make_timer

if TYPE_CHECKING:
    from types import ModuleType

SUITES = Path(__file__).resolve().parents[2] / "suites"


def manifest(folder: str) -> SuiteManifest:
    return read_suite(SUITES / folder / "suite.toml")


def load_workload(folder: str) -> ModuleType:
    """Return a fresh copy of a suite's workload, as each repeat gets one."""
    spec = importlib.util.spec_from_file_location(f"{folder}_workload", SUITES / folder / "workload.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # as the worker does; a dataclass looks its own module up
    spec.loader.exec_module(module)
    return module


def host(**changes: Any) -> dict[str, Any]:
    """Return a host with no GPU, as the measurement schema describes one."""
    return {
        "gpus": [],
        "driver_version": None,
        "cuda_driver_version": None,
        "topology": None,
        "cpu": {"usable_cores": 2, "quota_cores": None, "logical_cores": 2, "numa_nodes": 1},
        "memory": {"total_bytes": 16 * 2**30, "limit_bytes": None},
        "limits": {"shm_bytes": 2**30},
        **changes,
    }


def gpu(**changes: Any) -> dict[str, Any]:
    """Return a healthy H200, as the measurement schema describes one."""
    return {
        "name": "NVIDIA H200",
        "memory_total_bytes": 143771 * 2**20,
        "memory_used_before_bytes": 4 * 2**20,
        "power_limit_watts": 700.0,
        "power_limit_default_watts": 700.0,
        "ecc_enabled": True,
        "ecc_uncorrected_errors": 0,
        "remapped_rows": {"correctable": 0, "uncorrectable": 0, "pending": False, "failed": False},
        "mig_mode": False,
        "mig_profile": None,
        "vgpu": False,
        "pcie_generation_max": 5,
        "pcie_width_max": 16,
        **changes,
    }


class Recorded:
    """A context on the CPU, and what a workload told it."""

    def __init__(self, folder: str, scratch: Path, *, preset: str = "smoke", **settings: Any) -> None:
        suite = manifest(folder)
        self.events: list[dict[str, Any]] = []
        self.context = Context(
            device="cpu",
            device_count=0,
            preset=preset,
            settings={**suite.presets[preset].settings, **settings},
            seed=1,
            repeat=0,
            scratch=scratch,
            host=host(),
            timer=make_timer("cpu"),
            metrics=suite.metrics,
            emit=self.events.append,
        )

    @property
    def values(self) -> dict[str, float]:
        return {event["metric"]: event["value"] for event in self.events if event["event"] == "record"}

    @property
    def samples(self) -> dict[str, list[float]]:
        return {event["metric"]: event["samples"] for event in self.events if event["event"] == "record"}

    @property
    def checks(self) -> dict[str, dict[str, Any]]:
        return {event["check"]["name"]: event["check"] for event in self.events if event["event"] == "check"}


def reading(**values: Any) -> GpuReading:
    return GpuReading(**values)
