"""Which faults that the driver writes into the kernel's log (Xid messages) are faults of the machine."""

from __future__ import annotations

from typing import Final

__all__ = ["HARDWARE"]

# From NVIDIA's catalogue of Xid errors: faults of the card, its links or its firmware. The others are mostly
# made by programs (13, 31, 43, 45), can be (109, 154), or tell of a repair (63: a row was remapped).
HARDWARE: Final = {
    48: "double-bit ECC error",
    61: "internal microcontroller breakpoint",
    62: "internal microcontroller halt",
    64: "row remapping failed",
    74: "NVLink error",
    79: "the GPU has fallen off the bus",
    92: "high rate of single-bit ECC errors",
    94: "contained ECC error",
    95: "uncontained ECC error",
    110: "security fault",
    119: "GSP firmware does not answer",
    120: "GSP firmware error",
    136: "link training failed",
    140: "unrecovered ECC error",
    143: "GPU initialisation failed",
    145: "NVLink error",
}
