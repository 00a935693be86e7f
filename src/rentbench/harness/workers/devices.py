"""The device that a worker measures on: whether it is usable, and how much of its memory a case took."""

from __future__ import annotations

import warnings
from typing import Any, Protocol

from rentbench.core.errors import ErrorKind, RentbenchError
from rentbench.harness.failures.classify import classify

__all__ = ["CpuDevice", "CudaDevice", "Device", "DeviceError"]

# What torch's warnings can tell beyond "no GPU".
_TOLD_BY_WARNING = {
    ErrorKind.DRIVER_TOO_OLD,
    ErrorKind.DRIVER_MISMATCH,
    ErrorKind.HOST_FAULT,
    ErrorKind.GPU_LOST,
}


class DeviceError(RentbenchError):
    """The device cannot be used at all; `kind` is one of the schema's error kinds."""

    def __init__(self, kind: str, message: str, *, hint: str | None) -> None:
        super().__init__(message, hint=hint)
        self.kind = kind


class Device(Protocol):
    """What a worker asks of its device."""

    count: int

    def begin_case(self) -> None:
        """Start counting memory anew."""

    def end_case(self) -> None:
        """Give back memory that nothing holds any more."""

    def works(self) -> bool:
        """Say whether later cases can still run in this process."""

    def allocated_memory(self) -> int | None:
        """Return the bytes allocated now, of the GPU that holds most; None where that is not known."""

    def peak_memory(self) -> tuple[int | None, str | None]:
        """Return the most bytes allocated at once since `begin_case`, or why that is not known."""


class CpuDevice:
    """The CPU.

    Memory is not counted: the process's own peak would include Python, its libraries and earlier cases.
    """

    count = 0

    def begin_case(self) -> None:
        """Do nothing."""

    def end_case(self) -> None:
        """Do nothing."""

    def works(self) -> bool:
        """Return True: a CPU has no context that a case could break."""
        return True

    def allocated_memory(self) -> int | None:
        """Return None."""
        return None

    def peak_memory(self) -> tuple[int | None, str | None]:
        """Return no number and the reason."""
        return None, "not counted on CPU"


class CudaDevice:
    """All GPUs that torch sees. Memory is what torch's allocator counts, on the GPU that holds most.

    Raises:
        DeviceError: torch cannot use a GPU here. It never falls back to the CPU.
        ImportError: torch is missing or broken.
    """

    def __init__(self) -> None:
        import torch

        self._torch: Any = torch
        _require_gpu(torch)
        self.count: int = torch.cuda.device_count()

    def begin_case(self) -> None:
        """Start counting memory anew, on every GPU."""
        for index in range(self.count):
            self._torch.cuda.reset_peak_memory_stats(index)

    def end_case(self) -> None:
        """Give cached memory back, unless the GPU does not work any more."""
        if self.works():
            self._torch.cuda.empty_cache()

    def works(self) -> bool:
        """Say whether the CUDA context is sound; an illegal access, say, breaks it for the whole process."""
        try:
            self._torch.cuda.synchronize()
        except RuntimeError:
            return False
        return True

    def allocated_memory(self) -> int | None:
        """Return what torch holds now on the GPU that holds most, bytes."""
        allocated: int = max(self._torch.cuda.memory_allocated(index) for index in range(self.count))
        return allocated

    def peak_memory(self) -> tuple[int | None, str | None]:
        """Return the true maximum on the GPU that held most; no number where torch allocated nothing."""
        peak: int = max(self._torch.cuda.max_memory_allocated(index) for index in range(self.count))
        return (peak, None) if peak else (None, "the worker allocated no GPU memory through torch")


def _require_gpu(torch: Any) -> None:  # noqa: ANN401 - torch is not there when types are checked
    if torch.version.cuda is None:
        hint = "install a CUDA build of torch, or ask for --device cpu with --preset smoke"
        raise DeviceError(ErrorKind.DEPENDENCY_MISSING, "this torch is built for CPU only", hint=hint)
    # torch says most of what is wrong in warnings, and then behaves as if there were no GPU.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        available = torch.cuda.is_available()
    if not available:
        told = "\n".join(str(warning.message) for warning in caught)
        found = classify(told, returncode=1)
        kind = found["kind"] if found["kind"] in _TOLD_BY_WARNING else ErrorKind.NO_GPU
        message = told or "torch finds no GPU, though the driver lists one"
        raise DeviceError(kind, message, hint=found["hint"])
    try:
        torch.zeros(1, device="cuda").add_(1).item()
    except RuntimeError as error:
        found = classify(str(error), exception=error)
        major, minor = torch.cuda.get_device_capability()
        built = ", ".join(torch.cuda.get_arch_list())
        message = f"{found['message']} (the GPU is sm_{major}{minor}; this torch is built for {built})"
        raise DeviceError(found["kind"], message, hint=found["hint"]) from error
