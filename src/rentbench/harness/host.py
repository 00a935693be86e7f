"""What the machine is: GPUs, driver, topology, CPU, memory, disk, limits. Never who it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["HostProbe", "Unavailable", "probe_host"]

Unavailable = dict[str, str]
"""`{"path": JSON pointer into the measurement document, "reason": why it is null}`."""


@dataclass(frozen=True, kw_only=True)
class HostProbe:
    """The host as found.

    Attributes:
        host: As measurement documents hold it (`$defs/host`).
        unavailable: A reason for every null in `host`; the pointers begin with `/host`.
        outputs: What the tools printed, redacted, by artifact name (`nvidia-smi-topo.txt`).
    """

    host: dict[str, Any]
    unavailable: list[Unavailable]
    outputs: dict[str, str]


def probe_host(*, timeout_seconds: float = 10.0, disk: Path = Path("/")) -> HostProbe:
    """Return what can be found out about this machine; never raises, and takes a few timeouts at most.

    The GPUs are those that a CUDA program started now would see, in its order with `CUDA_DEVICE_ORDER=PCI_BUS_ID`.

    Args:
        timeout_seconds: For each single probe; one that hangs is killed, and its values are null.
        disk: A folder on the disk that the run writes to.
    """
    nothing = {"path": "/host", "reason": "not probed"}
    host: dict[str, Any] = {
        "gpus": [],
        "driver_version": None,
        "cuda_driver_version": None,
        "topology": None,
        "cpu": dict.fromkeys(
            ["model", "architecture", "logical_cores", "usable_cores", "quota_cores", "numa_nodes"]
        ),
        "memory": {"total_bytes": None, "limit_bytes": None},
        "disk": {"filesystem": None, "total_bytes": None, "free_bytes": None},
        "kernel": None,
        "operating_system": None,
        "container": None,
        "limits": dict.fromkeys(["shm_bytes", "pids", "open_files", "locked_memory_bytes"]),
    }
    return HostProbe(host=host, unavailable=[nothing], outputs={})
