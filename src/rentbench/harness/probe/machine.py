"""What the machine is apart from its GPUs: processor, memory, disk, system, limits, container."""

from __future__ import annotations

import os
import platform
import re
import resource
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rentbench.harness.probe import cgroups
from rentbench.harness.tools import run_tool, within

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Section", "container_kind", "describe_machine"]

_ROOT: Final = Path("/")


class Section:
    """Values of one part of `$defs/host`, each either found or null with the reason."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.reasons: dict[str, str] = {}

    def note(self, name: str, question: Callable[[], Any], *, absent: str) -> None:
        """Set a value to what the question returns; never raises.

        Args:
            name: The property.
            question: Returns the value, or None where there is none; may raise.
            absent: The reason to give for None.
        """
        try:
            value = question()
        except Exception as error:  # noqa: BLE001 (a machine of any kind may be asked: no answer is a result)
            value, absent = None, f"{type(error).__name__}: {error}"
        self.values[name] = value
        if value is None:
            self.reasons[name] = absent


def describe_machine(*, disk: Path, timeout_seconds: float, root: Path = _ROOT) -> dict[str, Section]:
    """Return `cpu`, `memory`, `disk`, `limits`, and under the empty name the properties of the host itself.

    Args:
        disk: A folder on the disk that the run writes to.
        timeout_seconds: For each question that could hang.
        root: Of the file tree to read; another one in tests.
    """
    return {
        "cpu": _cpu(root, timeout_seconds),
        "memory": _memory(root),
        "disk": _disk(disk, root, timeout_seconds),
        "": _system(root),
        "limits": _limits(root),
    }


def _cpu(root: Path, timeout_seconds: float) -> Section:
    cpu = Section()
    cpu.note(
        "model", lambda: _cpu_model(root, timeout_seconds), absent="neither /proc/cpuinfo nor lscpu names it"
    )
    cpu.note("architecture", lambda: platform.machine() or None, absent="the kernel does not name it")
    cpu.note("logical_cores", os.cpu_count, absent="the kernel does not tell")
    cpu.note("usable_cores", lambda: len(os.sched_getaffinity(0)), absent="the kernel does not tell")
    cpu.note(
        "quota_cores", lambda: cgroups.cpu_quota_cores(root), absent="no control group limits processor time"
    )
    cpu.note("numa_nodes", lambda: _numa_nodes(root), absent="/sys does not show NUMA nodes")
    return cpu


def _cpu_model(root: Path, timeout_seconds: float) -> str | None:
    match = re.search(r"^model name\s*:\s*(.+)$", (root / "proc/cpuinfo").read_text(), re.MULTILINE)
    if match:
        return " ".join(match[1].split())
    # Arm's /proc/cpuinfo has numbers only; lscpu knows their names.
    answer = run_tool(["lscpu"], timeout_seconds=timeout_seconds)
    match = re.search(r"^Model name:\s*(.+)$", answer.output, re.MULTILINE)
    return match[1].strip() if match and match[1].strip() != "-" else None


def _numa_nodes(root: Path) -> int | None:
    return sum(1 for _ in (root / "sys/devices/system/node").glob("node[0-9]*")) or None


def _memory(root: Path) -> Section:
    memory = Section()
    memory.note("total_bytes", lambda: _memory_total(root), absent="/proc/meminfo does not tell")
    memory.note(
        "limit_bytes", lambda: cgroups.memory_limit_bytes(root), absent="no control group limits memory"
    )
    return memory


def _memory_total(root: Path) -> int | None:
    match = re.search(r"^MemTotal:\s*(\d+) kB$", (root / "proc/meminfo").read_text(), re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def _disk(disk: Path, root: Path, timeout_seconds: float) -> Section:
    # Each question in a thread of its own: a network file system whose server is away blocks whoever asks.
    def bounded(question: Callable[[Path], Any]) -> Callable[[], Any]:
        return lambda: within(timeout_seconds, lambda: question(_existing(disk)))

    section = Section()
    section.note("filesystem", bounded(lambda folder: _filesystem(folder, root)), absent="no mount shows it")
    section.note("total_bytes", bounded(lambda folder: shutil.disk_usage(folder).total), absent="unknown")
    section.note("free_bytes", bounded(lambda folder: shutil.disk_usage(folder).free), absent="unknown")
    return section


def _existing(folder: Path) -> Path:
    """Return the folder, or the nearest one above it that exists."""
    folder = folder.absolute()
    return next(path for path in (folder, *folder.parents) if path.exists())


def _filesystem(folder: Path, root: Path) -> str | None:
    folder = folder.resolve()
    best, kind = -1, None
    for line in (root / "proc/self/mountinfo").read_text().splitlines():
        fields, _, filesystem = line.partition(" - ")
        # Blanks and the like are written as three octal digits.
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields.split()[4])
        if folder.is_relative_to(point) and len(point) >= best:  # of two on one point, the later one shows
            best, kind = len(point), filesystem.split()[0]
    return kind


def _limits(root: Path) -> Section:
    limits = Section()
    limits.note("shm_bytes", lambda: _size(root / "dev/shm"), absent="there is no shared memory folder")
    limits.note("pids", lambda: cgroups.pids_limit(root), absent="no control group limits processes")
    limits.note("open_files", lambda: _resource(resource.RLIMIT_NOFILE), absent="no limit")
    limits.note("locked_memory_bytes", lambda: _resource(resource.RLIMIT_MEMLOCK), absent="no limit")
    return limits


def _size(folder: Path) -> int | None:
    return shutil.disk_usage(folder).total if folder.is_dir() else None


def _resource(which: int) -> int | None:
    soft, _ = resource.getrlimit(which)
    return None if soft == resource.RLIM_INFINITY else soft


def _system(root: Path) -> Section:
    system = Section()
    system.note("kernel", lambda: os.uname().release, absent="the kernel does not tell")
    system.note(
        "operating_system", lambda: _operating_system(root), absent="/etc/os-release does not name it"
    )
    system.note("container", lambda: container_kind(root), absent="nothing tells of a container")
    return system


def _operating_system(root: Path) -> str | None:
    for file in ("etc/os-release", "usr/lib/os-release"):
        if (root / file).is_file():
            match = re.search(r"^PRETTY_NAME=(.+)$", (root / file).read_text(), re.MULTILINE)
            return match[1].strip().strip("\"'") if match else None
    return None


def container_kind(root: Path = _ROOT, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return what kind of container this process is in: `kubernetes`, `podman`, `docker`, `other` or None."""
    if "KUBERNETES_SERVICE_HOST" in environment or (root / "var/run/secrets/kubernetes.io").exists():
        return "kubernetes"
    if (root / "run/.containerenv").exists() or environment.get("container") == "podman":
        return "podman"
    if (root / ".dockerenv").exists():
        return "docker"
    # systemd-nspawn, LXC and others set the variable; process 1's group names the rest where groups are of
    # version 1 or its namespace is the host's.
    if environment.get("container"):
        return "other"
    groups = (root / "proc/1/cgroup").read_text() if os.access(root / "proc/1/cgroup", os.R_OK) else ""
    for word, kind in (("kubepods", "kubernetes"), ("libpod", "podman"), ("docker", "docker")):
        if word in groups:
            return kind
    return "other" if re.search(r"/(lxc|containerd|crio|machine\.slice)\b", groups) else None
