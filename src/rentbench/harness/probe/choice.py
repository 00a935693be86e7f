"""What is known before the first worker starts: the host, and which device it leaves to measure on."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from rentbench.core.errors import ErrorKind
from rentbench.harness.failures.classify import classify
from rentbench.harness.failures.documents import error_document
from rentbench.harness.probe.fitness import taken
from rentbench.harness.probe.host import HostProbe, probe_host

if TYPE_CHECKING:
    from pathlib import Path

    from rentbench.harness.arguments import Request
    from rentbench.harness.interruption import Interruption

__all__ = ["UNKNOWN", "DeviceChoice", "choose_device", "probe", "without_gpus"]

UNKNOWN = HostProbe(
    host={
        "gpus": [],
        "driver_version": None,
        "cuda_driver_version": None,
        "topology": None,
        "cpu": dict.fromkeys(
            ("model", "architecture", "logical_cores", "usable_cores", "quota_cores", "numa_nodes")
        ),
        "memory": dict.fromkeys(("total_bytes", "limit_bytes")),
        "disk": dict.fromkeys(("filesystem", "total_bytes", "free_bytes")),
        "kernel": None,
        "operating_system": None,
        "container": None,
        "limits": dict.fromkeys(("shm_bytes", "pids", "open_files", "locked_memory_bytes")),
    },
    unavailable=[{"path": "/host", "reason": "the run ended before the host was probed"}],
    outputs={},
    gpu_problem="the run ended before the host was probed",
)

# A GPU is there and cannot be used: no reason to measure the CPU in its place.
_BROKEN = {ErrorKind.DRIVER_MISMATCH, ErrorKind.DRIVER_TOO_OLD, ErrorKind.GPU_LOST, ErrorKind.HOST_FAULT}


@dataclass(frozen=True, kw_only=True)
class DeviceChoice:
    """What to measure on; `error` forbids it, and `skip_reason` tells that this is no fault."""

    device: Literal["cuda", "cpu"]
    error: dict[str, Any] | None = None
    skip_reason: str | None = None


def probe(interruption: Interruption, disk: Path) -> HostProbe:
    """Return the host; `UNKNOWN` when a signal comes before it is known.

    Args:
        interruption: Ends the waiting.
        disk: A folder on the disk that the run writes to.
    """
    found: list[HostProbe] = []
    done = threading.Event()

    def look() -> None:
        found.append(probe_host(disk=disk))
        done.set()

    threading.Thread(target=look, name="host probe", daemon=True).start()
    while not done.wait(0.1) and not interruption:
        pass
    return found[0] if found else UNKNOWN


def without_gpus(found: HostProbe) -> HostProbe:
    """Return the host as a run that uses the CPU alone has it: its GPUs have no part in the numbers."""
    if not found.host["gpus"]:
        return found
    gone = ("/host/gpus", "/host/topology")
    kept = [entry for entry in found.unavailable if not entry["path"].startswith(gone)]
    reason = {"path": "/host/topology", "reason": "the run used the CPU alone"}
    return replace(found, host={**found.host, "gpus": [], "topology": None}, unavailable=[*kept, reason])


def choose_device(request: Request, host: HostProbe) -> DeviceChoice:
    """Return what to measure on. A GPU that was asked for is never replaced by the CPU.

    A GPU that others use is refused, unless the run is `smoke`, which proves the path and no number, or the
    suite is there to tell such things.
    """
    if request.device == "cpu":
        return DeviceChoice(device="cpu")
    count = len(host.host["gpus"])
    if count >= max(1, request.gpus_min):
        return DeviceChoice(device="cuda", error=_taken(request, host))
    needed = f"needs {request.gpus_min} GPU{'s' if request.gpus_min > 1 else ''}, found {count}"
    if count:
        error = error_document(ErrorKind.TOO_FEW_GPUS, needed)
        return DeviceChoice(device="cuda", error=error, skip_reason=needed)
    problem = host.gpu_problem or "no GPU was found"
    found = classify(problem, returncode=1)
    if found["kind"] in _BROKEN:
        return DeviceChoice(
            device="cuda", error=error_document(ErrorKind(found["kind"]), problem, hint=found["hint"])
        )
    if request.gpus_min == 0:
        return DeviceChoice(device="cpu")
    asker = (
        "--device cuda" if request.device == "cuda" else f"preset {request.preset} of {request.suite.name}"
    )
    message = f"{asker} {needed}: {problem}"
    hint = "give the container GPUs (docker run --gpus all); --preset smoke runs on a CPU"
    return DeviceChoice(device="cuda", error=error_document(ErrorKind.NO_GPU, message, hint=hint))


def _taken(request: Request, host: HostProbe) -> dict[str, Any] | None:
    reason = taken(host.host["gpus"])
    if reason is None or request.preset == "smoke" or not request.suite.needs.idle_gpu:
        return None
    hint = "end what runs there (nvidia-smi lists it), or choose another GPU (docker run --gpus device=1)"
    return error_document(ErrorKind.GPU_BUSY, reason, hint=hint)
