"""What a source (NVML, nvidia-smi) tells of the GPUs, in the schema's words, with reasons for the gaps."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["FIELDS", "MEMORY_FIELDS", "UNKNOWN", "Gpu", "Inventory", "Mig", "is_vgpu_name", "sysfs_bus_id"]

UNKNOWN: Final = "unknown"
"""The name of a GPU that is there and tells none."""

MEMORY_FIELDS: Final = ("memory_total_bytes", "memory_usable_bytes", "memory_used_before_bytes")
FIELDS: Final = (
    "name",
    *MEMORY_FIELDS,
    "compute_capability",
    "vbios",
    "power_limit_watts",
    "power_limit_default_watts",
    "power_limit_max_watts",
    "clock_max_sm_mhz",
    "clock_max_memory_mhz",
    "ecc_enabled",
    "ecc_uncorrected_errors",
    "remapped_rows",
    "persistence_mode",
    "mig_mode",
    "mig_profile",
    "vgpu",
    "pcie_generation",
    "pcie_generation_max",
    "pcie_width",
    "pcie_width_max",
)
"""The properties of `$defs/gpu` that a driver's tool can fill; the others are the host probe's."""


@dataclass(frozen=True, kw_only=True)
class Mig:
    """A slice of a GPU (a MIG device).

    Attributes:
        profile: `3g.40gb`; None where the source does not name it.
        memory: Those of `MEMORY_FIELDS` that are known.
    """

    uuid: str | None
    profile: str | None
    memory: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One GPU.

    Attributes:
        values: Those of `FIELDS` that could be read.
        reasons: Why the others could not; the key "" stands for all that have no reason of their own.
        uuid: Never written to a document; nor is `serial`.
        pci_bus_id: As sysfs names it, `0000:9b:00.0`.
        mig: Its MIG devices, in the driver's order.
    """

    values: dict[str, Any] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    uuid: str | None = None
    serial: str | None = None
    pci_bus_id: str | None = None
    mig: tuple[Mig, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """What one source says.

    Attributes:
        gpus: In the order of their PCI bus ids, as NVML and nvidia-smi number them.
        problem: Why the source says nothing, or not all; None when it has answered everything it was asked.
    """

    gpus: tuple[Gpu, ...] = ()
    driver_version: str | None = None
    cuda_driver_version: str | None = None
    problem: str | None = None


def is_vgpu_name(name: str) -> bool:
    """Tell whether the name is that of a virtual GPU's profile: `GRID V100DX-16Q`, `NVIDIA A40-48Q`."""
    return name.startswith("GRID ") or re.search(r"-\d{1,3}(-\d{1,2})?[ABCQV]$", name) is not None


def sysfs_bus_id(bus_id: str) -> str:
    """Return a PCI bus id as sysfs writes it: `00000000:9B:00.0` is `0000:9b:00.0`."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{domain[-4:]:0>4}:{rest}"
