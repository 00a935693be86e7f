"""The closed set of units that documents use: SI symbols, decimal prefixes for rates, bytes for sizes.

One spelling a unit, so that two results of one metric can always be compared. A suite that needs another unit
adds it here, with what it counts.
"""

from __future__ import annotations

__all__ = ["UNITS", "is_known"]

UNITS: dict[str, str] = {
    # Arithmetic and data rates; prefixes are decimal (1 GB/s = 1e9 bytes a second).
    "TFLOPS": "floating-point operations a second, 1e12",
    "TOPS": "integer operations a second, 1e12",
    "GB/s": "bytes a second, 1e9",
    "MB/s": "bytes a second, 1e6",
    "operations/s": "operations a second",
    # Time and frequency.
    "s": "seconds",
    "h": "hours",
    "ms": "milliseconds",
    "µs": "microseconds",
    "MHz": "clock cycles a second, 1e6",
    # Sizes and counts.
    "bytes": "bytes",
    "GB": "bytes, 1e9",
    "GiB": "bytes, 2^30",
    "count": "things counted",
    "tokens": "tokens",
    "steps": "steps",
    "elements": "elements of an array",
    "iterations": "iterations",
    # Throughput of workloads.
    "tokens/s": "tokens a second",
    "tokens/J": "tokens a joule",
    "requests/s": "requests a second",
    "samples/s": "samples a second",
    "steps/s": "steps a second",
    "passages/s": "passages a second",
    "images/s": "images a second",
    "s/image": "seconds an image",
    "x real time": "seconds of audio a second",
    # Power, energy, heat.
    "W": "watts",
    "J": "joules",
    "°C": "degrees Celsius",
    # Shares and numbers without a dimension.
    "%": "per cent",
    "percentage points": "difference of two shares in per cent",
    "ratio": "one quantity divided by another of its kind",
    "nats": "natural-logarithm loss",
    "cores": "processor cores",
    "GPUs": "GPUs",
    "lanes": "PCIe lanes",
    "generation": "PCIe generation",
    "processes": "processes",
}


def is_known(unit: str) -> bool:
    """Say whether documents may use a unit."""
    return unit in UNITS
