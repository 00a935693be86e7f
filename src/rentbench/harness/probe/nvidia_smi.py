"""nvidia-smi as a source of facts: its XML (drivers 418 to 595), its CSV and its list of MIG devices.

It says that it has nothing to say in a dozen ways (`N/A`, `[Not Supported]`, `Requested functionality has
been deprecated`, `ERR!`, …) and finds new ones, so what is wanted is recognised here and everything else is
missing: a number is a number with the unit expected, a state is one of the two words expected.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from rentbench.harness.probe.inventory import (
    MEMORY_FIELDS,
    UNKNOWN,
    Gpu,
    Inventory,
    Mig,
    is_vgpu_name,
    sysfs_bus_id,
)
from rentbench.harness.probe.safe_xml import XmlError, parse_xml
from rentbench.harness.tools import run_tool

if TYPE_CHECKING:
    from collections.abc import Mapping
    from xml.etree.ElementTree import Element

__all__ = ["mig_names", "number", "parse_csv", "parse_query", "query", "scrub", "text"]

_SILENCE: Final = re.compile(
    r"\[?(n/a|not supported|not available.*|not found|unknown( error)?|requested.*|err!?|gpu is lost"
    r"|gpu requires reset|insufficient permissions|no permission|function not found|none)?\]?",
    re.IGNORECASE,
)
_BYTES: Final = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_IDENTIFYING: Final = re.compile(
    r"<(serial|uuid|pdi|chassis_serial_number|host_id|gpu_fabric_guid|clusterUuid|board_id)>[^<]+</\1>"
)
_STATES: Final = {"Enabled": True, "Disabled": False, "Yes": True, "No": False}
# Whether this machine is a guest that holds a share of a GPU. A host that gives shares away holds the whole.
_VIRTUALISATION: Final = {
    "None": False,
    "Pass-Through": False,
    "Host VGPU": False,
    "Host VSGA": False,
    "VGPU": True,
}


def text(value: str | None) -> str | None:
    """Return a text, or None for one of nvidia-smi's ways to say nothing."""
    stripped = (value or "").strip()
    return None if _SILENCE.fullmatch(stripped) else stripped


def number(value: str | None, unit: str = "") -> float | None:
    """Return the number, or None where there is none or its unit is another.

    Args:
        value: As printed: `631.95 W`, `204642816 us`, `16x`, `[N/A]`.
        unit: The unit expected; with `B`, multiples of bytes are converted.
    """
    match = re.fullmatch(r"\s*([+-]?\d+(?:\.\d+)?)\s*([A-Za-z%/]*)\s*", value or "", re.ASCII)
    if match is None:
        return None
    if unit == "B":
        factor = _BYTES.get(match[2])
        return None if factor is None else float(match[1]) * factor
    return float(match[1]) if match[2] == unit else None


def parse_csv(output: str) -> list[dict[str, str | None]]:
    """Return the rows of `--query-gpu=… --format=csv` by column name.

    Names come without their unit (`power.draw [W]` is `power.draw`), old ones as new ones. Values are as
    printed, with their units; those that say nothing are None.
    """
    # Nothing is quoted, and no value of a GPU's holds a comma.
    rows = [[cell.strip() for cell in line.split(",")] for line in output.splitlines() if line.strip()]
    if not rows:
        return []
    names = [
        name.partition(" [")[0].replace("clocks_throttle_reasons", "clocks_event_reasons") for name in rows[0]
    ]
    return [
        {name: text(value) for name, value in zip(names, row, strict=True)}
        for row in rows[1:]
        if len(row) == len(names)
    ]


def mig_names(output: str) -> dict[int, list[tuple[str, str]]]:
    """Return (profile, UUID) of each GPU's MIG devices from `nvidia-smi -L`, by GPU number."""
    names: dict[int, list[tuple[str, str]]] = {}
    current: list[tuple[str, str]] = []
    for line in output.splitlines():
        if gpu := re.match(r"GPU (\d+):", line):
            current = names.setdefault(int(gpu[1]), [])
        elif part := re.match(r"\s+MIG (\S+)\s+Device\s+\d+: \(UUID: (MIG-[^)]+)\)", line):
            current.append((part[1], part[2]))
    return names


def scrub(output: str) -> str:
    """Return the XML without what names a board, a machine or other people's processes."""
    output = re.sub(r"<process_info>.*?</process_info>\s*", "", output, flags=re.DOTALL)
    return _IDENTIFYING.sub(r"<\1>removed</\1>", output)


def parse_query(
    output: str,
    *,
    capabilities: Mapping[str, str | None] | None = None,
    mig: Mapping[int, list[tuple[str, str]]] | None = None,
) -> Inventory:
    """Return what `nvidia-smi -q -x` says.

    Args:
        output: As printed.
        capabilities: Compute capability by UUID: the XML has none.
        mig: From `mig_names`: the XML has neither profiles nor UUIDs of MIG devices.
    """
    try:
        root = parse_xml(output)
    except XmlError as error:
        return Inventory(problem=f"nvidia-smi printed no XML that can be read: {error}")
    gpus = [
        _gpu(element, capabilities or {}, (mig or {}).get(index, []))
        for index, element in enumerate(root.findall("gpu"))
    ]
    counted = number(root.findtext("attached_gpus"))
    return Inventory(
        gpus=tuple(gpus),
        driver_version=text(root.findtext("driver_version")),
        cuda_driver_version=text(root.findtext("cuda_version")),
        problem=None
        if counted in {None, len(gpus)}
        else f"nvidia-smi counts {counted:g} GPUs and lists {len(gpus)}",
    )


def query(*, timeout_seconds: float) -> tuple[Inventory, str]:
    """Ask nvidia-smi; return what it says and the XML as printed. Never raises."""
    answer = run_tool(["nvidia-smi", "-q", "-x"], timeout_seconds=timeout_seconds)
    if answer.problem:
        return Inventory(problem=answer.problem), answer.output
    command = ["nvidia-smi", "--query-gpu=uuid,compute_cap", "--format=csv"]
    rows = parse_csv(run_tool(command, timeout_seconds=timeout_seconds).output)
    capabilities = {str(row.get("uuid")): row.get("compute_cap") for row in rows}
    mig: dict[int, list[tuple[str, str]]] = {}
    if "<mig_device>" in answer.output:
        mig = mig_names(run_tool(["nvidia-smi", "-L"], timeout_seconds=timeout_seconds).output)
    return parse_query(answer.output, capabilities=capabilities, mig=mig), answer.output


def _gpu(gpu: Element, capabilities: Mapping[str, str | None], mig: list[tuple[str, str]]) -> Gpu:
    def say(*paths: str) -> str | None:
        return next((found for path in paths if (found := text(gpu.findtext(path))) is not None), None)

    def whole(path: str, unit: str = "") -> int | None:
        value = number(gpu.findtext(path), unit)
        return None if value is None else int(value)

    def power(*names: str) -> float | None:
        # The group is `power_readings` up to driver 530, and `gpu_power_readings` later.
        groups = ("gpu_power_readings", "power_readings")
        return number(say(*(f"{group}/{name}" for group in groups for name in names)), "W")

    uuid = text(gpu.findtext("uuid"))
    name = text(gpu.findtext("product_name")) or UNKNOWN
    link = "pci/pci_gpu_link_info"
    values: dict[str, Any] = {
        "name": name,
        **_memory(gpu),
        "compute_capability": capabilities.get(uuid or ""),
        "vbios": text(gpu.findtext("vbios_version")),
        "power_limit_watts": power("current_power_limit", "enforced_power_limit", "power_limit"),
        "power_limit_default_watts": power("default_power_limit"),
        "power_limit_max_watts": power("max_power_limit"),
        "clock_max_sm_mhz": number(gpu.findtext("max_clocks/sm_clock"), "MHz"),
        "clock_max_memory_mhz": number(gpu.findtext("max_clocks/mem_clock"), "MHz"),
        "ecc_enabled": _state(gpu.findtext("ecc_mode/current_ecc")),
        "ecc_uncorrected_errors": _uncorrected(gpu),
        "remapped_rows": _remapped_rows(gpu.find("remapped_rows")),
        "persistence_mode": _state(gpu.findtext("persistence_mode")),
        "mig_mode": _state(gpu.findtext("mig_mode/current_mig")),
        "vgpu": is_vgpu_name(name)
        or _VIRTUALISATION.get(_raw(gpu, "gpu_virtualization_mode/virtualization_mode")),
        "pcie_generation": whole(f"{link}/pcie_gen/current_link_gen"),
        "pcie_generation_max": whole(f"{link}/pcie_gen/max_link_gen"),
        "pcie_width": whole(f"{link}/link_widths/current_link_width", "x"),
        "pcie_width_max": whole(f"{link}/link_widths/max_link_width", "x"),
    }
    bus_id = text(gpu.get("id"))
    parts = gpu.findall("mig_devices/mig_device")
    names: list[tuple[str | None, str | None]] = [*mig, *[(None, None)] * (len(parts) - len(mig))]
    return Gpu(
        values={field: value for field, value in values.items() if value is not None},
        reasons={"": "nvidia-smi does not tell it"},
        uuid=uuid,
        serial=text(gpu.findtext("serial")),
        pci_bus_id=sysfs_bus_id(bus_id) if bus_id else None,
        mig=tuple(
            Mig(uuid=uuid, profile=profile, memory=_memory(part))
            for part, (profile, uuid) in zip(parts, names, strict=False)
        ),
    )


def _raw(element: Element, path: str) -> str:
    return (element.findtext(path) or "").strip()


def _state(value: str | None) -> bool | None:
    return _STATES.get((value or "").strip())


def _memory(element: Element) -> dict[str, int]:
    """Return the memory of a GPU or of a MIG device: they print it alike."""
    total, reserved, used = (
        number(element.findtext(f"fb_memory_usage/{name}"), "B") for name in ("total", "reserved", "used")
    )
    usable = None if total is None or reserved is None else total - reserved
    found = zip(MEMORY_FIELDS, (total, usable, used), strict=True)
    return {field: int(value) for field, value in found if value is not None}


def _uncorrected(gpu: Element) -> int | None:
    """Return the uncorrected memory errors since the driver was loaded, summed over the kinds of memory."""
    new = [child.text for child in gpu.findall("ecc_errors/volatile/*") if "uncorrectable" in child.tag]
    old = [gpu.findtext("ecc_errors/volatile/double_bit/total")]
    counts = [count for value in new or old if (count := number(value)) is not None]
    return int(sum(counts)) if counts else None


def _remapped_rows(rows: Element | None) -> dict[str, int | bool] | None:
    if rows is None:
        return None
    correctable, uncorrectable = (number(rows.findtext(f"remapped_row_{kind}")) for kind in ("corr", "unc"))
    pending, failed = (_state(rows.findtext(f"remapped_row_{kind}")) for kind in ("pending", "failure"))
    if correctable is None or uncorrectable is None or pending is None or failed is None:
        return None
    return {
        "correctable": int(correctable),
        "uncorrectable": int(uncorrectable),
        "pending": pending,
        "failed": failed,
    }
