"""Processor, memory, disk, limits and container kind, from file trees of machines of many kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rentbench.harness.probe import cgroups
from rentbench.harness.probe.machine import Section, container_kind, describe_machine

if TYPE_CHECKING:
    from pathlib import Path

V2_MOUNT = "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate"


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def limits(root: Path) -> tuple[float | None, int | None, int | None]:
    return cgroups.cpu_quota_cores(root), cgroups.memory_limit_bytes(root), cgroups.pids_limit(root)


def test_version_2_in_a_container(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/\n",
        "proc/self/mountinfo": V2_MOUNT,
        "sys/fs/cgroup/cpu.max": "250000 100000\n",
        "sys/fs/cgroup/memory.max": "17179869184\n",
        "sys/fs/cgroup/pids.max": "4096\n",
    }
    assert limits(tree(tmp_path, files)) == (2.5, 16 << 30, 4096)


def test_version_2_without_limits(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/user.slice/session\n",
        "proc/self/mountinfo": V2_MOUNT,
        "sys/fs/cgroup/user.slice/session/cpu.max": "max 100000\n",
        "sys/fs/cgroup/user.slice/session/memory.max": "max\n",
        "sys/fs/cgroup/user.slice/session/pids.max": "max\n",
    }
    assert limits(tree(tmp_path, files)) == (None, None, None)


def test_a_limit_further_up_holds_too(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/a/b\n",
        "proc/self/mountinfo": V2_MOUNT,
        "sys/fs/cgroup/a/cpu.max": "100000 100000\n",
        "sys/fs/cgroup/a/b/cpu.max": "800000 100000\n",
        "sys/fs/cgroup/a/memory.max": "1000\n",
        "sys/fs/cgroup/a/b/memory.max": "max\n",
    }
    assert limits(tree(tmp_path, files)) == (1.0, 1000, None)


def test_version_1_in_a_docker_container(tmp_path: Path) -> None:
    """/proc tells the path from the host's root, and the mounts show the container's own part of the tree."""
    group = "/docker/0123456789ab"
    files = {
        "proc/self/cgroup": f"9:pids:{group}\n4:memory:{group}\n1:cpu,cpuacct:{group}\n",
        "proc/self/mountinfo": "\n".join(
            f"{number} 20 0:{number} {group} /sys/fs/cgroup/{name} ro - cgroup cgroup rw,{name}"
            for number, name in enumerate(["pids", "memory", "cpu,cpuacct"], 30)
        ),
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "150000\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "8589934592\n",
        "sys/fs/cgroup/pids/pids.max": "512\n",
    }
    assert limits(tree(tmp_path, files)) == (1.5, 8 << 30, 512)


def test_version_1_without_limits(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "4:memory:/\n1:cpu:/\n0::/\n",
        "proc/self/mountinfo": "31 20 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "32 20 0:32 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n33 20 0:33 / /tmp rw - tmpfs tmpfs rw",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
    }
    assert limits(tree(tmp_path, files)) == (None, None, None)


@pytest.mark.parametrize(
    ("files", "environment", "kind"),
    [
        ({".dockerenv": ""}, {}, "docker"),
        ({"run/.containerenv": "", ".dockerenv": ""}, {}, "podman"),
        ({}, {"container": "podman"}, "podman"),
        ({".dockerenv": ""}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ({"var/run/secrets/kubernetes.io/token": ""}, {}, "kubernetes"),
        ({}, {"container": "lxc"}, "other"),
        ({"proc/1/cgroup": "1:cpu:/docker/0123\n"}, {}, "docker"),
        ({"proc/1/cgroup": "0::/kubepods/pod1\n"}, {}, "kubernetes"),
        ({"proc/1/cgroup": "0::/lxc/c1\n"}, {}, "other"),
        ({"proc/1/cgroup": "0::/init.scope\n"}, {}, None),
        ({}, {}, None),
    ],
)
def test_kinds_of_container(
    tmp_path: Path, files: dict[str, str], environment: dict[str, str], kind: str | None
) -> None:
    assert container_kind(tree(tmp_path, files), environment) == kind


def test_a_machine_from_its_files(tmp_path: Path) -> None:
    files = {
        "proc/cpuinfo": "processor: 0\nmodel name\t: AMD EPYC  9554   64-Core Processor\n",
        "proc/meminfo": "MemTotal:       65536 kB\nMemFree: 1 kB\n",
        "proc/self/cgroup": "0::/\n",
        "proc/self/mountinfo": "1 1 0:1 / / rw - overlay overlay rw\n2 1 0:2 / /da\\040ta rw - xfs sda rw",
        "sys/devices/system/node/node0/x": "",
        "sys/devices/system/node/node1/x": "",
        "etc/os-release": 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
        "dev/shm/x": "",
    }
    found = describe_machine(disk=tmp_path, timeout_seconds=5, root=tree(tmp_path, files))
    assert found["cpu"].values["model"] == "AMD EPYC 9554 64-Core Processor"
    assert found["cpu"].values["numa_nodes"] == 2
    assert found["memory"].values["total_bytes"] == 64 << 20
    assert found["disk"].values["filesystem"] == "overlay"
    assert found[""].values["operating_system"] == "Debian GNU/Linux 12 (bookworm)"
    assert found["limits"].values["shm_bytes"] > 0


def test_a_machine_that_shows_nothing_gives_reasons(tmp_path: Path) -> None:
    found = describe_machine(disk=tmp_path, timeout_seconds=5, root=tmp_path)
    for section in found.values():
        missing = {name for name, value in section.values.items() if value is None}
        assert missing == set(section.reasons)
        assert all(section.reasons.values())
    assert "FileNotFoundError" in found["memory"].reasons["total_bytes"]


def test_a_question_that_raises_is_a_reason() -> None:
    def broken() -> int:
        msg = "no such file"
        raise OSError(msg)

    section = Section()
    section.note("x", broken, absent="unknown")
    assert (section.values, section.reasons) == ({"x": None}, {"x": "OSError: no such file"})
