"""What a suite's container may do: little, unless asked for. Every restriction has an opt-out."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from docker.types import DeviceRequest, LogConfig, Mount, Ulimit

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["RESULTS", "ContainerOptions", "callers_user", "options_in_force"]

RESULTS = "/results"
MEBIBYTE = 1024**2
_DEFAULT_SHM = 1024 * MEBIBYTE  # NCCL fails with Docker's 64 MiB


@dataclass(frozen=True, kw_only=True)
class ContainerOptions:
    """How a suite's container is confined.

    Attributes:
        memory_bytes: Memory and swap together, so that it ends before the host suffers; None for no limit.
        gpus: `none`, `all` or a count.
        network: `none`, or a network of the engine's.
        user: `uid:gid`; None for the image's own.
        read_only_root: Only `/tmp` (in memory), `/dev/shm` and `/results` can be written.
        drop_capabilities: All of them.
        no_new_privileges: Set-uid programs gain nothing.
        init: A small first process that passes signals on and collects orphans.
        pids_limit: Processes and threads; None for no limit.
        shm_bytes: Size of `/dev/shm`.
        tmp_bytes: Largest size of `/tmp`.
        lock_memory: With GPUs, memory may be pinned without limit, as NCCL wants it.
        environment: Variables besides the image's.
    """

    memory_bytes: int | None
    gpus: str = "none"
    network: str = "none"
    user: str | None = None
    read_only_root: bool = True
    drop_capabilities: bool = True
    no_new_privileges: bool = True
    init: bool = True
    pids_limit: int | None = 4096
    shm_bytes: int = _DEFAULT_SHM
    tmp_bytes: int = 4096 * MEBIBYTE
    lock_memory: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)

    def arguments(self, *, volume: str) -> dict[str, Any]:
        """Return the options as the Docker SDK's `containers.create` takes them.

        Args:
            volume: Name of the volume that becomes `/results`.
        """
        arguments: dict[str, Any] = {
            "cap_drop": ["ALL"] if self.drop_capabilities else [],
            "security_opt": ["no-new-privileges"] if self.no_new_privileges else [],
            "read_only": self.read_only_root,
            # Executable: Triton and Inductor load what they compile into their caches.
            "tmpfs": {"/tmp": f"rw,exec,nosuid,nodev,mode=1777,size={self.tmp_bytes}"},  # noqa: S108
            "mounts": [Mount(RESULTS, volume, type="volume")],
            "init": self.init,
            "pids_limit": self.pids_limit,
            "shm_size": self.shm_bytes,
            "network_mode": self.network,
            "environment": {
                "RENTBENCH_PROGRESS": "json",
                # Where NVIDIA's runtime is the default one, it would hand over every GPU unasked.
                **({"NVIDIA_VISIBLE_DEVICES": "void"} if self.gpus == "none" else {}),
                **self.environment,
            },
            "log_config": LogConfig(type="json-file", config={"max-size": "20m", "max-file": "2"}),
        }
        if self.memory_bytes is not None:
            arguments |= {"mem_limit": self.memory_bytes, "memswap_limit": self.memory_bytes}
        if self.user is not None:
            arguments["user"] = self.user
        if self.network != "host":  # the host's own name must not reach a result
            arguments["hostname"] = "rentbench"
        if self.gpus != "none":
            count = -1 if self.gpus == "all" else int(self.gpus)
            if self.lock_memory:
                arguments["ulimits"] = [Ulimit(name="memlock", soft=-1, hard=-1)]
            arguments["device_requests"] = [DeviceRequest(count=count, capabilities=[["gpu"]])]
        return arguments


def callers_user() -> str | None:
    """Return the caller as `uid:gid`; None for root, whose runs keep the image's own user."""
    return None if os.getuid() == 0 else f"{os.getuid()}:{os.getgid()}"


def options_in_force(attributes: Mapping[str, Any], gpus: str) -> dict[str, Any]:
    """Return a container's options as a run document holds them.

    Args:
        attributes: The engine's answer to `docker inspect`.
        gpus: What was asked for.
    """
    host, state = attributes["HostConfig"], attributes["State"]
    ended = state["Status"] in ("exited", "dead")
    return {
        "user": attributes["Config"].get("User") or None,
        "network": host.get("NetworkMode"),
        "read_only_root": bool(host.get("ReadonlyRootfs")),
        "capabilities_dropped": host.get("CapDrop") or [],
        "no_new_privileges": any(
            option.startswith("no-new-privileges") for option in host.get("SecurityOpt") or ()
        ),
        "init": host.get("Init"),
        "memory_bytes": host.get("Memory") or None,
        "pids_limit": _positive(host.get("PidsLimit")),
        "shm_bytes": host.get("ShmSize"),
        "gpus": gpus,
        "exit_code": state["ExitCode"] if ended else None,
        "oom_killed": state.get("OOMKilled") if ended else None,
    }


def _positive(value: int | None) -> int | None:
    """Return a limit; the engine has 0, -1 and null for none."""
    return value if value is not None and value > 0 else None
