"""From the command line's wishes to runs: defaults, refusals, and what the container is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import docker
import pytest

from rentbench.core.errors import UsageError
from rentbench.core.resources import resource
from rentbench.driver.engine import Engine
from rentbench.driver.local import LocalGpus, find_local_gpus
from rentbench.driver.options import ContainerOptions
from rentbench.driver.planning import Wishes, _choose_gpus, plan_runs
from rentbench.driver.runs import RunPlan, worst_exit
from rentbench.driver.selection import choose_image

GIBIBYTE = 1024**3


def engine(**information: Any) -> Engine:
    """Return an engine that is never asked anything."""
    facts = {"Architecture": "x86_64", "OSType": "linux", "MemTotal": 100 * GIBIBYTE, "Runtimes": {}}
    client = docker.DockerClient(base_url="unix:///no/such/socket", version="1.41")
    return Engine(client=client, information={**facts, **information}, version={})


def wishes(**changes: Any) -> Wishes:
    defaults: dict[str, Any] = dict.fromkeys(Wishes.__dataclass_fields__)
    defaults |= {
        "host": "local",
        "preset": "smoke",
        "cases": (),
        "settings": (),
        "results": Path("results"),
        "keep": False,
        "tmp_size": "4g",
        "pids_limit": 4096,
        "read_only_root": True,
        "drop_capabilities": True,
        "no_new_privileges": True,
        "init": True,
        "lock_memory": True,
        "gpus": "none",
    }
    return Wishes(**{**defaults, **changes})


def plan(name: str = "gemm", **changes: Any) -> RunPlan:
    (run,) = plan_runs(engine(), [name], wishes(**changes), say=print)
    return run


def test_the_defaults_confine() -> None:
    run = plan()
    assert run.image == "rentbench/cpu:latest"
    assert run.options.network == "none"
    assert run.options.memory_bytes == 90 * GIBIBYTE
    assert run.options.shm_bytes >= GIBIBYTE
    arguments = run.options.arguments(volume="v")
    assert arguments["cap_drop"] == ["ALL"]
    assert arguments["security_opt"] == ["no-new-privileges"]
    assert arguments["read_only"]
    assert arguments["init"]
    assert arguments["network_mode"] == "none"
    assert arguments["mem_limit"] == arguments["memswap_limit"] == 90 * GIBIBYTE
    assert arguments["hostname"] == "rentbench"
    assert "privileged" not in arguments
    assert "device_requests" not in arguments
    assert arguments["environment"]["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert [mount["Type"] for mount in arguments["mounts"]] == ["volume"]


@pytest.mark.parametrize(("gpus", "count"), [("all", -1), ("3", 3)])
def test_gpus_are_asked_for_by_count(gpus: str, count: int) -> None:
    arguments = ContainerOptions(memory_bytes=None, gpus=gpus).arguments(volume="v")
    (request,) = arguments["device_requests"]
    assert (request.count, request.capabilities) == (count, [["gpu"]])
    assert "NVIDIA_VISIBLE_DEVICES" not in arguments["environment"]
    assert [limit.name for limit in arguments["ulimits"]] == ["memlock"]


def test_the_harness_is_told_what_was_asked() -> None:
    run = plan(cases=["size=256,dtype=fp32"], settings=["fp8_fast_accumulation=false"], repeats=1, seed=7)
    assert list(run.arguments) == [
        *(
            "--case",
            "size=256,dtype=fp32",
            "--set",
            "fp8_fast_accumulation=false",
            "--repeats",
            "1",
            "--seed",
            "7",
        )
    ]


def test_the_clocks_leave_the_harness_time_for_its_own() -> None:
    one, three = plan(repeats=1), plan(repeats=3)
    assert three.clocks.wall > one.clocks.wall > one.clocks.idle
    assert plan(timeout=5.0, idle_timeout=2.0).clocks.wall == 5.0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"host": "moon"}, "host"),
        ({"preset": "huge"}, "no preset"),
        ({"preset": None}, "standard needs one"),
        ({"gpus": "some"}, "--gpus"),
        ({"gpus": "0"}, "--gpus"),
        ({"cases": ["size"]}, "--case"),
        ({"cases": ["colour=red"]}, 'no case parameter "colour"'),
        ({"cases": ["size=9999"]}, "no case with size=9999"),
        ({"repeats": 0}, "--repeats is 0"),
        ({"seed": -5}, "--seed is -5"),
        ({"timeout": float("nan")}, "--timeout is nan"),
        ({"idle_timeout": float("inf")}, "--idle-timeout is inf"),
        ({"name": "../../escape", "image": "other:1"}, "there is no suite"),
        ({"cases": ["size=big"]}, "size"),
        ({"settings": ["size=256"]}, 'no setting parameter "size"'),
        ({"memory": "lots"}, "--memory"),
        ({"memory": "-1g"}, "--memory"),
        ({"memory": "1k"}, "--memory"),
        ({"memory": "99999999t"}, "--memory"),
        ({"shm_size": "0"}, "--shm-size"),
        ({"tmp_size": ""}, "--tmp-size"),
        ({"pids_limit": -1}, "--pids-limit"),
        ({"timeout": 0.0}, "--timeout"),
        ({"idle_timeout": -1.0}, "--idle-timeout"),
    ],
)
def test_what_is_not_allowed_is_refused_before_anything_starts(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        plan(**changes)
    assert caught.value.hint


def test_an_unknown_suite_needs_an_image_that_knows_it() -> None:
    with pytest.raises(UsageError, match="no suite"):
        plan("no-such-suite")
    assert plan("no-such-suite", image="x").image == "x"


def test_every_restriction_can_be_lifted() -> None:
    run = plan(
        network="host",
        memory="unlimited",
        pids_limit=0,
        user="0:0",
        read_only_root=False,
        drop_capabilities=False,
        no_new_privileges=False,
        init=False,
    )
    arguments = run.options.arguments(volume="v")
    assert "mem_limit" not in arguments
    assert "hostname" not in arguments
    assert arguments["pids_limit"] is None
    assert arguments["cap_drop"] == arguments["security_opt"] == []
    assert not arguments["read_only"]
    assert arguments["user"] == "0:0"


@pytest.fixture
def nvidia(tmp_path: Path) -> Path:
    """What the NVIDIA kernel module shows of itself in /proc, with two GPUs."""
    (tmp_path / "version").write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n"
    )
    for address in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / "gpus" / address).mkdir(parents=True)
    return tmp_path


def test_gpus_of_the_host_are_found(nvidia: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(nvidia))
    program = nvidia / "nvidia-smi"
    program.write_text(
        "#!/bin/sh\n[ \"$1\" = --query-gpu=compute_cap ] && printf '9.0\\n9.0\\n8.0\\n[N/A]\\n'\n"
    )
    program.chmod(0o755)
    found = find_local_gpus(engine(Runtimes={"nvidia": {}}), driver=nvidia)
    assert found == LocalGpus(
        count=2, driver_version="580.65.06", toolkit=True, compute_capabilities=("8.0", "9.0")
    )
    program.write_text("#!/bin/sh\nexit 2\n")
    (nvidia / "version").write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.144.03  Mon\n")
    without = find_local_gpus(engine(), driver=nvidia)
    assert without == LocalGpus(count=2, driver_version="550.144.03", toolkit=False)
    assert find_local_gpus(engine(), driver=nvidia / "nowhere").count == 0


def test_gpus_are_used_where_docker_can_and_missed_aloud_where_it_cannot() -> None:
    said: list[str] = []
    usable = LocalGpus(count=2, driver_version="580", toolkit=True)
    assert _choose_gpus(None, usable, said.append) == "all"
    assert _choose_gpus("1", usable, said.append) == "1"
    assert said == []
    assert _choose_gpus(None, LocalGpus(count=2, driver_version="580", toolkit=False), said.append) == "none"
    assert "container toolkit" in said[0]
    assert _choose_gpus(None, LocalGpus(count=0, driver_version=None, toolkit=True), said.append) == "none"
    assert len(said) == 1


@pytest.mark.parametrize(
    ("codes", "worst"), [([], 0), ([0, 0], 0), ([0, 5], 5), ([5, 4, 0], 4), ([4, 3, 5], 3), ([3, 2, 0], 2)]
)
def test_the_worst_of_several_runs_is_the_exit_code(codes: list[Any], worst: int) -> None:
    assert worst_exit(codes) == worst


@pytest.fixture
def three_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A root with images for CPU, for new GPUs and for old ones."""
    for name in ("schema", "suites"):
        (tmp_path / name).symlink_to(resource(name))
    cpu = resource("images", "cpu", "image.toml").read_text()
    gpus = {"cpu": "", "new": '["8.0", "9.0"]', "old": '["7.0"]'}
    for name, capabilities in gpus.items():
        text = cpu.replace('name = "cpu"', f'name = "{name}"')
        if capabilities:
            text += f"""
[gpu]
compute_capabilities = {capabilities}
driver_min = "525.60.13"
cuda_min = "12.0"
"""
        (tmp_path / "images" / name).mkdir(parents=True)
        (tmp_path / "images" / name / "image.toml").write_text(text)
    monkeypatch.setenv("RENTBENCH_ROOT", str(tmp_path))


@pytest.mark.usefixtures("three_images")
@pytest.mark.parametrize(
    ("gpus", "capabilities", "image"),
    [
        ("none", (), "cpu"),
        ("none", ("9.0",), "cpu"),
        ("all", ("9.0",), "new"),
        ("2", ("8.0", "9.0"), "new"),
        ("all", ("7.0",), "old"),
        ("all", (), "new"),
    ],
)
def test_the_image_is_chosen_by_compute_capability(
    gpus: str, capabilities: tuple[str, ...], image: str
) -> None:
    assert choose_image("gemm", gpus=gpus, capabilities=capabilities) == f"rentbench/{image}:latest"


@pytest.mark.usefixtures("three_images")
@pytest.mark.parametrize("capabilities", [("6.1",), ("7.0", "9.0")])
def test_gpus_that_no_image_is_for_are_said_with_what_there_is(capabilities: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match=r"new for 8\.0, 9\.0; old for 7\.0") as caught:
        choose_image("gemm", gpus="all", capabilities=capabilities)
    assert "--image" in str(caught.value.hint)


def test_an_image_of_ours_can_be_named_shortly() -> None:
    assert plan(image="cpu").image == "rentbench/cpu:latest"
    assert plan(image="elsewhere/cpu:1").image == "elsewhere/cpu:1"
