"""Operations that only move memory: inside the device, and between it and the host's page-locked memory.

Bytes are counted as the operation needs them: a copy reads each byte once and writes it once; the triad a = b
+ s·c reads two arrays and writes one; a transfer between host and device moves each byte once. What a cache
reads before it writes is not counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["BYTES_PER_BYTE", "Transfer"]

Tensor: TypeAlias = Any  # torch is not installed where types are checked

# Bytes moved for each byte of one array.
BYTES_PER_BYTE = {"device_copy": 2, "device_triad": 3, "host_to_device": 1, "device_to_host": 1}

_FACTOR = 3.0  # the triad's s
_CHECKED_AT_ONCE = 2**24  # elements; keeps the float64 reference small beside the arrays


class Transfer:
    """One operation on arrays of `mebibytes` MiB of float32 each, filled from the normal distribution.

    Attributes:
        bytes_moved: By one call.
        move: Does it; on a GPU it only queues it.
    """

    def __init__(self, operation: str, mebibytes: int, device: str) -> None:
        """Make the arrays.

        Args:
            operation: One of `BYTES_PER_BYTE`.
            mebibytes: Size of each array.
            device: As torch names it; the transfers between host and device need a GPU.
        """
        self._elements = mebibytes * 2**20 // 4
        self.bytes_moved = BYTES_PER_BYTE[operation] * self._elements * 4
        source = torch.randn(self._elements, dtype=torch.float32, device=device)
        target = torch.full((self._elements,), float("nan"), dtype=torch.float32, device=device)
        other: Tensor | None = None
        self.move: Callable[[], object]
        if operation == "device_triad":
            other = torch.randn(self._elements, dtype=torch.float32, device=device)
            self.move = lambda: torch.add(source, other, alpha=_FACTOR, out=target)
        else:
            if operation == "host_to_device":
                source = source.cpu().pin_memory()
            elif operation == "device_to_host":
                target = target.cpu().pin_memory()
            self.move = lambda: target.copy_(source, non_blocking=True)
        self._source, self._other, self._target = source, other, target

    def is_right(self) -> bool:
        """Say whether the target holds what the operation should have left there, in every element."""
        for begin in range(0, self._elements, _CHECKED_AT_ONCE):
            part = slice(begin, begin + _CHECKED_AT_ONCE)
            source, got = self._source[part], self._target[part].to(self._source.device)
            if self._other is None:
                right = torch.equal(got, source)
            else:  # the triad rounds once or twice
                expected = source.double() + _FACTOR * self._other[part].double()
                right = torch.allclose(got.double(), expected, rtol=1e-6, atol=2e-6)
            if not right:
                return False
        return True
