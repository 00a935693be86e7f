"""Why a GPU runs slower than it could: the driver's reasons in the schema's words."""

from __future__ import annotations

from typing import Final

__all__ = ["reasons_from_bits"]

# NVML's clock event reasons (nvml.h; "throttle reasons" before driver 535). Bit 0x1 is not among them: an
# idle GPU is not throttled.
_REASONS: Final = (
    (0x002, "application_clocks"),
    (0x004, "power_cap"),
    (0x008, "hardware_slowdown"),
    (0x010, "sync_boost"),
    (0x020, "thermal_software"),
    (0x040, "thermal_hardware"),
    (0x080, "power_brake"),
    (0x100, "display_clocks"),
)


def reasons_from_bits(bits: int) -> frozenset[str]:
    """Return the reasons of NVML's bit mask; bits that this code does not know are left out."""
    return frozenset(reason for bit, reason in _REASONS if bits & bit)
