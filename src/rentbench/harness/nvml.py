"""Readings from NVIDIA's management library."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["GpuReading", "Reader"]


@dataclass(frozen=True, kw_only=True)
class GpuReading:
    """One reading of one GPU; None where the driver does not say.

    Attributes:
        power_kind: What `power_watts` is: `instant`, or `average` (over the last second).
        throttle: Reasons in the schema's words (`power_cap`, …); None where they cannot be read. Idle is none.
    """

    power_watts: float | None = None
    power_kind: str | None = None
    temperature_celsius: float | None = None
    clock_sm_mhz: float | None = None
    clock_memory_mhz: float | None = None
    utilization_percent: float | None = None
    memory_used_bytes: int | None = None
    throttle: frozenset[str] | None = None


class Reader:
    """Reads GPUs beside running kernels: microseconds to a millisecond a reading, no CUDA call. Never raises.

    Attributes:
        reason: Why nothing can be read; None when it can.
        count: How many GPUs can be read, those that CUDA sees, in CUDA's order.
    """

    def __init__(self) -> None:
        self.reason: str | None = "no GPU"
        self.count = 0

    def reading(self, index: int = 0) -> GpuReading:
        """Return what the GPU (CUDA's index) says now; all None where it says nothing."""
        del index
        return GpuReading()

    def close(self) -> None:
        """Let the library go."""
