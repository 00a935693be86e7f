"""What the machine is: GPUs, driver, topology, processor, memory, disk, limits. Never who it is."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rentbench.harness import privacy
from rentbench.harness.probe import nvidia_smi, nvml_facts, topology
from rentbench.harness.probe.inventory import FIELDS, MEMORY_FIELDS, UNKNOWN, Gpu, Inventory
from rentbench.harness.probe.machine import describe_machine
from rentbench.harness.probe.visible import Identity, visible_gpus

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rentbench.harness.probe.machine import Section
    from rentbench.harness.probe.visible import Visible

__all__ = ["HostProbe", "Unavailable", "probe_host"]

Unavailable = dict[str, str]
"""`{"path": JSON pointer into the measurement document, "reason": why it is null}`."""

_ROOT: Final = Path("/")
_MAX_REASON: Final = 1024
_SILENT: Final = "the driver does not tell it"


@dataclass(frozen=True, kw_only=True)
class HostProbe:
    """The host as found.

    Attributes:
        host: As measurement documents hold it (`$defs/host`).
        unavailable: A reason for every null in `host`; the pointers begin with `/host`.
        outputs: What the tools printed, redacted, by artifact name (`nvidia-smi-topo.txt`).
        gpu_problem: Why `host.gpus` is empty, or not all that it should be; None when it is in order.
    """

    host: dict[str, Any]
    unavailable: list[Unavailable]
    outputs: dict[str, str]
    gpu_problem: str | None


def probe_host(
    *,
    timeout_seconds: float = 10.0,
    disk: Path = _ROOT,
    root: Path = _ROOT,
    environment: Mapping[str, str] = os.environ,
) -> HostProbe:
    """Return what can be found out about this machine; never raises, and takes a few timeouts at most.

    The GPUs are those that a CUDA program started now would see, in its order with
    `CUDA_DEVICE_ORDER=PCI_BUS_ID`. Serial numbers and UUIDs that were met are told to `privacy`, so that
    every later text of this process is free of them.

    Args:
        timeout_seconds: For each single question; what does not answer is killed, and its values are null.
        disk: A folder on the disk that the run writes to.
        root: Of the file tree that is asked about the machine; another one in tests.
        environment: The workload's, for `CUDA_VISIBLE_DEVICES`.
    """
    inventory, outputs = _ask_for_gpus(timeout_seconds)
    privacy.remember(_identifiers(inventory))
    seen = visible_gpus([_identity(gpu) for gpu in inventory.gpus], environment)
    problem = inventory.problem or _lost(inventory)
    if not seen and problem is None:
        problem = _nothing_visible(inventory, environment)
    report = _Report()
    report.host["gpus"] = _describe_gpus(report, inventory, seen, root)
    report.set("driver_version", inventory.driver_version, problem or _SILENT)
    report.set("cuda_driver_version", inventory.cuda_driver_version, problem or _SILENT)
    if seen:
        links = topology.read_topology(timeout_seconds=timeout_seconds)
        outputs["nvidia-smi-topo.txt"] = links.output
        report.set("topology", *_choose_links(links, seen))
    else:
        report.set("topology", None, problem or _SILENT)
    for name, section in describe_machine(disk=disk, timeout_seconds=timeout_seconds, root=root).items():
        report.add_section(name, section)
    return HostProbe(
        host=report.host,
        unavailable=report.unavailable,
        outputs={name: privacy.redact(output) for name, output in outputs.items() if output.strip()},
        gpu_problem=problem and privacy.redact(problem),
    )


class _Report:
    """The host's document while it is put together, and the reasons for its gaps."""

    def __init__(self) -> None:
        self.host: dict[str, Any] = {}
        self.unavailable: list[Unavailable] = []

    def set(self, name: str, value: object, reason: str) -> None:
        self.host[name] = value
        if value is None:
            self.explain(f"/{name}", reason)

    def explain(self, pointer: str, reason: str) -> None:
        self.unavailable.append({"path": f"/host{pointer}", "reason": privacy.redact(reason)[:_MAX_REASON]})

    def add_section(self, name: str, section: Section) -> None:
        if name:
            self.host[name] = section.values
        else:
            self.host |= section.values
        for key, reason in section.reasons.items():
            self.explain(f"/{name}/{key}" if name else f"/{key}", reason)


def _ask_for_gpus(timeout_seconds: float) -> tuple[Inventory, dict[str, str]]:
    """Return what NVML says, or nvidia-smi where that says more, and the tools' output by artifact name."""
    nvml = nvml_facts.read_inventory(timeout_seconds=timeout_seconds)
    if nvml.gpus and nvml.problem is None:
        return nvml, {}
    smi, output = nvidia_smi.query(timeout_seconds=timeout_seconds)
    outputs = {"nvidia-smi.xml": nvidia_smi.scrub(output)}
    if len(smi.gpus) >= len(nvml.gpus) and smi.gpus:
        return smi, outputs
    problems = [problem for problem in (nvml.problem, smi.problem) if problem]
    return replace(nvml, problem="; ".join(problems) or None), outputs


def _identifiers(inventory: Inventory) -> set[str]:
    found = {identifier for gpu in inventory.gpus for identifier in (gpu.uuid, gpu.serial)}
    found |= {part.uuid for gpu in inventory.gpus for part in gpu.mig}
    return {identifier for identifier in found if identifier}


def _identity(gpu: Gpu) -> Identity:
    return Identity(
        uuid=gpu.uuid,
        mig_mode=bool(gpu.values.get("mig_mode")),
        mig_uuids=[part.uuid for part in gpu.mig],
    )


def _lost(inventory: Inventory) -> str | None:
    """Return why a GPU that is counted could not be read at all."""
    return next((gpu.reasons[""] for gpu in inventory.gpus if gpu.values == {"name": UNKNOWN}), None)


def _nothing_visible(inventory: Inventory, environment: Mapping[str, str]) -> str:
    if not inventory.gpus:
        return "the driver lists no GPU"
    if "CUDA_VISIBLE_DEVICES" in environment:
        return f"CUDA_VISIBLE_DEVICES={environment['CUDA_VISIBLE_DEVICES']!r} hides all GPUs"
    return "the GPU is in MIG mode and has no MIG device"


def _describe_gpus(
    report: _Report, inventory: Inventory, seen: Sequence[Visible], root: Path
) -> list[dict[str, Any]]:
    salt = os.urandom(16)  # kept nowhere: the hash tells two GPUs of this run apart, and nothing else
    gpus = []
    for number, place in enumerate(seen):
        gpu = inventory.gpus[place.index]
        values, reasons = _complete(gpu, place.mig, salt, root)
        gpus.append(values)
        for name, value in values.items():
            if value is None:
                reason = reasons.get(name) or reasons.get("") or inventory.problem or _SILENT
                report.explain(f"/gpus/{number}/{name}", reason)
    return gpus


def _complete(gpu: Gpu, mig: int | None, salt: bytes, root: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return one GPU as `$defs/gpu` has it, and reasons for its gaps; of a MIG device, the slice's memory."""
    values: dict[str, Any] = {"name": None, "vendor": "nvidia", "uuid_hash": None}
    values |= dict.fromkeys(FIELDS) | gpu.values
    reasons = dict(gpu.reasons)
    identifier = gpu.uuid
    if mig is not None:
        part = gpu.mig[mig]
        values |= {**dict.fromkeys(MEMORY_FIELDS), **part.memory, "mig_profile": part.profile}
        identifier = part.uuid or gpu.uuid
        reasons["mig_profile"] = "nvidia-smi does not name the profile"
    else:
        reasons["mig_profile"] = "the GPU is not cut up by MIG"
    values["uuid_hash"] = identifier and f"sha256:{hashlib.sha256(salt + identifier.encode()).hexdigest()}"
    values["numa_node"], reasons["numa_node"] = _numa_node(gpu.pci_bus_id, root)
    return values, reasons


def _numa_node(pci_bus_id: str | None, root: Path) -> tuple[int | None, str]:
    if pci_bus_id is None:
        return None, "the PCI bus id is not known"
    try:
        node = int((root / "sys/bus/pci/devices" / pci_bus_id / "numa_node").read_text())
    except (OSError, ValueError):
        return None, "sysfs does not show the device"
    return (node, "") if node >= 0 else (None, "the kernel knows no NUMA node of the device")


def _choose_links(links: topology.Topology, seen: Sequence[Visible]) -> tuple[dict[str, Any] | None, str]:
    if links.matrix is None:
        return None, links.problem or _SILENT
    numbers = [place.index for place in seen]
    if max(numbers) >= len(links.matrix):
        return None, f"nvidia-smi topo -m shows {len(links.matrix)} GPUs, fewer than the driver lists"
    matrix = [[links.matrix[row][column] for column in numbers] for row in numbers]
    return {"matrix": matrix, "summary": topology.summary(matrix)}, ""
