"""What NVML tells of each GPU once, read by a child process, since a driver may hang.

The child (`python -m rentbench.harness.probe.nvml_facts`) prints one JSON line for the machine and then one
for each GPU, so that what was read before it hung is kept.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from rentbench.harness.nvml import CLOCK_MEMORY, CLOCK_SM, Device, Nvml, NvmlUnavailableError
from rentbench.harness.probe.inventory import (
    MEMORY_FIELDS,
    UNKNOWN,
    Gpu,
    Inventory,
    Mig,
    is_vgpu_name,
    sysfs_bus_id,
)
from rentbench.harness.tools import module_command, module_environment, run_tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["read_inventory"]

# nvml.h
_UNCORRECTED: Final = 1
_SINCE_DRIVER_LOAD: Final = 0  # "volatile"; the other counter is of the board's whole life
_VGPU_MODE: Final = 2  # this machine is a guest that holds a share of a GPU


def read_inventory(*, timeout_seconds: float) -> Inventory:
    """Return what NVML says; never raises, and takes the timeout and two seconds at most."""
    answer = run_tool(
        module_command("rentbench.harness.probe.nvml_facts"),
        timeout_seconds=timeout_seconds,
        name="NVML's reader",
        env=module_environment(),
    )
    lines = [found for line in answer.output.splitlines() if (found := _document(line))]
    if not lines:
        return Inventory(problem=answer.problem or "NVML's reader said nothing")
    machine, gpus = lines[0], [_gpu(line) for line in lines[1:]]
    stopped = None
    if len(gpus) < machine["count"]:
        stopped = answer.problem or "NVML's reader stopped"
        gpus += [Gpu(values={"name": UNKNOWN}, reasons={"": stopped})] * (machine["count"] - len(gpus))
    return Inventory(
        gpus=tuple(gpus),
        driver_version=machine["driver_version"],
        cuda_driver_version=machine["cuda_driver_version"],
        problem=machine["problem"] or stopped,
    )


def _document(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None  # the line that the child was writing when it was killed
    return found if isinstance(found, dict) else None


def _gpu(document: dict[str, Any]) -> Gpu:
    return Gpu(**{**document, "mig": tuple(Mig(**part) for part in document["mig"])})


def describe(nvml: Nvml) -> Iterator[dict[str, Any]]:
    """Yield the machine's line and then each GPU's."""
    devices, problem = nvml.devices()
    driver, driver_reason = nvml.ask("nvmlSystemGetDriverVersion")
    cuda, _ = nvml.ask("nvmlSystemGetCudaDriverVersion")
    yield {
        "count": len(devices),
        "driver_version": driver,
        "cuda_driver_version": f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,  # 12080 is 12.8
        "problem": problem or driver_reason,
    }
    for device, reason in devices:
        if device is None:
            yield asdict(Gpu(values={"name": UNKNOWN}, reasons={"": f"NVML: {reason}"}))
        else:
            yield asdict(_describe_gpu(nvml, device))


def _describe_gpu(nvml: Nvml, device: Device) -> Gpu:
    values: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    for name, function, arguments, convert in _QUESTIONS:
        answer, reason = nvml.ask(function, device, *arguments)
        if answer is None:
            reasons[name] = f"NVML: {reason}"
        else:
            values[name] = convert(answer)
    values.setdefault("name", UNKNOWN)
    if is_vgpu_name(values["name"]):
        values["vgpu"] = True
    memory, memory_reasons = _memory(nvml, device)
    pci, _ = nvml.ask("nvmlDeviceGetPciInfo", device)
    parts = nvml.mig_devices(device) if values.get("mig_mode") else []
    return Gpu(
        values=values | memory,
        reasons=reasons | memory_reasons,
        uuid=nvml.ask("nvmlDeviceGetUUID", device)[0],
        serial=nvml.ask("nvmlDeviceGetSerial", device)[0],
        pci_bus_id=sysfs_bus_id(_text(pci.busId)) if pci else None,
        mig=tuple(_describe_mig(nvml, part) for part in parts),
    )


def _describe_mig(nvml: Nvml, part: Device) -> Mig:
    name, _ = nvml.ask("nvmlDeviceGetName", part)
    uuid, _ = nvml.ask("nvmlDeviceGetUUID", part)
    # NVML names a MIG device after its GPU and its profile: "NVIDIA H100 80GB HBM3 MIG 3g.40gb".
    profile = name.partition(" MIG ")[2].strip() if name else None
    return Mig(uuid=uuid, profile=profile or None, memory=_memory(nvml, part)[0])


def _memory(nvml: Nvml, device: Device) -> tuple[dict[str, int], dict[str, str]]:
    memory, reason = nvml.memory(device)
    if memory is None:
        return {}, dict.fromkeys(MEMORY_FIELDS, f"NVML: {reason}")
    total, usable, used = MEMORY_FIELDS
    values = {total: int(memory.total), used: int(memory.used)}
    reserved = getattr(memory, "reserved", None)
    if reserved is None:
        return values, {usable: "NVML: this driver does not tell what it reserves (510 and later do)"}
    return values | {usable: int(memory.total - reserved)}, {}


def _watts(milliwatts: int) -> float:
    return milliwatts / 1000


def _first(current_and_pending: list[int]) -> bool:
    return bool(current_and_pending[0])


def _remapped_rows(rows: tuple[int, int, int, int]) -> dict[str, int | bool]:
    correctable, uncorrectable, pending, failed = rows
    return {
        "correctable": correctable,
        "uncorrectable": uncorrectable,
        "pending": bool(pending),
        "failed": bool(failed),
    }


# Field, function, further arguments, how to read the answer.
_QUESTIONS: Final[tuple[tuple[str, str, tuple[int, ...], Callable[[Any], Any]], ...]] = (
    ("name", "nvmlDeviceGetName", (), str),
    ("vbios", "nvmlDeviceGetVbiosVersion", (), str),
    (
        "compute_capability",
        "nvmlDeviceGetCudaComputeCapability",
        (),
        lambda version: f"{version[0]}.{version[1]}",
    ),
    ("power_limit_watts", "nvmlDeviceGetPowerManagementLimit", (), _watts),
    ("power_limit_default_watts", "nvmlDeviceGetPowerManagementDefaultLimit", (), _watts),
    (
        "power_limit_max_watts",
        "nvmlDeviceGetPowerManagementLimitConstraints",
        (),
        lambda range_: _watts(range_[1]),
    ),
    ("clock_max_sm_mhz", "nvmlDeviceGetMaxClockInfo", (CLOCK_SM,), int),
    ("clock_max_memory_mhz", "nvmlDeviceGetMaxClockInfo", (CLOCK_MEMORY,), int),
    ("ecc_enabled", "nvmlDeviceGetEccMode", (), _first),
    ("ecc_uncorrected_errors", "nvmlDeviceGetTotalEccErrors", (_UNCORRECTED, _SINCE_DRIVER_LOAD), int),
    ("remapped_rows", "nvmlDeviceGetRemappedRows", (), _remapped_rows),
    ("persistence_mode", "nvmlDeviceGetPersistenceMode", (), bool),
    ("mig_mode", "nvmlDeviceGetMigMode", (), _first),
    ("vgpu", "nvmlDeviceGetVirtualizationMode", (), lambda mode: mode == _VGPU_MODE),
    ("pcie_generation", "nvmlDeviceGetCurrPcieLinkGeneration", (), int),
    ("pcie_generation_max", "nvmlDeviceGetMaxPcieLinkGeneration", (), int),
    ("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth", (), int),
    ("pcie_width_max", "nvmlDeviceGetMaxPcieLinkWidth", (), int),
)


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("ascii", "replace")


def main() -> int:
    """Print what NVML says, as JSON lines."""
    try:
        nvml = Nvml()
    except NvmlUnavailableError as error:
        nothing = {"count": 0, "driver_version": None, "cuda_driver_version": None, "problem": str(error)}
        print(json.dumps(nothing))
        return 0
    for line in describe(nvml):
        print(json.dumps(line), flush=True)
    nvml.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
