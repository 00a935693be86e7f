"""How failures look in logs and messages, and what to do about each.

The order is that of causes: a process that runs out of memory makes the others time out, so memory stands
before time. Patterns are narrow on purpose: `CUDA error: an illegal memory access` is not out of memory, and
neither is a line that counts retries.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from rentbench.core.errors import ErrorKind
from rentbench.harness.xids import HARDWARE

__all__ = ["RULES", "Rule"]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A failure.

    Attributes:
        kind: Its name.
        pattern: Found anywhere in the text.
        hint: What to do; may name groups of the pattern (`{required}`).
    """

    kind: ErrorKind
    pattern: re.Pattern[str]
    hint: str | None


def _rule(kind: ErrorKind, hint: str | None, *patterns: str) -> Rule:
    return Rule(kind=kind, pattern=re.compile("|".join(patterns), re.MULTILINE), hint=hint)


# Xid 79 has a rule of its own, which stands before.
_HARDWARE_XID: Final = rf"Xid \([^)]*\): (?:{'|'.join(map(str, HARDWARE))})\b"
_GPU_FAULT: Final = "the GPU or its driver failed: look for Xid in the kernel's log, and take another machine"

RULES: Final = (
    # The machine's driver and container toolkit.
    _rule(
        ErrorKind.DRIVER_MISMATCH,
        "the host's driver was changed and the host not rebooted since: reboot it",
        r"Driver/library version mismatch",
        r"NVML/RM version mismatch",
        r"unsupported display driver / cuda driver combination",
        r"cudaErrorSystemDriverMismatch",
    ),
    _rule(
        ErrorKind.NO_CONTAINER_TOOLKIT,
        "install the NVIDIA container toolkit on the host, and restart Docker",
        r"could not select device driver \"[^\"]*\" with capabilities: \[\[[^\]]*gpu[^\]]*\]\]",
        r"unknown or invalid runtime name: nvidia",
        r"unresolvable CDI devices",
        r"failed to discover GPU vendor from CDI",
    ),
    _rule(
        ErrorKind.DRIVER_TOO_OLD,
        "update the host's driver to one for CUDA {required} or later, or take an image for an older CUDA",
        r"requirement error: unsatisfied condition: cuda\s*>=\s*(?P<required>[\d.]+)",
    ),
    _rule(
        ErrorKind.DRIVER_TOO_OLD,
        "the host's driver supports CUDA {found} at most: update it, or take an image for an older CUDA",
        r"driver on your system is too old \(found version (?P<found>\d{4,5})\)",
    ),
    _rule(
        ErrorKind.DRIVER_TOO_OLD,
        "update the host's driver, or take an image for an older CUDA",
        r"CUDA driver version is insufficient for CUDA runtime version",
        r"cudaErrorInsufficientDriver",
        r"provided PTX was compiled with an unsupported toolchain",
        r"forward compatibility was attempted on non supported HW",
        r"nvidia-container-cli: requirement error",
    ),
    # A GPU that is gone or broken.
    _rule(
        ErrorKind.GPU_LOST,
        "the container lost its GPU (as after `systemctl daemon-reload` on the host): start a new container",
        r"Failed to initialize NVML: Unknown Error",
    ),
    _rule(
        ErrorKind.GPU_LOST,
        "the GPU fell off the bus: the host needs a reboot; take another machine",
        r"GPU is lost",
        r"GPU has fallen off the bus",
        r"Xid \([^)]*\): 79\b",
        r"cudaErrorDeviceUninitialized",
    ),
    _rule(
        ErrorKind.HOST_FAULT,
        _GPU_FAULT,
        r"(?:nvidia-smi|NVML|NVML's reader) gave no answer",
        _HARDWARE_XID,
        r"Timeout after \d+s of waiting for RPC response from GPU\d* GSP",
        r"uncorrectable ECC error",
        r"cudaErrorECCUncorrectable",
        r"GPU requires (?:reset|restart)",
        r"Unable to determine the device handle for GPU",
        r"cudaErrorSystemNotReady|system not yet initialized",  # NVSwitch machines without a fabric manager
        r"CUDA error: unknown error|CUDA unknown error",
    ),
    # Memory.
    _rule(
        ErrorKind.SHM_TOO_SMALL,
        "give the container more shared memory: --shm-size=16g, or --ipc=host",
        r"Call to posix_fallocate failed ?: No space left on device",
        r"Error while creating shared memory segment",
        r"unable to (?:open|allocate|resize) shared memory[^\n]*(?:No space left|Cannot allocate)",
        r"unable to (?:mmap|write to|resize).{0,80}(?:/dev/shm/|</?torch_)",
        r"insufficient shared memory",
        r"No space left on device: '?/dev/shm",
        r"dev/shm/[^\s:]*: No space left on device",
        r"failed to extend /dev/shm/",
    ),
    _rule(
        ErrorKind.GPU_BUSY,
        "{free} of {total} GiB are free and {wanted} GiB are needed: another process holds the rest",
        r"Free memory on device (?:\S+ )?\((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\) on startup is less than"
        r" desired GPU memory utilization \([\d.]+, (?P<wanted>[\d.]+) GiB\)",
    ),
    _rule(
        ErrorKind.GPU_BUSY,
        "another process has the GPU for itself: end it, or take another GPU",
        r"all CUDA-capable devices are busy or unavailable",
        r"cudaErrorDevicesUnavailable",
    ),
    _rule(
        ErrorKind.HOST_OOM,
        "the machine or the container ran out of main memory: raise the limit, or take a smaller case",
        r"DefaultCPUAllocator: (?:can't|not enough)",
        r"Out of memory: Killed process",
        r"oom-kill(?:er)?[:, ]",
        r"std::bad_alloc(?!: cuda)",
        r"\[Errno 12\]|Cannot allocate memory",
        r"\bMemoryError:|^MemoryError$",
    ),
    _rule(
        ErrorKind.OOM,
        "the GPU's memory is too small for this case: take a smaller one, or a larger GPU",
        r"OutOfMemoryError(?:: \S|\(|$)",
        r"CUDA out of memory",
        r"CUDA error: out of memory",
        r"(?:Cuda failure|CUDA failure).{0,20}out of memory",
        r"cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY",
        r"CU(?:BLAS|DNN|SPARSE|SOLVER|FFT)_STATUS_ALLOC_FAILED|CUFFT_ALLOC_FAILED",
        r"CUDA driver error: device not ready",
        r"INTERNAL ASSERT FAILED[^\n]{0,80}CUDACachingAllocator",
        r"run_func_\([^\n]*\) API call failed",
        r"RESOURCE_EXHAUSTED: Out of memory",
        r"No available memory for the cache blocks",
    ),
    # What this GPU cannot do.
    _rule(
        ErrorKind.UNSUPPORTED_ARCH,
        "this build holds no code for the GPU's compute capability: take the image that does",
        r"no kernel image is available for execution on the device",
        r"cudaErrorNoKernelImageForDevice",
        r"with CUDA capability sm_\d+ is not compatible with the current PyTorch installation",
        r"named symbol not found|cudaErrorInvalidDeviceFunction",
        r"invalid device function",
    ),
    _rule(
        ErrorKind.UNSUPPORTED_DTYPE,
        "needs compute capability {needed}, and this GPU has {found}: take another number format",
        r"only supported on GPUs with compute capability of at least (?P<needed>[\d.]+\d)\."
        r".{0,80}? GPU has compute capability (?P<found>[\d.]+\d)",
    ),
    _rule(
        ErrorKind.UNSUPPORTED_DTYPE,
        "this GPU cannot work in the number format asked for: take another one",
        r"do(?:es)? not support efficient \w+ computation",
        r"Your setup doesn't support bf16",
        r"[Bb][Ff](?:loat)?16 is (?:only supported|not supported)",
        r"torch\._scaled_mm is only supported on CUDA devices with compute capability",
        r"not supported on .{0,40}compute capability",
    ),
    _rule(
        ErrorKind.UNSUPPORTED_DTYPE,
        "trainable weights must be fp32 where gradients are scaled (LoRA on a card without bf16)",
        r"Attempting to unscale FP16 gradients",
    ),
    _rule(
        ErrorKind.UNSUPPORTED_PLATFORM,
        "the image is for another processor architecture than the machine's",
        r"[Ee]xec format error",
        r"no matching manifest for \w+/\w+",
    ),
    # GPUs that are not there.
    _rule(
        ErrorKind.TOO_FEW_GPUS,
        "each process needs a GPU of its own: start fewer processes, or give more GPUs",
        r"Duplicate GPU detected",
        r"invalid device ordinal",
    ),
    _rule(
        ErrorKind.NO_GPU,
        "give the container GPUs (docker run --gpus all), and check that nvidia-smi works on the host",
        r"No CUDA GPUs are available",
        r"no CUDA-capable device is detected",
        r"Found no NVIDIA driver on your system",
        r"NVML library not found",
        r"NVML Shared Library Not Found",
        r"couldn't communicate with the NVIDIA driver",
        r"libcuda\.so\.1: cannot open shared object file",
        r"load library failed: libnvidia-ml\.so",
        r"hides all GPUs",
        r"the driver lists no GPU",
        r"has no MIG device",
        r"Failed to initialize NVML: Driver Not Loaded",
    ),
    # Libraries.
    _rule(
        ErrorKind.DEPENDENCY_MISSING,
        "bitsandbytes has no build for CUDA {cuda}: nothing was computed on the CPU instead",
        r"libbitsandbytes_cuda(?P<cuda>\d+)\w*\.so",
    ),
    _rule(
        ErrorKind.DEPENDENCY_MISSING,
        "bitsandbytes does not find its library for this CUDA: nothing was computed on the CPU instead",
        r"CUDA Setup failed despite (?:GPU|CUDA) being available",
        r"library was compiled without GPU support",
    ),
    _rule(
        ErrorKind.DEPENDENCY_MISSING,
        "this PyTorch was built without CUDA: take the GPU image",
        r"Torch not compiled with CUDA enabled",
    ),
    _rule(
        ErrorKind.DEPENDENCY_MISSING,
        "install it, or take the image that has it",
        r"ModuleNotFoundError: No module named",
        r"cannot open shared object file",
        r"Failed to find C compiler",
    ),
    # Models, network, disk, rights.
    _rule(
        ErrorKind.MODEL_ACCESS,
        "the hub limits this address: wait and try again, or use a filled cache with HF_HUB_OFFLINE=1",
        r"We had to rate limit your IP",
        r"429 Client Error|HTTP(?: Error)? 429|429 Too Many Requests",
    ),
    _rule(
        ErrorKind.MODEL_ACCESS,
        "accept the model's terms and give a token that may read it, or take --weights random; do not retry",
        r"Cannot access gated repo|GatedRepoError",
        r"Access to model .{1,200} is restricted",
        r"(?:401|403) Client Error|HTTP Error (?:401|403)",
        r"RepositoryNotFoundError|Repository Not Found for url",
    ),
    _rule(
        ErrorKind.MODEL_ACCESS,
        "the model is not in the cache: fill it first, or allow the network, or take --weights random",
        r"LocalEntryNotFoundError|OfflineModeIsEnabled",
        r"outgoing traffic has been disabled",
        r"couldn't connect to 'https://huggingface\.co'",
    ),
    _rule(
        ErrorKind.DISK_FULL,
        "free some space, or mount a larger disk",
        r"No space left on device",
        r"Disk quota exceeded",
    ),
    # Communication between GPUs.
    _rule(
        ErrorKind.NCCL_TIMEOUT,
        "GPUs did not reach each other in time: NCCL_P2P_DISABLE=1 shows whether peer access is broken",
        r"Watchdog caught collective operation timeout",
        r"(?:NCCL|ncclCommInitRank|collective).{0,80}tim(?:ed out|eout)",
        r"Timed out waiting \d+ ?ms for (?:recv|send|connect)",
        r"RendezvousTimeoutError",
        r"DistStoreError: Timed out after \d+ seconds waiting for clients",
        r"client socket has timed out after \d+ ?ms while trying to connect",
    ),
    _rule(
        ErrorKind.NCCL_ERROR,
        "run again with NCCL_DEBUG=INFO and read the first warning",
        r"nccl(?:InvalidUsage|SystemError|InternalError|UnhandledCudaError|RemoteError|InvalidArgument)",
        r"NCCL error",
        r"DistBackendError",
    ),
    _rule(
        ErrorKind.NCCL_ERROR,
        "another process of the group ended or was killed: its own part of the log says why",
        r"gloo/[^\n]*(?:Connection (?:closed|reset)|Broken pipe|Read error|Write error)",
        r"RendezvousConnectionError|RendezvousClosedError|DistNetworkError|DistStoreError",
        r"Failed to recv, got 0 bytes",
    ),
    _rule(
        ErrorKind.NETWORK,
        "the network or a server did not answer: try again",
        r"Temporary failure in name resolution|Name or service not known",
        r"Network is unreachable|No route to host",
        r"Connection (?:refused|reset by peer|timed out|aborted)",
        r"Max retries exceeded with url",
        r"ReadTimeout(?:Error)?\b|ConnectTimeout(?:Error)?\b",
    ),
    _rule(
        ErrorKind.PERMISSION_DENIED,
        "let this user write there, or choose another folder",
        r"Permission denied",
        r"Read-only file system",
        r"Operation not permitted",
    ),
    # Broken programs: by far the widest patterns, so they come last.
    _rule(
        ErrorKind.CRASHED,
        "a kernel or a library is at fault, not the size of the memory; CUDA_LAUNCH_BLOCKING=1 shows where",
        r"an illegal memory access was encountered|cudaErrorIllegalAddress",
        r"misaligned address",
        r"device-side assert triggered",
        r"unspecified launch failure|cudaErrorLaunchFailure",
        r"Xid \([^)]*\): (?:13|31|43|45|68|69)\b",
        r"Engine loop has died|EngineDeadError|Engine core (?:initialization failed|proc .{0,40} died)",
        r"Segmentation fault|SIGSEGV",
    ),
)
