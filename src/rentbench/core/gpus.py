"""GPU names: mechanical ones for folders, canonical ones for comparisons.

The folder's name follows from the raw names alone, so that a container needs no table to write its result.
Canonical keys are given when results are read, from `gpus.toml`, which images do not carry.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rentbench.core.ids import slug

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["CanonicalGpu", "canonical", "gpu_folder"]

# Readings of one card differ by what the driver reserves, and by GB against GiB; the next size is far off.
_MEMORY_TOLERANCE = 0.12
_RESERVED = {"cpu", "unknown"}


@dataclass(frozen=True, kw_only=True)
class CanonicalGpu:
    """A GPU model as results are compared by: name, memory and form factor together."""

    key: str
    title: str
    memory_gb: int
    form_factor: str


def gpu_folder(gpus: Sequence[Mapping[str, Any]]) -> str:
    """Return the folder's name for a host's GPUs: `nvidia-h200`, `nvidia-h200-x8`, `cpu`, `mixed-…`.

    Args:
        gpus: The document's `host.gpus`. A slice of a GPU (MIG) is another device than the whole.
    """
    if not gpus:
        return "cpu"
    names = [slug(f"{gpu['name']} {_slice(gpu)}") for gpu in gpus]
    if len(set(names)) > 1:
        counted = [f"{name}-x{names.count(name)}" for name in sorted(set(names))]
        return f"mixed-{slug('-'.join(counted))}"
    name = f"gpu-{names[0]}" if names[0] in _RESERVED else names[0]
    return name if len(names) == 1 else f"{name}-x{len(names)}"


def canonical(raw_name: str, memory_bytes: int | None) -> CanonicalGpu | None:
    """Return the model of a raw name and a memory size; None where the table holds none, never the nearest.

    Args:
        raw_name: As the driver says it.
        memory_bytes: Total memory; None where it could not be read, and then the name alone decides.
    """
    for gpu in _table().get(raw_name.strip().casefold(), ()):
        if memory_bytes is None or abs(memory_bytes / (gpu.memory_gb * 1e9) - 1) <= _MEMORY_TOLERANCE:
            return gpu
    return None


def _slice(gpu: Mapping[str, Any]) -> str:
    profile = gpu.get("mig_profile")
    return f"mig {profile}" if profile and "mig" not in str(gpu["name"]).lower() else ""


@lru_cache(maxsize=1)
def _table() -> dict[str, list[CanonicalGpu]]:
    with Path(__file__).with_name("gpus.toml").open("rb") as file:
        entries = tomllib.load(file)["gpu"]
    table: dict[str, list[CanonicalGpu]] = {}
    for entry in entries:
        names = entry.pop("names")
        for name in names:
            table.setdefault(name.casefold(), []).append(CanonicalGpu(**entry))
    return table
