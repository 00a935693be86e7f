"""Workers that die, hang or leak, and supervisors that are stopped: a result is left, and no process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rentbench.harness.workers.attempt import TERMINATE_SECONDS
from support.harness_runs import Finished, collect, command, environment, smoke

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE = 15.0


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Look often until something is so."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE} s: {what}"
        time.sleep(0.01)


def alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def left_behind(log: str) -> list[int]:
    """Return the process ids that the fixture suite `leaks` told."""
    (line,) = [line for line in log.splitlines() if line.startswith("left behind:")]
    return [int(text) for text in line.split(":")[1].split()]


def _default_signals() -> None:
    """Undo what the tests' own caller may ignore, as a shell does for what runs in its background."""
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


@contextmanager
def started(
    tmp_path: Path, suite: str, how: str, until: str, *prefix: str
) -> Iterator[subprocess.Popen[str]]:
    """Start a run and yield it once its log holds a text."""
    errors = tmp_path / "stderr"
    arguments = command(suite, "--preset", "smoke", "--device", "cpu", "--set", f"how={how}")
    with (
        errors.open("w") as stderr,
        subprocess.Popen(
            [*prefix, *arguments],
            env=environment(tmp_path),
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
            preexec_fn=_default_signals,
        ) as process,
    ):
        wait_until(lambda: until in errors.read_text(), until)
        try:
            yield process
        finally:
            process.kill()


def finish(tmp_path: Path, process: subprocess.Popen[str]) -> Finished:
    stdout, _ = process.communicate(timeout=PATIENCE)
    return collect(tmp_path, process.returncode, stdout, (tmp_path / "stderr").read_text())


@pytest.mark.parametrize(
    ("how", "kind", "said"),
    [
        ("segfault", "crashed", "Segmentation fault"),
        ("SIGABRT", "crashed", "SIGABRT"),
        ("SIGKILL", "killed", "SIGKILL"),
        ("exit 7", "crashed", "7"),
        ("exit silently", "no_output", "without a word"),
        ("sys.exit", "internal", "SystemExit"),
        ("raise", "internal", "no such layer"),
        ("out of memory", "oom", "out of memory"),
    ],
)
def test_a_case_that_ends_its_process_costs_only_itself(
    tmp_path: Path, how: str, kind: str, said: str
) -> None:
    finished = smoke(tmp_path, "crashes", how)
    assert finished.code == 4
    assert {which: case["status"] for which, case in finished.cases.items()} == {
        "a": "ok",
        "b": "failed",
        "c": "ok",
    }
    error = finished.cases["b"]["error"]
    assert (error["kind"], error["phase"]) == (kind, "measure")
    assert said in error["message"]
    assert f"about to misbehave: {how}" in error["log_tail"] or how in {"sys.exit", "raise", "out of memory"}


def test_a_crash_leaves_its_python_stack_in_the_log(tmp_path: Path) -> None:
    log = smoke(tmp_path, "crashes", "segfault").text("log.txt")
    assert "Segmentation fault" in log
    assert "string_at" in log


def test_a_suite_may_have_a_process_for_each_case(tmp_path: Path) -> None:
    finished = smoke(tmp_path, "apart", "well", "--repeats", "2")
    assert finished.code == 0
    processes = [line for line in finished.text("log.txt").splitlines() if line.startswith("process ")]
    assert len(processes) == len(set(processes)) == 6
    assert all("load" in case["phases"] for case in finished.cases.values())


def test_a_process_for_each_case_that_dies_costs_its_case_alone(tmp_path: Path) -> None:
    finished = smoke(tmp_path, "apart", "kill itself")
    statuses = {which: case["status"] for which, case in finished.cases.items()}
    assert statuses == {"a": "ok", "b": "failed", "c": "ok"}
    # a, b and c: no process was started in the place of the one that died.
    assert finished.text("log.txt").count("process ") == 3


def test_a_worker_that_dies_before_its_first_case(tmp_path: Path) -> None:
    finished = smoke(tmp_path, "crashes", "die in prepare")
    assert finished.code == 3
    assert finished.document is not None
    assert finished.document["error"]["kind"] == "killed"
    assert {case["status"] for case in finished.cases.values()} == {"failed"}


@pytest.mark.parametrize("how", ["hang", "hang and ignore SIGTERM"])
def test_a_hang_ends_at_the_time_limit(tmp_path: Path, how: str) -> None:
    finished = smoke(tmp_path, "crashes", how)
    assert finished.code == 4
    assert finished.document is not None
    assert finished.document["error"]["kind"] == "timeout"
    assert finished.cases["a"]["status"] == "ok"
    assert finished.cases["b"]["error"]["phase"] == "measure"
    assert finished.cases["c"]["error"]["message"].startswith("did not run: ")


def test_what_a_workload_leaves_behind_is_ended_and_told(tmp_path: Path) -> None:
    finished = smoke(tmp_path, "leaks", "well")
    assert finished.code == 0
    log = finished.text("log.txt")
    assert not [process for process in left_behind(log) if alive(process)]
    assert "[2 processes that the workload left behind were ended]" in log


def test_a_hang_takes_children_and_daemons_with_it(tmp_path: Path) -> None:
    finished = smoke(tmp_path, "leaks", "hang")
    assert finished.code == 3
    assert not [process for process in left_behind(finished.text("log.txt")) if alive(process)]
    assert finished.cases["a"]["measurements"][0]["values"] == [1.0]  # measured before it hung


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_run_and_keeps_what_was_measured(tmp_path: Path, number: signal.Signals) -> None:
    with started(tmp_path, "leaks", "hang", "left behind:") as process:
        process.send_signal(number)
        finished = finish(tmp_path, process)
    assert finished.code == 3
    assert finished.document is not None
    error = finished.document["error"]
    assert error["kind"] == "interrupted"
    assert number.name in error["message"]
    assert finished.cases["a"]["measurements"][0]["values"] == [1.0]
    assert not [process for process in left_behind(finished.stderr) if alive(process)]
    assert "result: " in finished.stdout


def test_a_run_under_nohup_outlives_its_terminal(tmp_path: Path) -> None:
    ignoring = ("bash", "-c", "trap '' HUP; exec \"$@\"", "bash")
    with started(tmp_path, "leaks", "hang", "left behind:", *ignoring) as process:
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        finished = finish(tmp_path, process)
    assert finished.document is not None
    assert "SIGTERM" in finished.document["error"]["message"]


def test_an_interrupted_run_is_partial_where_a_case_was_done(tmp_path: Path) -> None:
    with started(tmp_path, "crashes", "hang", "misbehave") as process:
        process.send_signal(signal.SIGTERM)
        finished = finish(tmp_path, process)
    assert finished.code == 4
    assert {which: case["status"] for which, case in finished.cases.items()} == {
        "a": "ok",
        "b": "failed",
        "c": "failed",
    }


def test_a_second_signal_does_not_wait_for_a_worker_that_ignores_the_first(tmp_path: Path) -> None:
    seconds = []
    for name, signals in (("one", [signal.SIGTERM]), ("two", [signal.SIGTERM, signal.SIGINT])):
        (tmp_path / name).mkdir()
        with started(tmp_path / name, "crashes", "hang and ignore SIGTERM", "\nhanging") as process:
            begin = time.monotonic()
            for number in signals:
                process.send_signal(number)
            finished = finish(tmp_path / name, process)
        seconds.append(time.monotonic() - begin)
        assert finished.document is not None
        assert finished.document["error"]["kind"] in {"interrupted", "timeout"}
    once, twice = seconds
    assert once >= TERMINATE_SECONDS
    assert twice < once - TERMINATE_SECONDS / 2  # all else takes as long, however busy the machine is


def test_a_killed_supervisor_leaves_no_process(tmp_path: Path) -> None:
    with started(tmp_path, "leaks", "hang", "left behind:") as process:
        ours = [
            int(folder.name)
            for folder in Path("/proc").iterdir()
            if folder.name.isdigit() and str(tmp_path) in _environment(folder)
        ]
        assert len(ours) >= 5  # supervisor, guard, worker, child, daemon
        process.kill()
        process.wait()
        wait_until(lambda: not any(map(alive, ours)), "all processes of the run have ended")


def test_a_killed_guard_takes_its_worker_with_it(tmp_path: Path) -> None:
    with started(tmp_path, "leaks", "hang", "left behind:") as process:
        (guard,) = [
            int(folder.name)
            for folder in Path("/proc").iterdir()
            if folder.name.isdigit()
            and str(tmp_path) in _environment(folder)
            and b"rentbench.harness.workers.guard" in (folder / "cmdline").read_bytes()
        ]
        os.kill(guard, signal.SIGKILL)
        finished = finish(tmp_path, process)
    assert finished.cases["a"]["status"] == "failed"
    wait_until(
        lambda: not [process for process in left_behind(finished.stderr) if alive(process)],
        "the orphans have ended",
    )


def _environment(folder: Path) -> str:
    try:
        return (folder / "environ").read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def _can_unshare() -> bool:
    unshare = shutil.which("unshare")
    if unshare is None:
        return False
    probe = [unshare, "--pid", "--fork", "--mount-proc", "true"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not _can_unshare(), reason="no permission for a PID namespace")
class TestAsFirstProcess:
    """As process 1 of a container without an init."""

    NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")

    def test_it_measures(self, tmp_path: Path) -> None:
        arguments = command("well", "--preset", "smoke", "--device", "cpu")
        ended = subprocess.run(
            [*self.NAMESPACE, *arguments],
            env=environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert collect(tmp_path, ended.returncode, ended.stdout, ended.stderr).code == 0, ended.stderr

    def test_it_ends_on_sigterm_with_a_result(self, tmp_path: Path) -> None:
        with started(tmp_path, "leaks", "hang", "left behind:", *self.NAMESPACE) as process:
            first = [
                int(folder.name)
                for folder in Path("/proc").iterdir()
                if folder.name.isdigit() and self._is_first(folder)
            ]
            (supervisor,) = [number for number in first if self._belongs(number, process.pid)]
            os.kill(supervisor, signal.SIGTERM)
            finished = finish(tmp_path, process)
        assert finished.document is not None
        assert finished.document["error"]["kind"] == "interrupted"
        assert finished.code == 3

    @staticmethod
    def _is_first(folder: Path) -> bool:
        try:
            status = (folder / "status").read_text()
        except OSError:
            return False
        (line,) = [line for line in status.splitlines() if line.startswith("NSpid:")]
        return line.split()[1:][1:] == ["1"]

    @staticmethod
    def _belongs(number: int, parent: int) -> bool:
        stat = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
        return int(stat[1]) == parent


def test_init_collects_orphans_and_passes_signals_on(tmp_path: Path) -> None:
    """`run_as_init` by itself, in a process that adopts orphans as process 1 does."""
    ready = tmp_path / "ready"
    script = f"""
import os, signal, subprocess, sys, time
from pathlib import Path
from rentbench.harness.init import run_as_init
from rentbench.harness.workers.processes import adopt_orphans

def main():
    subprocess.run([sys.executable, "-c", "import os; os.fork() or os._exit(0)"])  # its child is orphaned
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(33))
    Path({str(ready)!r}).touch()
    time.sleep(60)

adopt_orphans()
sys.exit(run_as_init(main))
"""
    with subprocess.Popen([sys.executable, "-c", script]) as process:
        wait_until(ready.exists, "the child has begun")
        wait_until(
            lambda: "Z" not in _states_of_children(process.pid), "the orphan that ended has been collected"
        )
        process.terminate()
        assert process.wait(PATIENCE) == 33


def _states_of_children(parent: int) -> list[str]:
    states = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                state, owner = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if int(owner) == parent:
                states.append(state)
    return states
