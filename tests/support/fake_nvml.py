"""A GPU machine for tests without one: NVML's library and nvidia-smi, both answering from files.

The library is found by the dynamic linker, so it serves processes that are started after the fixture: the
host probe's child, the telemetry process, a worker. Code that reads NVML in this process must run in a child.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

FIXTURES: Final = Path(__file__).parents[1] / "fixtures" / "nvml"
CODES: Final = {
    "NOT_SUPPORTED": 3,
    "NO_PERMISSION": 4,
    "DRIVER_NOT_LOADED": 9,
    "FUNCTION_NOT_FOUND": 13,
    "GPU_IS_LOST": 15,
    "LIB_RM_VERSION_MISMATCH": 18,
    "UNKNOWN": 999,
}
MIB: Final = 1 << 20
H200: Final = {
    "name": "NVIDIA H200",
    "vbios": "96.00.CC.00.0D",
    "architecture": 9,
    "compute_capability": "9.0",
    "memory_total": 143771 * MIB,
    "memory_reserved": 616 * MIB,
    "memory_used": 0,
    "power_limit_mw": 700_000,
    "power_limit_default_mw": 700_000,
    "power_limit_max_mw": 700_000,
    "power_mw": 131_750,
    "power_instant_mw": 132_430,
    "energy_mj": 1_000_000,
    "temperature": 38,
    "utilization": 0,
    "clock_sm_mhz": 1980,
    "clock_memory_mhz": 3201,
    "clock_max_sm_mhz": 1980,
    "clock_max_memory_mhz": 3201,
    "throttle_bits": 1,
    "ecc_mode": 1,
    "ecc_uncorrected": 0,
    "remapped_rows": "0,0,0,0",
    "persistence_mode": 1,
    "mig_mode": 0,
    "mig_count_max": 7,
    "virtualization_mode": 1,
    "pcie_generation": 5,
    "pcie_generation_max": 5,
    "pcie_width": 16,
    "pcie_width_max": 16,
    "compute_pids": "",
    "graphics_pids": "",
}


class FakeNvml:
    """The machine that the fakes tell of; a change shows in the next call of a running process."""

    def __init__(self, folder: Path, library: Path) -> None:
        self._values: dict[str, object] = {
            "driver_version": "580.159.04",
            "cuda_driver_version": 13000,
            "count": 0,
        }
        self._file = folder / "nvml.txt"
        self.nvidia_smi = folder / "nvidia-smi-answers"
        self.nvidia_smi.mkdir()
        programs = folder / "bin"
        programs.mkdir()
        (programs / "nvidia-smi").symlink_to(FIXTURES / "fake-nvidia-smi")
        self.environment: dict[str, str] = {
            "LD_LIBRARY_PATH": str(library.parent),
            "RENTBENCH_FAKE_NVML": str(self._file),
            "RENTBENCH_FAKE_NVIDIA_SMI": str(self.nvidia_smi),
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        }

    def set(self, **values: object) -> None:
        """Change machine-wide values; None removes one, which is then answered with NOT_SUPPORTED."""
        self._change(values)

    def gpu(self, index: int = 0, **values: object) -> None:
        """Change what one GPU answers; an H200 unless told otherwise."""
        self._change({f"gpu{index}.{name}": value for name, value in values.items()})

    def mig(self, index: int, device: int, **values: object) -> None:
        """Change what a MIG device of a GPU answers."""
        self._change({f"gpu{index}.mig{device}.{name}": value for name, value in values.items()})

    def fault(self, function: str, code: str | None, *, gpu: int | None = None) -> None:
        """Let a function fail: a name of `CODES`, `hang`, or None to heal it; `all` is every function."""
        value = None if code is None else CODES.get(code, code)
        self._change({f"{'' if gpu is None else f'gpu{gpu}.'}fault.{function}": value})

    def plug(self, count: int, **values: object) -> None:
        """Put in so many GPUs, H200s apart from `values`, and a topology of NVLinks between them."""
        for index in range(count):
            identity = {
                "uuid": f"GPU-{index:08d}-aaaa-bbbb-cccc-0123456789ab",
                "serial": f"16550240{index:05d}",
            }
            self.gpu(index, **{**H200, **identity, "pci_bus_id": f"00000000:{index:02X}:00.0", **values})
        self.set(count=count)
        names = [f"GPU{index}" for index in range(count)]
        rows = [
            "\t".join([name, *(" X " if name == other else "NV18" for other in names), "0-15", "0"])
            for name in names
        ]
        header = "\t".join(["", *names, "CPU Affinity", "NUMA Affinity"])
        (self.nvidia_smi / "topo.txt").write_text("\n".join([header, *rows]) + "\n")

    def _change(self, values: dict[str, object]) -> None:
        self._values.update(values)
        lines = [f"{name}={value}\n" for name, value in self._values.items() if value is not None]
        fresh = self._file.with_suffix(".new")
        fresh.write_text("".join(lines))
        fresh.replace(self._file)


@pytest.fixture(scope="session")
def fake_nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, built once; the test is skipped where there is no C compiler."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed: the fake NVML cannot be built")
    library = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    options = ["-std=c11", "-O1", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1"]
    subprocess.run(["gcc", *options, "-o", str(library), str(FIXTURES / "fake_nvml.c")], check=True)
    return library


@pytest.fixture
def fake_nvml(fake_nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """A machine with one H200, for this process's children."""
    folder = tmp_path / "fake-gpu-machine"
    folder.mkdir()
    machine = FakeNvml(folder, fake_nvml_library)
    machine.plug(1)
    for name, value in machine.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return machine


@pytest.fixture
def no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without an NVIDIA driver, also where the tests run on one that has it."""
    folder = tmp_path / "no-gpu"
    folder.mkdir()
    (folder / "libnvidia-ml.so.1").touch()  # no library: the dynamic linker refuses it
    (folder / "nvidia-smi").symlink_to(FIXTURES / "fake-nvidia-smi")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    monkeypatch.setenv("RENTBENCH_FAKE_NVIDIA_SMI", str(folder / "nothing"))
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
