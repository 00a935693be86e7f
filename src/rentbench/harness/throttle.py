"""Why a GPU runs slower than it could: the driver's reasons in the schema's words."""

from __future__ import annotations

from typing import Final

__all__ = ["reasons_from_bits", "reasons_from_names"]

# NVML's clock event reasons (nvml.h; "throttle reasons" before driver 535), and the names that nvidia-smi
# gives them in XML and CSV. Bit 0x1 is not among them: an idle GPU is not throttled.
_REASONS: Final = (
    (0x002, "applications_clocks_setting", "application_clocks"),
    (0x004, "sw_power_cap", "power_cap"),
    (0x008, "hw_slowdown", "hardware_slowdown"),
    (0x010, "sync_boost", "sync_boost"),
    (0x020, "sw_thermal_slowdown", "thermal_software"),
    (0x040, "hw_thermal_slowdown", "thermal_hardware"),
    (0x080, "hw_power_brake_slowdown", "power_brake"),
    (0x100, "display_clocks_setting", "display_clocks"),
)
_PREFIXES: Final = (
    "clocks_event_reason_",
    "clocks_throttle_reason_",
    "clocks_event_reasons.",
    "clocks_throttle_reasons.",
)


def reasons_from_bits(bits: int) -> frozenset[str]:
    """Return the reasons of NVML's bit mask; bits that this code does not know are left out."""
    return frozenset(reason for bit, _, reason in _REASONS if bits & bit)


def reasons_from_names(states: dict[str, str]) -> frozenset[str] | None:
    """Return the reasons that nvidia-smi lists as `Active`, by its old or its new names.

    Args:
        states: `clocks_event_reason_sw_power_cap` → `Active`, `Not Active`, or anything that says nothing.

    Returns:
        None where it says nothing on any of them.
    """
    known = {name: reason for _, name, reason in _REASONS}
    active, told = set(), False
    for key, state in states.items():
        prefix = next((prefix for prefix in _PREFIXES if key.startswith(prefix)), None)
        reason = known.get(key.removeprefix(prefix)) if prefix else None
        if reason and state in {"Active", "Not Active"}:
            told = True
            if state == "Active":
                active.add(reason)
    return frozenset(active) if told else None
