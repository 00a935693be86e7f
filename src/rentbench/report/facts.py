"""What documents say of hardware, engine and container, as lines of label, value, and reason for a dash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rentbench.report.format import MISSING, byte_count, moment, number, quantity, scalar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Fact", "Reasons", "container_facts", "gpu_facts", "host_facts", "reason", "run_facts"]


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One line; `value` is a dash and `reason` says why where the document has null."""

    label: str
    value: str
    reason: str = ""


class Reasons:
    """Looks up why a value is null: in the document's `unavailable`, by the longest pointer above the place.

    Args:
        document: A measurement or a run.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._by_path = {item["path"]: item["reason"] for item in document["unavailable"]}

    def why(self, path: str) -> str:
        """Return the reason for a null at a JSON pointer; empty where the document names none."""
        place = path
        while place:
            if place in self._by_path:
                return str(self._by_path[place])
            place = place.rpartition("/")[0]
        return ""


def reason(document: Mapping[str, Any], path: str) -> str:
    """Return why a document has null at a JSON pointer, in its own words, else `not recorded`."""
    return Reasons(document).why(path) or "not recorded"


def host_facts(document: Mapping[str, Any]) -> list[Fact]:
    """Return the machine of a measurement, without its GPUs."""
    host, reasons = document["host"], Reasons(document)
    cpu, memory, disk, limits = host["cpu"], host["memory"], host["disk"], host["limits"]
    topology = host["topology"]
    return _facts(
        reasons,
        [
            ("Driver", "/host/driver_version", host["driver_version"]),
            ("CUDA that the driver supports", "/host/cuda_driver_version", host["cuda_driver_version"]),
            ("Links between GPUs", "/host/topology", topology["summary"] if topology else None),
            ("CPU", "/host/cpu/model", cpu["model"]),
            ("CPU architecture", "/host/cpu/architecture", cpu["architecture"]),
            ("Logical cores", "/host/cpu/logical_cores", _plain(cpu["logical_cores"])),
            ("Usable cores", "/host/cpu/usable_cores", _plain(cpu["usable_cores"])),
            ("Core quota", "/host/cpu/quota_cores", _plain(cpu["quota_cores"])),
            ("NUMA nodes", "/host/cpu/numa_nodes", _plain(cpu["numa_nodes"])),
            ("Memory", "/host/memory/total_bytes", _bytes(memory["total_bytes"])),
            ("Memory limit", "/host/memory/limit_bytes", _bytes(memory["limit_bytes"])),
            ("File system", "/host/disk/filesystem", disk["filesystem"]),
            ("Disk size", "/host/disk/total_bytes", _bytes(disk["total_bytes"])),
            ("Disk free", "/host/disk/free_bytes", _bytes(disk["free_bytes"])),
            ("Kernel", "/host/kernel", host["kernel"]),
            ("Operating system", "/host/operating_system", host["operating_system"]),
            ("Container", "/host/container", host["container"]),
            ("Shared memory", "/host/limits/shm_bytes", _bytes(limits["shm_bytes"])),
            ("Process limit", "/host/limits/pids", _plain(limits["pids"])),
            ("Open files limit", "/host/limits/open_files", _plain(limits["open_files"])),
            (
                "Locked memory limit",
                "/host/limits/locked_memory_bytes",
                _bytes(limits["locked_memory_bytes"]),
            ),
        ],
    )


def gpu_facts(document: Mapping[str, Any], index: int) -> list[Fact]:
    """Return one GPU of a measurement."""
    gpu, reasons, at = document["host"]["gpus"][index], Reasons(document), f"/host/gpus/{index}"
    rows = gpu["remapped_rows"]
    remapped = rows and (
        f"{number(rows['correctable'])} correctable, {number(rows['uncorrectable'])} uncorrectable"
        f"{', pending' if rows['pending'] else ''}{', failed' if rows['failed'] else ''}"
    )
    return _facts(
        reasons,
        [
            ("Name", f"{at}/name", gpu["name"]),
            ("Memory", f"{at}/memory_total_bytes", _bytes(gpu["memory_total_bytes"])),
            ("Usable memory", f"{at}/memory_usable_bytes", _bytes(gpu["memory_usable_bytes"])),
            (
                "In use before the run",
                f"{at}/memory_used_before_bytes",
                _bytes(gpu["memory_used_before_bytes"]),
            ),
            ("Compute capability", f"{at}/compute_capability", gpu["compute_capability"]),
            ("VBIOS", f"{at}/vbios", gpu["vbios"]),
            ("Power limit", f"{at}/power_limit_watts", _with(gpu["power_limit_watts"], "W")),
            (
                "Default power limit",
                f"{at}/power_limit_default_watts",
                _with(gpu["power_limit_default_watts"], "W"),
            ),
            ("Highest power limit", f"{at}/power_limit_max_watts", _with(gpu["power_limit_max_watts"], "W")),
            ("Highest SM clock", f"{at}/clock_max_sm_mhz", _with(gpu["clock_max_sm_mhz"], "MHz")),
            ("Highest memory clock", f"{at}/clock_max_memory_mhz", _with(gpu["clock_max_memory_mhz"], "MHz")),
            ("ECC", f"{at}/ecc_enabled", _truth(gpu["ecc_enabled"], "on", "off")),
            ("Uncorrected ECC errors", f"{at}/ecc_uncorrected_errors", _plain(gpu["ecc_uncorrected_errors"])),
            ("Remapped rows", f"{at}/remapped_rows", remapped),
            ("Persistence mode", f"{at}/persistence_mode", _truth(gpu["persistence_mode"], "on", "off")),
            (
                "MIG",
                f"{at}/mig_mode",
                _truth(gpu["mig_mode"], f"on, {gpu['mig_profile'] or 'whole GPU'}", "off"),
            ),
            ("Virtual GPU", f"{at}/vgpu", _truth(gpu["vgpu"], "yes", "no")),
            ("PCIe", f"{at}/pcie_generation", _link(gpu["pcie_generation"], gpu["pcie_width"])),
            (
                "PCIe at most",
                f"{at}/pcie_generation_max",
                _link(gpu["pcie_generation_max"], gpu["pcie_width_max"]),
            ),
            ("NUMA node", f"{at}/numa_node", _plain(gpu["numa_node"])),
            ("Hash of the UUID, salted for this run", f"{at}/uuid_hash", gpu["uuid_hash"]),
        ],
    )


def run_facts(run: Mapping[str, Any]) -> list[Fact]:
    """Return what the driver knows: image, provider, price, engine."""
    image, host, share, price, billed = (
        run["image"],
        run["host"],
        run["gpu_share"],
        run["price"],
        run["billed"],
    )
    return _facts(
        Reasons(run),
        [
            ("Image", "/image/reference", image["reference"]),
            ("Digest", "/image/digest", image["digest"]),
            ("Image id", "/image/image_id", image["image_id"]),
            ("Recipe id", "/image/recipe_id", image["recipe_id"]),
            ("Provider", "/provider", run["provider"]),
            ("Offer", "/offer", run["offer"]),
            ("Region", "/region", run["region"]),
            ("Tier", "/tier", run["tier"]),
            (
                "GPUs used of the machine's",
                "/gpu_share",
                share and f"{number(share['used'])} of {number(share['machine'])}",
            ),
            ("Price on the run day", "/price", price and _price(price)),
            (
                "Billed",
                "/billed",
                billed and f"{number(billed['amount'])} {billed['currency']}, {billed['source']}",
            ),
            ("Plan", "/plan", run["plan"]),
            (
                "Budget",
                "/budget",
                run["budget"] and f"{number(run['budget']['amount'])} {run['budget']['currency']}",
            ),
            ("Host", "/host/kind", host["kind"]),
            ("Engine", "/host/engine_version", host["engine_version"]),
            ("Engine API", "/host/engine_api_version", host["engine_api_version"]),
            ("Container runtime", "/host/runtime", host["runtime"]),
            ("Storage driver", "/host/storage_driver", host["storage_driver"]),
            ("cgroup version", "/host/cgroup_version", host["cgroup_version"]),
            ("rentbench", "/driver_version", run["driver_version"]),
            ("Replaces", "/replaces", run["replaces"]),
        ],
    )


def container_facts(run: Mapping[str, Any]) -> list[Fact]:
    """Return the container's options in force; empty where no container was created."""
    options = run["container"]
    if options is None:
        return []
    return _facts(
        Reasons(run),
        [
            ("User", "/container/user", options["user"]),
            ("Network", "/container/network", options["network"]),
            ("Read-only root", "/container/read_only_root", _truth(options["read_only_root"], "yes", "no")),
            (
                "Capabilities dropped",
                "/container/capabilities_dropped",
                ", ".join(options["capabilities_dropped"]) or "none",
            ),
            (
                "No new privileges",
                "/container/no_new_privileges",
                _truth(options["no_new_privileges"], "yes", "no"),
            ),
            ("Init process", "/container/init", _truth(options["init"], "yes", "no")),
            ("Memory limit", "/container/memory_bytes", _bytes(options["memory_bytes"])),
            ("Process limit", "/container/pids_limit", _plain(options["pids_limit"])),
            ("Shared memory", "/container/shm_bytes", _bytes(options["shm_bytes"])),
            ("GPUs asked for", "/container/gpus", options["gpus"]),
            ("Exit code", "/container/exit_code", _plain(options["exit_code"])),
            ("Killed for memory", "/container/oom_killed", _truth(options["oom_killed"], "yes", "no")),
        ],
    )


def _facts(reasons: Reasons, lines: Iterable[tuple[str, str, str | None]]) -> list[Fact]:
    return [
        Fact(label=label, value=MISSING, reason=reasons.why(path) or "not recorded")
        if value is None
        else Fact(label=label, value=value)
        for label, path, value in lines
    ]


def _plain(value: float | None) -> str | None:
    return None if value is None else scalar(value)


def _bytes(value: int | None) -> str | None:
    return None if value is None else byte_count(value)


def _with(value: float | None, unit: str) -> str | None:
    return None if value is None else quantity(value, unit)


def _truth(value: bool | None, yes: str, no: str) -> str | None:
    return None if value is None else (yes if value else no)


def _link(generation: int | None, width: int | None) -> str | None:
    if generation is None and width is None:
        return None
    return f"generation {_or_dash(generation)}, {_or_dash(width)} lanes"


def _or_dash(value: int | None) -> str:
    return MISSING if value is None else str(value)


def _price(price: Mapping[str, Any]) -> str:
    gpus = f" with {price['gpu_count']} GPUs" if price["per"] == "machine-hour" and price["gpu_count"] else ""
    unit = {"gpu-hour": "GPU-hour", "machine-hour": "machine-hour", "1M-tokens": "1M tokens"}[price["per"]]
    amount = f"{number(price['amount'])} {price['currency']} per {unit}{gpus}"
    return f"{amount}, {price['source']}, read {moment(price['retrieved_at'])}"
