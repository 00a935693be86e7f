"""Every way that a container can end, on the real engine: a named failure, and nothing left behind."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from rentbench.core.errors import ErrorKind, ExitCode
from rentbench.core.scan import validate_paths
from rentbench.driver.interrupts import Interrupts
from rentbench.driver.runs import run_suites
from support.driver_runs import MEMORY, Seen, execute, plan

if TYPE_CHECKING:
    from pathlib import Path

    from rentbench.driver.engine import Engine

pytestmark = pytest.mark.docker


def problems(folder: Path) -> list[str]:
    """Return what validation says against the documents in a folder; they are two after a good run."""
    return [str(report) for report in validate_paths([folder]) if not report.valid]


def test_a_good_run_leaves_two_valid_documents_that_the_caller_owns(
    docker_engine: Engine, behaviours: str, tmp_path: Path
) -> None:
    seen = Seen()
    outcome = execute(docker_engine, behaviours, "ok", tmp_path, seen=seen)
    assert outcome.failure is None
    assert (outcome.status, outcome.exit_code) == ("ok", ExitCode.OK)
    assert problems(tmp_path) == []
    assert outcome.folder.parent == tmp_path / "ok" / "cpu"
    assert {path.name for path in outcome.folder.iterdir()} == {"measurement.json", "run.json"}
    assert {path.stat().st_uid for path in tmp_path.rglob("*")} == {os.getuid()}
    assert seen.output == ["to output"]
    assert seen.errors == ["to errors"]
    assert [(progress.done, progress.text) for progress in seen.progress_seen] == [(1, "half")]
    assert [entry["event"] for entry in outcome.run["timeline"]] == [
        "queued",
        "image_ready",
        "started",
        "finished",
        "collected",
    ]


def test_the_container_is_confined(docker_engine: Engine, behaviours: str, tmp_path: Path) -> None:
    seen = Seen()
    options = {"user": "12345:54321", "shm_bytes": 96 * 1024**2}
    outcome = execute(docker_engine, behaviours, "confined", tmp_path, seen=seen, options=options)
    text = "\n".join(seen.output)
    assert "uid=12345 gid=54321" in text
    assert "lo" in seen.output
    assert "eth0" not in text
    assert "CapEff:\t0000000000000000".expandtabs(8) in text
    assert "NoNewPrivs:\t1".expandtabs(8) in text
    assert "root is writable" not in text
    assert "tmp is writable" in text
    assert "tmp runs programs" in text
    assert f"shm {96 * 1024**2}" in text
    assert "init" in text
    in_force = outcome.run["container"]
    assert in_force == {
        "user": "12345:54321",
        "network": "none",
        "read_only_root": True,
        "capabilities_dropped": ["ALL"],
        "no_new_privileges": True,
        "init": True,
        "memory_bytes": MEMORY,
        "pids_limit": 4096,
        "shm_bytes": 96 * 1024**2,
        "gpus": "none",
        "exit_code": 0,
        "oom_killed": False,
    }


def test_each_restriction_has_an_opt_out(docker_engine: Engine, behaviours: str, tmp_path: Path) -> None:
    seen = Seen()
    options = {
        "user": "0:0",
        "read_only_root": False,
        "drop_capabilities": False,
        "no_new_privileges": False,
        "init": False,
        "pids_limit": None,
        "memory_bytes": None,
        "network": "bridge",
    }
    outcome = execute(docker_engine, behaviours, "confined", tmp_path, seen=seen, options=options)
    text = "\n".join(seen.output)
    assert "root is writable" in text
    assert "eth0" in text
    assert "NoNewPrivs:\t0".expandtabs(8) in text
    assert "CapEff:\t0000000000000000".expandtabs(8) not in text
    in_force = outcome.run["container"]
    assert in_force["memory_bytes"] is None
    assert in_force["pids_limit"] is None
    assert {in_force[name] for name in ("read_only_root", "no_new_privileges", "init")} == {False}
    assert in_force["capabilities_dropped"] == []
    assert problems(tmp_path) == []


@pytest.mark.parametrize(
    ("behaviour", "kind", "words"),
    [
        ("no-result", ErrorKind.NO_RESULT, "exit code 0 and left no result"),
        ("usage", ErrorKind.USAGE, "refused its command line"),
        ("invalid", ErrorKind.INVALID_RESULT, "/status"),
        ("truncated", ErrorKind.INVALID_RESULT, "ends too early"),
        ("foreign", ErrorKind.INVALID_RESULT, "other"),
        ("elsewhere", ErrorKind.INVALID_RESULT, "no result's folder"),
        ("as-another-gpu", ErrorKind.INVALID_RESULT, "folder of another GPU"),
        ("as-another-suite", ErrorKind.INVALID_RESULT, "folder of another suite"),
        ("twice", ErrorKind.INVALID_RESULT, "2 measurements"),
        ("link", ErrorKind.INVALID_RESULT, "a link"),
        ("pipe", ErrorKind.INVALID_RESULT, "neither file nor folder"),
        ("crash", ErrorKind.CRASHED, "SIGSEGV"),
        ("killed", ErrorKind.KILLED, "137"),
        ("exit-126", ErrorKind.COMMAND_NOT_EXECUTABLE, "126"),
        ("exit-127", ErrorKind.COMMAND_MISSING, "127"),
        ("oom", ErrorKind.HOST_OOM, "0.2 GiB"),
    ],
)
def test_an_end_without_a_measurement_is_a_named_failure(
    docker_engine: Engine, behaviours: str, tmp_path: Path, behaviour: str, kind: ErrorKind, words: str
) -> None:
    outcome = execute(docker_engine, behaviours, behaviour, tmp_path)
    assert outcome.failure is not None
    assert outcome.failure.kind is kind
    assert words in outcome.failure.message
    assert outcome.status == "failed"
    assert outcome.measurement is None
    assert outcome.exit_code == (ExitCode.USAGE if kind is ErrorKind.USAGE else ExitCode.FAILED)
    assert outcome.folder.parent == tmp_path / behaviour / "unknown"
    assert problems(tmp_path) == []
    assert outcome.run["error"]["kind"] == kind.value


def test_memory_that_killed_a_child_is_told_though_the_exit_code_is_0(
    docker_engine: Engine, behaviours: str, tmp_path: Path
) -> None:
    outcome = execute(docker_engine, behaviours, "oom-in-child", tmp_path)
    assert outcome.run["container"]["exit_code"] == 0
    assert outcome.failure is not None
    assert outcome.failure.kind is ErrorKind.HOST_OOM
    assert outcome.measurement is not None
    assert outcome.exit_code == ExitCode.FAILED
    assert problems(tmp_path) == []


def test_a_failed_measurement_tells_all_itself(
    docker_engine: Engine, behaviours: str, tmp_path: Path
) -> None:
    outcome = execute(docker_engine, behaviours, "failed", tmp_path)
    assert outcome.failure is None
    assert outcome.run["error"] is None
    assert (outcome.status, outcome.exit_code) == ("failed", ExitCode.FAILED)


def test_an_exit_code_that_contradicts_the_result_is_a_failure(
    docker_engine: Engine, behaviours: str, tmp_path: Path
) -> None:
    outcome = execute(docker_engine, behaviours, "contradiction", tmp_path)
    assert outcome.failure is not None
    assert "exit code 3, though its result says ok" in outcome.failure.message
    assert outcome.status == "ok"
    assert outcome.exit_code == ExitCode.FAILED


def test_what_was_refused_is_kept_out_of_sight_of_readers(
    docker_engine: Engine, behaviours: str, tmp_path: Path
) -> None:
    outcome = execute(docker_engine, behaviours, "invalid", tmp_path)
    refused = list((outcome.folder / ".refused").rglob("measurement.json"))
    assert len(refused) == 1
    assert "splendid" in refused[0].read_text()


def test_the_two_clocks_stop_a_container_and_keep_what_it_wrote(
    docker_engine: Engine, behaviours: str, tmp_path: Path
) -> None:
    wall = execute(docker_engine, behaviours, "hang", tmp_path, clocks={"wall": 1.0})
    assert wall.failure is not None
    assert wall.failure.kind is ErrorKind.TIMEOUT
    assert wall.status == "ok"  # it was written before the hang
    assert wall.exit_code == ExitCode.FAILED
    for behaviour in ("hang", "dots"):  # output without the end of a line is none
        idle = execute(docker_engine, behaviours, behaviour, tmp_path, clocks={"idle": 1.0, "wall": 20.0})
        assert idle.failure is not None
        assert idle.failure.kind is ErrorKind.NO_OUTPUT
    assert problems(tmp_path) == []


def test_a_container_that_ignores_sigterm_is_killed(
    docker_engine: Engine, behaviours: str, tmp_path: Path
) -> None:
    clocks = {"wall": 0.5, "grace": 1.0}
    outcome = execute(docker_engine, behaviours, "stubborn", tmp_path, clocks=clocks)
    assert outcome.failure is not None
    assert outcome.failure.kind is ErrorKind.TIMEOUT
    assert outcome.run["container"]["exit_code"] == 137


@pytest.mark.parametrize("behaviour", ["graceful", "chatty-at-the-end"])
def test_an_interrupt_lets_the_workload_write_its_result(
    docker_engine: Engine, behaviours: str, tmp_path: Path, behaviour: str
) -> None:
    interrupts = Interrupts()

    def interrupt(line: str) -> None:
        if line == "ready":
            interrupts.count += 1

    seen = Seen(on_line=interrupt)
    outcome = execute(docker_engine, behaviours, behaviour, tmp_path, seen=seen, interrupts=interrupts)
    assert outcome.failure is not None
    assert outcome.failure.kind is ErrorKind.INTERRUPTED
    assert outcome.measurement is not None
    assert outcome.run["container"]["exit_code"] == 3
    assert problems(tmp_path) == []


def test_a_second_interrupt_kills_at_once(docker_engine: Engine, behaviours: str, tmp_path: Path) -> None:
    interrupts = Interrupts()

    def interrupt_twice(line: str) -> None:
        if line == "ready":
            interrupts.count += 2

    seen = Seen(on_line=interrupt_twice)
    clocks = {"grace": 60.0}
    outcome = execute(
        docker_engine, behaviours, "stubborn", tmp_path, seen=seen, interrupts=interrupts, clocks=clocks
    )
    assert outcome.failure is not None
    assert outcome.failure.kind is ErrorKind.INTERRUPTED
    assert outcome.run["container"]["exit_code"] == 137


def test_a_flood_of_output_neither_blocks_nor_fills_memory(
    docker_engine: Engine, behaviours: str, tmp_path: Path
) -> None:
    seen = Seen()
    outcome = execute(docker_engine, behaviours, "flood", tmp_path, seen=seen)
    assert outcome.status == "ok"
    assert len(seen.output) == 300_001
    assert len(seen.output[-1]) == 16 * 1024


def test_output_cannot_act_on_a_terminal(docker_engine: Engine, behaviours: str, tmp_path: Path) -> None:
    seen = Seen()
    execute(docker_engine, behaviours, "escape", tmp_path, seen=seen)
    assert seen.output == ["safe red  text", "bell \N{REPLACEMENT CHARACTER}"]


def test_a_workload_that_closes_its_output_is_waited_for(
    docker_engine: Engine, behaviours: str, tmp_path: Path
) -> None:
    outcome = execute(docker_engine, behaviours, "deaf", tmp_path)
    assert outcome.failure is None
    assert outcome.status == "ok"


def test_keep_leaves_container_and_volume(docker_engine: Engine, behaviours: str, tmp_path: Path) -> None:
    seen = Seen()
    outcome = execute(docker_engine, behaviours, "ok", tmp_path, seen=seen, keep=True)
    name = f"rentbench-ok-{outcome.run['id'][-12:]}"
    container = docker_engine.client.containers.get(name)
    volume = docker_engine.client.volumes.get(name)
    assert any(name in text for text in seen.said)
    container.remove()
    volume.remove()


@pytest.mark.parametrize(
    ("how", "later"), [("good", True), ("failed", False), ("crashed-at-the-end", False), ("no-result", False)]
)
@pytest.mark.parametrize("anyway", [False, True])
def test_suites_after_a_preflight_that_failed_are_run_only_when_asked_for(
    docker_engine: Engine, behaviours: str, tmp_path: Path, how: str, later: bool, anyway: bool
) -> None:
    seen = Seen()
    plans = [
        plan(behaviours, "preflight", tmp_path, arguments=["--set", f"how={how}"]),
        plan(behaviours, "ok", tmp_path),
    ]
    outcomes = run_suites(
        docker_engine,
        plans,
        listener=seen,
        interrupts=Interrupts(),
        redact=lambda text: text,
        continue_on_fail=anyway,
    )
    assert (outcomes[0].failure is None) == (how in ("good", "failed"))
    assert (outcomes[0].measurement is None) == (how == "no-result")
    assert [outcome.run["suite"] for outcome in outcomes] == ["preflight", "ok"][
        : 2 if later or anyway else 1
    ]
    assert any("not run: ok" in text for text in seen.said) == (not later and not anyway)
