"""GPU names: mechanical ones for folders, canonical ones for comparisons.

The folder's name follows from the raw names alone, so that a container needs no table to write its result.
Canonical keys are given when results and prices are read, from `gpus.toml`, which images do not carry.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rentbench.core.ids import slug

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "CanonicalGpu",
    "Identified",
    "all_gpus",
    "canonical",
    "gpu_by_key",
    "gpu_folder",
    "gpus_of_machine",
    "identify",
]

# What is read or told, against the nominal size: a GiB is 7.4 % more than a GB, and drivers reserve some. The
# sizes that lie closest together, 10 and 12 GB, are told apart.
_LEAST_MEMORY, _MOST_MEMORY = 0.925, 1.08
_RESERVED = {"cpu", "unknown"}

# Words in a name that say nothing about the model.
_NOISE = {
    "nvidia", "geforce", "tesla", "tensor", "core", "gpu", "hgx", "nvlink", "blackwell", "generation",
    "edition", "hbm2", "hbm2e", "hbm3", "hbm3e",
}  # fmt: skip
_MEMORY = re.compile(r"(\d+) ?gb?")
_GLUED = re.compile(r"(.+?)(sxm|pcie|nvl)\d?")
_FORM_FACTOR = re.compile(r"(sxm|pcie|nvl)\d?")


@dataclass(frozen=True, kw_only=True)
class CanonicalGpu:
    """A GPU model as results and prices are compared by: name, memory and form factor together.

    Attributes:
        key: What everything else refers to.
        title: For people.
        memory_gb: Nominal size in units of 1e9 bytes.
        form_factor: `sxm`, `pcie`, `nvl` or `superchip`.
        architecture: NVIDIA's name of it.
        compute_capability: As CUDA says it, `9.0`.
        bandwidth_gb_s: Nominal memory bandwidth in 1e9 bytes a second.
        bf16_dense_tflops: Nominal dense bf16 rate; None where none is published.
        source: Where the two nominal figures are from.
        names: As drivers say it.
        models: As providers say it, without maker, memory, form factor, blanks and dashes.
    """

    key: str
    title: str
    memory_gb: int
    form_factor: str
    architecture: str
    compute_capability: str
    bandwidth_gb_s: float
    bf16_dense_tflops: float | None = None
    source: str
    names: tuple[str, ...] = field(repr=False)
    models: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Identified:
    """What the table says of a name.

    Attributes:
        gpu: The one model that it can be; None where there is none, or more than one.
        reason: Why there is none; empty where there is one.
        on_purpose: Whether the table itself says that the name is no entry.
    """

    gpu: CanonicalGpu | None = None
    reason: str = ""
    on_purpose: bool = False


@dataclass(frozen=True, kw_only=True)
class _Table:
    gpus: Mapping[str, CanonicalGpu]
    by_driver_name: Mapping[str, Sequence[CanonicalGpu]]
    by_model: Mapping[str, Sequence[CanonicalGpu]]
    machines: Sequence[Mapping[str, Any]]
    not_listed: Mapping[str, str]


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


def all_gpus() -> tuple[CanonicalGpu, ...]:
    """Return every model of the table, in its order."""
    return tuple(_table().gpus.values())


def gpu_by_key(key: str) -> CanonicalGpu | None:
    """Return the model with a key; None where the table has none."""
    return _table().gpus.get(key)


def canonical(raw_name: str, memory_bytes: int | None) -> CanonicalGpu | None:
    """Return the model of a driver's name and a memory size; None where the table has none.

    Never the nearest: another memory size is another card.

    Args:
        raw_name: As the driver says it.
        memory_bytes: Total memory; None where it could not be read, and then the name alone decides.
    """
    memory_gb = None if memory_bytes is None else memory_bytes / 1e9
    return _only(_fitting(_table().by_driver_name.get(_driver_name(raw_name), ()), memory_gb, None))


@lru_cache(maxsize=65536)  # a catalogue names the same few cards in tens of thousands of rows
def identify(
    name: str, *, memory_gb: float | None = None, provider: str | None = None, offer: str | None = None
) -> Identified:
    """Return the one model that a provider's name can mean; never the nearest, and none of several.

    Args:
        name: The GPU as the provider calls it: `H100-SXM`, `RTX_4090`, `A100 (80 GB PCIe)`.
        memory_gb: Memory of one GPU, as the provider says it (1e9 bytes or GiB); None where it does not.
        provider: Whose name it is; some machine types are known to have one card.
        offer: The provider's name of the machine type; may name the form factor that the GPU's name lacks.
    """
    table = _table()
    reason = table.not_listed.get(_folded(name))
    if reason is not None:
        return Identified(reason=reason, on_purpose=True)
    by_name = _fitting(table.by_driver_name.get(_driver_name(name), ()), memory_gb, None)
    if len(by_name) == 1:
        return Identified(gpu=by_name[0])
    model, named_gb, form_factor = _parts(name)
    known = table.by_model.get(model)
    if known is None:
        return Identified(reason="no such model in the table")
    if form_factor is None and offer is not None:
        form_factor = _parts(offer)[2]
    candidates = _fitting(_fitting(known, named_gb, form_factor), memory_gb, None)
    if len(candidates) > 1 and offer is not None:
        keys = _keys_of_machine(provider, offer)
        candidates = [gpu for gpu in candidates if gpu.key in keys] or candidates
    if len(candidates) == 1:
        return Identified(gpu=candidates[0])
    if candidates:
        return Identified(reason=f"can be {' or '.join(gpu.key for gpu in candidates)}")
    said = [f"{said:g} GB" for said in (memory_gb or named_gb,) if said] + [form_factor or ""]
    return Identified(reason=f"the table has {model} otherwise, not with {' '.join(said).strip()}")


def gpus_of_machine(provider: str, offer: str) -> int | None:
    """Return how many GPUs a machine type has; None where the table does not say, as it mostly does not."""
    for machine in _table().machines:
        if "gpus" in machine and machine["provider"] == provider and fnmatchcase(offer, machine["offer"]):
            return int(machine["gpus"])
    return None


def _keys_of_machine(provider: str | None, offer: str) -> set[str]:
    """Return which models the name of a machine type stands for; it may be a driver's name of the GPU."""
    keys = {gpu.key for gpu in _table().by_driver_name.get(_driver_name(offer), ())}
    for machine in _table().machines:
        if machine["provider"] == provider and fnmatchcase(offer, machine["offer"]):
            keys.add(machine["gpu"])
    return keys


def _slice(gpu: Mapping[str, Any]) -> str:
    profile = gpu.get("mig_profile")
    return f"mig {profile}" if profile and "mig" not in str(gpu["name"]).lower() else ""


def _fitting(
    gpus: Iterable[CanonicalGpu], memory_gb: float | None, form_factor: str | None
) -> list[CanonicalGpu]:
    return [
        gpu
        for gpu in gpus
        if (memory_gb is None or _LEAST_MEMORY <= memory_gb / gpu.memory_gb <= _MOST_MEMORY)
        and (form_factor is None or gpu.form_factor == form_factor)
    ]


def _only(gpus: Sequence[CanonicalGpu]) -> CanonicalGpu | None:
    return gpus[0] if len(gpus) == 1 else None


def _driver_name(name: str) -> str:
    """Return a driver's name as it is compared: older drivers leave the maker out."""
    return name.strip().casefold().removeprefix("nvidia ")


def _folded(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "", name.casefold())


def _parts(name: str) -> tuple[str, float | None, str | None]:
    """Return the model in a name, and memory and form factor where the name holds them."""
    model, memory, form_factor = [], None, None
    for word in re.findall(r"\d+ ?gb?\b|[a-z0-9]+", name.casefold()):
        if matched := _FORM_FACTOR.fullmatch(word):
            form_factor = matched[1]
        elif matched := _MEMORY.fullmatch(word):
            memory = float(matched[1])
        elif word not in _NOISE:
            model.append(word)
    folded = "".join(model)
    # One word in some catalogues: H100NVL, A800PCIE.
    if glued := _GLUED.fullmatch(folded):
        folded, form_factor = glued[1], glued[2]
    return folded, memory, form_factor


@lru_cache(maxsize=1)
def _table() -> _Table:
    with Path(__file__).with_name("gpus.toml").open("rb") as file:
        content = tomllib.load(file)
    gpus: dict[str, CanonicalGpu] = {}
    by_driver_name: dict[str, list[CanonicalGpu]] = {}
    by_model: dict[str, list[CanonicalGpu]] = {}
    for entry in content["gpu"]:
        gpu = CanonicalGpu(**entry | {"names": tuple(entry["names"]), "models": tuple(entry["models"])})
        gpus[gpu.key] = gpu
        for name in gpu.names:
            by_driver_name.setdefault(_driver_name(name), []).append(gpu)
        for model in gpu.models:
            by_model.setdefault(model, []).append(gpu)
    return _Table(
        gpus=gpus,
        by_driver_name=by_driver_name,
        by_model=by_model,
        machines=content["machine"],
        not_listed={
            _folded(name): group["reason"] for group in content["not_listed"] for name in group["names"]
        },
    )
