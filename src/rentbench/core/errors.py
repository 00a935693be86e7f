"""The one tree of errors, and the one closed list of what can go wrong in a run.

Every error that reaches a user says what happened (`message`) and what to do (`hint`), and belongs to a class
with an exit code of its own. Only `rentbench.cli` and the harness's entry point turn errors into exits.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum

__all__ = [
    "DependencyMissingError",
    "ErrorKind",
    "ExitCode",
    "InvalidDocumentError",
    "RentbenchError",
    "UnusableInputError",
    "UsageError",
]


class ExitCode(IntEnum):
    """Exit codes of a workload, and of the commands that run one."""

    OK = 0
    USAGE = 2
    FAILED = 3
    PARTIAL = 4
    SKIPPED = 5


class ErrorKind(StrEnum):
    """What can go wrong in a run; the schema holds the same names (`$defs/error_kind`)."""

    OOM = "oom"
    HOST_OOM = "host_oom"
    UNSUPPORTED_ARCH = "unsupported_arch"
    UNSUPPORTED_DTYPE = "unsupported_dtype"
    UNSUPPORTED_PLATFORM = "unsupported_platform"
    DRIVER_TOO_OLD = "driver_too_old"
    DRIVER_MISMATCH = "driver_mismatch"
    NO_GPU = "no_gpu"
    TOO_FEW_GPUS = "too_few_gpus"
    GPU_BUSY = "gpu_busy"
    GPU_LOST = "gpu_lost"
    HOST_FAULT = "host_fault"
    NO_CONTAINER_TOOLKIT = "no_container_toolkit"
    SHM_TOO_SMALL = "shm_too_small"
    DISK_FULL = "disk_full"
    PERMISSION_DENIED = "permission_denied"
    NCCL_TIMEOUT = "nccl_timeout"
    NCCL_ERROR = "nccl_error"
    TIMEOUT = "timeout"
    NO_OUTPUT = "no_output"
    INTERRUPTED = "interrupted"
    KILLED = "killed"
    CRASHED = "crashed"
    DEPENDENCY_MISSING = "dependency_missing"
    MODEL_ACCESS = "model_access"
    NETWORK = "network"
    WRONG_RESULT = "wrong_result"
    INVALID_RESULT = "invalid_result"
    NO_RESULT = "no_result"
    USAGE = "usage"
    IMAGE_MISSING = "image_missing"
    COMMAND_MISSING = "command_missing"
    COMMAND_NOT_EXECUTABLE = "command_not_executable"
    ENGINE_ERROR = "engine_error"
    INTERNAL = "internal"


class RentbenchError(Exception):
    """An error that a user can act on.

    Args:
        message: What happened.
        hint: What to do about it; None where there is nothing to add.
    """

    exit_code: int = ExitCode.FAILED

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(RentbenchError):
    """The command line or a setting is wrong; nothing was started."""

    exit_code = ExitCode.USAGE


class InvalidDocumentError(RentbenchError):
    """A document was read, and breaks its schema or its rules."""

    exit_code = 1


class UnusableInputError(RentbenchError):
    """An input cannot be read at all: missing, binary, truncated, too large, not permitted."""

    exit_code = 2


class DependencyMissingError(RentbenchError):
    """A package that this needs is not installed; what does not need it works on."""
