"""May two measurements be held against each other at all, and what else is unlike about them?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rentbench.core.gpus import canonical
from rentbench.core.problems import show

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["barriers", "remarks"]

_MEASURED = ("ok", "partial")
# ECC takes a share of some cards' memory, and drivers reserve more or less of it.
_MEMORY_TOLERANCE = 0.08


def barriers(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Return why two valid measurements are not comparable; empty where they are."""
    return [*_state_barriers(first, second), *_host_barriers(first["host"], second["host"])]


def remarks(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Return what is unlike about two measurements without forbidding the comparison."""
    hosts = first["host"], second["host"]
    found = [
        *_unlike("the image's recipe", first["recipe_id"], second["recipe_id"]),
        *_unlike("the driver", hosts[0]["driver_version"], hosts[1]["driver_version"]),
        *_unlike("the kernel", hosts[0]["kernel"], hosts[1]["kernel"]),
        *_unlike("the processor", hosts[0]["cpu"]["model"], hosts[1]["cpu"]["model"]),
        *_unlike("usable cores", hosts[0]["cpu"]["usable_cores"], hosts[1]["cpu"]["usable_cores"]),
    ]
    limits = [sorted(str(gpu["power_limit_watts"]) for gpu in host["gpus"]) for host in hosts]
    return [*found, *_unlike("power limits in W", ", ".join(limits[0]), ", ".join(limits[1]))]


def _state_barriers(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[str]:
    for which, document in (("first", first), ("second", second)):
        if document["status"] not in _MEASURED:
            yield f"the {which} is {document['status']}"
    if first["suite"]["name"] != second["suite"]["name"]:
        yield from _unlike("the suite", first["suite"]["name"], second["suite"]["name"])
        return  # its settings have nothing in common either
    yield from _unlike("the suite's version", first["suite"]["version"], second["suite"]["version"])
    yield from _unlike("the preset", first["preset"], second["preset"])
    yield from _unlike("the seed", first["parameters"]["seed"], second["parameters"]["seed"])
    settings = first["parameters"]["settings"], second["parameters"]["settings"]
    for name in sorted(settings[0].keys() | settings[1].keys()):
        yield from _unlike(f"setting {name}", settings[0].get(name), settings[1].get(name))
    yield from _unlike("the runner", first["runner"], second["runner"])
    for part in ("weights", "data"):
        described = first[part] or {}, second[part] or {}
        for name in sorted(described[0].keys() | described[1].keys()):
            yield from _unlike(f"{part}, {name}", described[0].get(name), described[1].get(name))


def _host_barriers(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[str]:
    gpus = (
        sorted(first["gpus"], key=_device),
        sorted(second["gpus"], key=_device),
    )
    yield from _unlike("the number of GPUs", len(gpus[0]), len(gpus[1]))
    if not gpus[0] and not gpus[1]:
        for name in ("model", "architecture", "usable_cores", "quota_cores"):
            yield from _unlike(f"the processor's {name}", first["cpu"][name], second["cpu"][name])
    if len(gpus[0]) != len(gpus[1]):
        return
    for one, other in zip(*gpus, strict=True):
        yield from _unlike("the GPU", _device(one), _device(other))
        yield from _unlike("the MIG profile", one["mig_profile"], other["mig_profile"])
        yield from _unlike("being a virtual GPU", bool(one["vgpu"]), bool(other["vgpu"]))
        memory = one["memory_total_bytes"], other["memory_total_bytes"]
        if None in memory or abs(memory[0] - memory[1]) > _MEMORY_TOLERANCE * max(memory):
            yield from _unlike("the GPU's memory in bytes", *memory)
    links = [host["topology"] and host["topology"]["summary"] for host in (first, second)]
    yield from _unlike("the interconnect", *links)


def _device(gpu: Mapping[str, Any]) -> str:
    """Return the canonical key of a GPU, or its own name where the table has none."""
    known = canonical(gpu["name"], None if gpu["mig_profile"] else gpu["memory_total_bytes"])
    return known.key if known else str(gpu["name"])


def _unlike(what: str, one: object, other: object) -> Iterator[str]:
    # By exact type: true is not 1.
    if type(one) is not type(other) or one != other:
        yield f"{what}: {show(one)} and {show(other)}"
