"""`rentbench run` and `rentbench reap` as a user has them: signals, exit codes, output, leftovers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from docker.errors import NotFound

from rentbench.core.scan import validate_paths
from rentbench.driver.leftovers import Leftover, find_leftovers
from rentbench.driver.owners import Owner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rentbench.driver.engine import Engine

pytestmark = pytest.mark.docker

PATIENCE = 30.0
RENTBENCH = [sys.executable, "-c", "from rentbench.cli.main import main; main()"]


def rentbench(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end."""
    return subprocess.run([*RENTBENCH, *arguments], capture_output=True, text=True, check=False, timeout=120)


def run_arguments(image: str, results: Path, *behaviours: str) -> list[str]:
    """Return the arguments that run behaviours of the test image."""
    return ["run", *behaviours, "--image", image, "--preset", "smoke", "--results", str(results)]


def start(behaviour: str, image: str, results: Path) -> subprocess.Popen[str]:
    """Start a run in the background, and return once its workload says that it is ready."""
    process = subprocess.Popen(
        [*RENTBENCH, *run_arguments(image, results, behaviour)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() in ("ready", "hanging"):
            break
    return process


def documents(results: Path) -> dict[str, Any]:
    """Return the documents of the one run in a results folder, all of them valid."""
    assert [str(report) for report in validate_paths([results]) if not report.valid] == []
    return {path.name: json.loads(path.read_text()) for path in results.rglob("*.json")}


def test_a_run_prints_the_workloads_output_and_where_the_result_is(behaviours: str, tmp_path: Path) -> None:
    done = rentbench(*run_arguments(behaviours, tmp_path, "ok"))
    assert done.returncode == 0, done.stderr
    assert "to output" in done.stdout
    assert f"ok: ok  {tmp_path}/ok/cpu/" in done.stdout
    assert "to errors" in done.stderr
    assert "[1/2] half" in done.stderr
    assert set(documents(tmp_path)) == {"measurement.json", "run.json"}


def test_json_is_all_that_goes_to_standard_output(behaviours: str, tmp_path: Path) -> None:
    done = rentbench(*run_arguments(behaviours, tmp_path, "ok", "failed", "no-result"), "--json")
    assert done.returncode == 3
    answer = json.loads(done.stdout)
    assert answer["exit_code"] == 3
    assert [(run["suite"], run["status"], run["exit_code"]) for run in answer["runs"]] == [
        ("ok", "ok", 0),
        ("failed", "failed", 3),
        ("no-result", "failed", 3),
    ]
    assert answer["runs"][2]["error"]["kind"] == "no_result"
    assert answer["runs"][2]["measurement_id"] is None


def test_an_error_is_printed_with_its_kind_and_a_hint(behaviours: str, tmp_path: Path) -> None:
    done = rentbench(*run_arguments(behaviours, tmp_path, "oom"), "--memory", "64m")
    assert done.returncode == 3
    assert "host_oom" in done.stderr
    assert "--memory" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_and_removes_the_container_and_keeps_what_was_written(
    docker_engine: Engine, behaviours: str, tmp_path: Path, number: signal.Signals
) -> None:
    process = start("graceful", behaviours, tmp_path)
    process.send_signal(number)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 3
    found = documents(tmp_path)
    assert found["run.json"]["error"]["kind"] == "interrupted"
    assert found["measurement.json"]["status"] == "failed"
    assert found["run.json"]["id"] not in {leftover.run_id for leftover in find_leftovers(docker_engine)}


def test_suites_after_an_interrupt_are_not_run(behaviours: str, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*RENTBENCH, *run_arguments(behaviours, tmp_path, "graceful", "ok")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == "ready":
            process.send_signal(signal.SIGINT)
            break
    rest, _ = process.communicate(timeout=PATIENCE)
    assert "not run: ok" in rest
    assert not (tmp_path / "ok").exists()


def leftovers(engine: Engine, image: str) -> list[Leftover]:
    """Return what runs of this test session's image left; other sessions may use the engine as well."""
    return [found for found in find_leftovers(engine) if found.labels.get("rentbench.reference") == image]


def kill(process: subprocess.Popen[str]) -> None:
    """End a driver so that it can do nothing about it."""
    process.kill()
    process.communicate()


def reap(*arguments: str) -> dict[str, dict[str, Any]]:
    """Run `rentbench reap`, and return what it says of each leftover, by name."""
    answer = json.loads(rentbench("reap", *arguments, "--json").stdout)
    return {one["name"]: one for one in (*answer["reaped"], *answer["kept"])}


def test_reap_collects_and_removes_what_a_killed_driver_left_and_nothing_else(
    docker_engine: Engine, behaviours: str, tmp_path: Path
) -> None:
    living = start("hang", behaviours, tmp_path / "living")
    kill(start("hang", behaviours, tmp_path / "killed"))
    assert len(list((tmp_path / "killed").glob(".incoming-*"))) == 1
    try:
        names = {found.owner: found.name for found in leftovers(docker_engine, behaviours)}
        assert sorted(names) == [Owner.ALIVE, Owner.DEAD]
        answer = reap("--results", str(tmp_path / "killed"))
        assert answer[names[Owner.DEAD]]["problem"] is None
        assert answer[names[Owner.ALIVE]] == {"name": names[Owner.ALIVE], "owner": "alive"}
        found = documents(tmp_path / "killed")
        assert found["measurement.json"]["status"] == "ok"
        assert found["run.json"]["error"]["kind"] == "interrupted"
        assert not list((tmp_path / "killed").glob(".incoming-*"))
        assert [one.owner for one in leftovers(docker_engine, behaviours)] == [Owner.ALIVE]
        volumes = docker_engine.client.volumes.list(filters={"label": f"rentbench.reference={behaviours}"})
        assert [volume.name for volume in volumes] == [names[Owner.ALIVE]]
    finally:
        living.send_signal(signal.SIGINT)
        living.communicate(timeout=PATIENCE)
    assert leftovers(docker_engine, behaviours) == []


@pytest.mark.parametrize("behaviour", ["ok", "invalid"])
@pytest.mark.parametrize("written", ["all", "all but run.json"])
def test_reap_makes_no_second_result_of_what_was_in_place_when_the_driver_died(
    docker_engine: Engine, behaviours: str, tmp_path: Path, behaviour: str, written: str
) -> None:
    """`--keep` leaves everything as a driver does that dies at the very end."""
    rentbench(*run_arguments(behaviours, tmp_path, behaviour), "--keep")
    (name,) = [found.name for found in leftovers(docker_engine, behaviours)]
    (run,) = tmp_path.rglob("run.json")
    before = run.read_bytes()
    if written == "all but run.json":
        run.unlink()
    answer = reap("--results", str(tmp_path))
    assert (answer[name]["problem"], answer[name]["folder"]) == (None, str(run.parent))
    assert list(tmp_path.rglob("run.json")) == [run]
    assert (run.read_bytes() == before) == (written == "all")
    assert json.loads(run.read_text())["id"] == json.loads(before)["id"]
    assert [str(report) for report in validate_paths([run.parent]) if not report.valid] == []
    assert leftovers(docker_engine, behaviours) == []


def test_reap_goes_on_after_what_it_cannot_tell_the_run_of(
    docker_engine: Engine, behaviours: str, tmp_path: Path
) -> None:
    program = "import json; from rentbench.driver.owners import *; print(json.dumps(owner_labels('a-run')))"
    labels = json.loads(subprocess.check_output([sys.executable, "-c", program]))
    nameless = docker_engine.client.containers.run(
        behaviours, ["ok"], detach=True, name=f"rentbench-a-{os.getpid()}", labels=labels
    )
    try:
        nameless.wait()
        kill(start("hang", behaviours, tmp_path))
        (whole,) = leftovers(docker_engine, behaviours)
        answer = reap("--results", str(tmp_path))
        assert "--discard" in answer[nameless.name]["problem"]
        assert answer[whole.name]["problem"] is None
        assert reap("--discard")[nameless.name]["problem"] is None
    finally:
        with suppress(NotFound):
            nameless.remove(force=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder with a megabyte of space."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a file system cannot be mounted here: not root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize(
    ("behaviour", "kept"), [("large", "measurement.json"), ("ok", "measurement.json"), ("chatty", "log.txt")]
)
def test_a_full_disk_loses_nothing_of_what_was_measured(
    docker_engine: Engine, behaviours: str, small_disk: Path, tmp_path: Path, behaviour: str, kept: str
) -> None:
    """Whatever it is that does not fit: what was measured, the run document, or the log."""
    if behaviour == "ok":  # one page of memory is left: enough for the measurement, and none for run.json
        (small_disk / "ballast").write_bytes(bytes(2**20 - 4096))
    done = rentbench(*run_arguments(behaviours, small_disk, behaviour))
    assert done.returncode == 3
    assert "No space left on device" in done.stderr
    assert not list(small_disk.rglob("run.json"))
    (leftover,) = leftovers(docker_engine, behaviours)
    message = " ".join(done.stderr.split())
    assert f"rentbench reap --results {small_disk}" in message
    assert f"docker cp {leftover.name}:/results TARGET" in message
    # With space again, here or elsewhere, everything comes out.
    answer = reap("--results", str(tmp_path / "elsewhere"))
    assert answer[leftover.name]["problem"] is None
    (run,) = (tmp_path / "elsewhere").rglob("run.json")
    assert (run.parent / kept).is_file()
    assert leftovers(docker_engine, behaviours) == []


def test_reap_removes_a_volume_whose_container_is_gone(
    docker_engine: Engine, behaviours: str, tmp_path: Path
) -> None:
    kill(start("hang", behaviours, tmp_path))
    (leftover,) = leftovers(docker_engine, behaviours)
    assert leftover.container is not None
    leftover.container.remove(force=True)
    done = rentbench("reap", "--discard")
    assert done.returncode == 0
    assert "removed" in done.stdout
    assert leftovers(docker_engine, behaviours) == []


@pytest.mark.skipif(os.getuid() != 0, reason="another user can be had only as root")
def test_an_ordinary_user_owns_the_results_and_a_closed_socket_is_said(
    behaviours: str, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    results.mkdir()
    os.chown(results, 12345, 12345)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)

    def as_user(*command: str, groups: list[int]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            user=12345,
            group=12345,
            extra_groups=groups,
            env={**os.environ, "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )

    try:
        usable = as_user(*RENTBENCH, "--version", groups=[]).returncode == 0
    except PermissionError:
        usable = False
    if not usable:
        pytest.skip("other users may not read this Python, or this checkout")
    command = [*RENTBENCH, *run_arguments(behaviours, results, "ok")]
    denied = as_user(*command, groups=[])
    assert denied.returncode == 3
    assert "you may not use the Docker engine" in denied.stderr
    assert "group docker" in denied.stderr
    allowed = as_user(*command, groups=[Path("/var/run/docker.sock").stat().st_gid])
    assert allowed.returncode == 0, allowed.stderr
    assert {path.stat().st_uid for path in results.rglob("*")} == {12345}
    assert documents(results)["run.json"]["container"]["user"] == "12345:12345"


def test_results_that_cannot_be_written_are_said_before_anything_starts(
    behaviours: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    done = rentbench(*run_arguments(behaviours, tmp_path / "file", "ok"))
    assert done.returncode == 2
    assert "results cannot be written" in done.stderr


def test_the_same_image_works_without_the_driver(behaviours: str, tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    results.chmod(0o777)
    command = ["docker", "run", "--rm", "-v", f"{results}:/results", "--user", "12345:12345", behaviours]
    subprocess.run([*command, "ok", "--preset", "smoke"], check=True, capture_output=True, timeout=60)
    assert set(documents(results)) == {"measurement.json"}
