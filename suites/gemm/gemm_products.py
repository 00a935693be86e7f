"""Square matrix products in each data type: what a device can run, the operands, the call, the proof.

The operands are drawn from the normal distribution: zeros and constants draw less power and run faster than
real data. fp8 and int8 operands are scaled with one factor a tensor, so that the largest value uses the
type's whole range, as quantised inference does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LIMITS", "ErrorLimits", "Product", "operations", "set_precision", "unsupported_reason"]

Tensor: TypeAlias = Any  # torch is not installed where types are checked
Capability: TypeAlias = tuple[int, int]

_REFERENCE_COLUMNS = 1024


@dataclass(frozen=True, kw_only=True)
class ErrorLimits:
    """Relative errors ‖C − R‖ ÷ ‖R‖ between which a right product lies; R is computed in float64.

    The operands are exact in their type, so the error is that of the accumulation and of rounding the output,
    and for tf32 that of rounding the operands to 10 bits of mantissa. An error below `low` means that the
    product was computed in a higher precision than the case says.
    """

    low: float
    high: float


# Expected: bf16 and fp8 1.7e-3, fp16 2e-4 (rounding of the output), tf32 3e-4, fp32 1e-6, int8 none. fp8 may
# be less exact where fast accumulation is on.
LIMITS = {
    "bf16": ErrorLimits(low=1e-5, high=1e-2),
    "fp16": ErrorLimits(low=1e-6, high=2e-3),
    "tf32": ErrorLimits(low=5e-5, high=2e-3),
    "fp32": ErrorLimits(low=0.0, high=3e-5),
    "fp8": ErrorLimits(low=1e-5, high=3e-2),
    "int8": ErrorLimits(low=0.0, high=0.0),
}

# Least compute capability with hardware for the type, and what is so without it.
_HARDWARE: dict[str, tuple[Capability, str]] = {
    "bf16": ((8, 0), "bf16 is emulated there"),
    "fp16": ((5, 3), "there is no fp16 arithmetic"),
    "tf32": ((8, 0), "there is no tf32"),
    "fp8": ((8, 9), "there is no fp8"),
    "int8": ((7, 5), "there are no int8 tensor cores"),
}


def operations(size: int) -> int:
    """Return the operations of a product of two n × n matrices: 2n³, as many additions as multiplications."""
    return 2 * size**3


def unsupported_reason(dtype: str, capability: Capability | None) -> str | None:
    """Return why a device cannot be measured in a data type, or None where it can.

    Torch is not asked: `torch.cuda.is_bf16_supported()` is true on cards that emulate it.

    Args:
        dtype: One of `LIMITS`.
        capability: The GPU's compute capability; None for a CPU.
    """
    if capability is None:
        return "tf32 is a mode of NVIDIA's tensor cores; this run is on a CPU" if dtype == "tf32" else None
    least, otherwise = _HARDWARE.get(dtype, ((0, 0), ""))
    if capability < least:
        found, needed = (f"{major}.{minor}" for major, minor in (capability, least))
        return f"{dtype} needs compute capability {needed} or higher, found {found}: {otherwise}"
    return None


def set_precision(dtype: str) -> None:
    """Make float32 products run as tf32 or as true float32, and state the rest instead of trusting defaults.

    fp16 and bf16 products keep PyTorch's default: float32 accumulators, and split sums that may be added up
    in the output's type. fp16 accumulators, which consumer cards run twice as fast, are off.
    """
    matmul = torch.backends.cuda.matmul
    tf32 = dtype == "tf32"
    if hasattr(matmul, "fp32_precision"):  # since torch 2.9, which refuses to mix it with the older name
        matmul.fp32_precision = "tf32" if tf32 else "ieee"
    else:
        matmul.allow_tf32 = tf32
    matmul.allow_fp16_reduced_precision_reduction = True
    matmul.allow_bf16_reduced_precision_reduction = True
    if hasattr(matmul, "allow_fp16_accumulation"):
        matmul.allow_fp16_accumulation = False


class Product:
    """One product C = A·B of two square matrices.

    Attributes:
        multiply: Computes the product into the same output again; on a GPU it only queues it.
    """

    def __init__(self, dtype: str, size: int, device: str, *, fast_accumulation: bool = True) -> None:
        """Draw the operands with torch's global generator, which the harness seeds.

        Args:
            dtype: One of `LIMITS`.
            size: n; a multiple of 16.
            device: As torch names it.
            fast_accumulation: Whether fp8 may accumulate in fewer bits than float32.
        """
        self.dtype = dtype
        self.size = size
        self._scales = (1.0, 1.0)
        normal = _normal(size, device)
        self.multiply: Callable[[], object]
        if dtype in {"fp8", "int8"}:
            (self._a, scale_a), (b, scale_b) = _quantised(normal(), dtype), _quantised(normal(), dtype)
            self._b = b.t()  # both libraries want the second operand column by column
        else:
            kind = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(dtype, torch.float32)
            self._a, self._b = normal().to(kind), normal().to(kind)
        if dtype == "int8":
            self._c = torch.full((size, size), -(2**31), dtype=torch.int32, device=device)
            self.multiply = lambda: torch._int_mm(self._a, self._b, out=self._c)
        elif dtype == "fp8":
            self._scales = (scale_a, scale_b)
            factors = [torch.tensor(scale, dtype=torch.float32, device=device) for scale in self._scales]
            self._c = torch.full((size, size), float("nan"), dtype=torch.bfloat16, device=device)
            self.multiply = lambda: torch._scaled_mm(
                self._a,
                self._b,
                scale_a=factors[0],
                scale_b=factors[1],
                out_dtype=torch.bfloat16,
                use_fast_accum=fast_accumulation,
                out=self._c,
            )
        else:
            # NaN wherever the product is not written.
            self._c = torch.full_like(self._a, float("nan"))
            self.multiply = lambda: torch.matmul(self._a, self._b, out=self._c)

    def relative_error(self, rows: int) -> float:
        """Return ‖C − R‖ ÷ ‖R‖ over some rows of the last product, against float64; NaN where it holds NaN.

        Args:
            rows: How many, the first and the last among them.
        """
        count = max(2, min(rows, self.size))
        chosen = [round(index * (self.size - 1) / (count - 1)) for index in range(count)]
        a = torch.cat([self._a[row : row + 1].double() for row in chosen]) * self._scales[0]
        c = torch.cat([self._c[row : row + 1].double() for row in chosen])
        squares = difference = 0.0
        for begin in range(0, self.size, _REFERENCE_COLUMNS):
            columns = slice(begin, begin + _REFERENCE_COLUMNS)
            reference = a @ (self._b[:, columns].double() * self._scales[1])
            squares += reference.square().sum().item()
            difference += (c[:, columns] - reference).square().sum().item()
        return float((difference / squares) ** 0.5)


def _normal(size: int, device: str) -> Callable[[], Tensor]:
    return lambda: torch.randn((size, size), dtype=torch.float32, device=device)


def _quantised(values: Tensor, dtype: str) -> tuple[Tensor, float]:
    """Return the values in fp8 (e4m3) or int8, and the factor that gives them back."""
    largest = 127.0 if dtype == "int8" else torch.finfo(torch.float8_e4m3fn).max
    scale = values.abs().max().item() / largest
    if dtype == "int8":
        return (values / scale).round_().clamp_(-127, 127).to(torch.int8), scale
    return (values / scale).to(torch.float8_e4m3fn), scale
