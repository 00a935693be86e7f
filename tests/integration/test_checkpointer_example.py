"""The library's example as its user runs it: data workers, signals to the whole group, several ranks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest

pytest.importorskip("torch")

from support.suites import SUITES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Starter: TypeAlias = "Callable[..., subprocess.Popen[str]]"

PATIENCE = 120
SINGLE = [sys.executable, "-m"]
TWO_RANKS = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m"]


@pytest.fixture
def start() -> Iterator[Starter]:
    started: list[subprocess.Popen[str]] = []

    def begin(command: list[str], folder: Path, *options: str) -> subprocess.Popen[str]:
        arguments = ["--folder", str(folder), "--upload", str(folder / "uploaded"), "--every", "40"]
        started.append(
            subprocess.Popen(
                [*command, "checkpointer.example", *arguments, "--steps", "100000", *options],
                cwd=SUITES / "interruption",
                env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        )
        return started[-1]

    yield begin
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def losses(folder: Path, rank: int = 0) -> list[tuple[int, str]]:
    path = folder / f"losses-{rank}.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [tuple(json.loads(line)) for line in lines if line.endswith("\n")]


def wait_for_step(process: subprocess.Popen[str], folder: Path, step: int) -> None:
    end = time.monotonic() + PATIENCE
    while not any(done >= step for done, _ in losses(folder)):
        assert time.monotonic() < end
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.05)


def finish(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=PATIENCE)
    return output


def rank_processes(parent: int) -> list[int]:
    """Return torchrun's children in the order of their ranks."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) != parent:
                continue
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:  # ended meanwhile
            continue
        ranks = [int(variable[5:]) for variable in variables if variable.startswith(b"RANK=")]
        found |= {rank: int(folder.name) for rank in ranks}
    return [found[rank] for rank in sorted(found)]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_to_the_whole_group_leaves_data_workers_alive(
    tmp_path: Path, start: Starter, number: signal.Signals
) -> None:
    """A data worker that died of it would end the loop before its last save."""
    first = start(SINGLE, tmp_path / "cut", "--workers", "1")
    wait_for_step(first, tmp_path / "cut", 50)
    os.killpg(first.pid, number)
    output = finish(first)
    assert first.returncode == 0, output
    last = losses(tmp_path / "cut")[-1][0]
    assert f"stops after step {last}: {number.name}" in output
    assert (tmp_path / "cut" / "uploaded" / f"step-{last:012d}" / "manifest.json").is_file()


@pytest.mark.slow
def test_ranks_stop_at_the_same_step_and_go_on_bit_by_bit(tmp_path: Path, start: Starter) -> None:
    """First one rank alone gets the signal, then torchrun and all ranks do."""
    cut, whole = tmp_path / "cut", tmp_path / "whole"
    first = start(TWO_RANKS, cut)
    wait_for_step(first, cut, 50)
    os.kill(rank_processes(first.pid)[1], signal.SIGTERM)  # rank 1, which does not write
    output = finish(first)
    assert first.returncode == 0, output
    stopped = losses(cut, 0)[-1][0]
    assert losses(cut, 1)[-1][0] == stopped
    assert f"stops after step {stopped}: another rank" in output
    assert (cut / "uploaded" / f"step-{stopped:012d}" / "manifest.json").is_file()

    second = start(TWO_RANKS, cut)
    wait_for_step(second, cut, stopped + 30)
    os.killpg(second.pid, signal.SIGTERM)  # torchrun, and both ranks once more
    output = finish(second)
    assert output.count(f"goes on from step {stopped}") == 2, output
    last = losses(cut, 0)[-1][0]
    assert losses(cut, 1)[-1][0] == last
    assert (cut / "checkpoints" / f"step-{last:012d}" / "manifest.json").is_file()

    third = start(TWO_RANKS, whole)
    wait_for_step(third, whole, last)
    os.killpg(third.pid, signal.SIGTERM)
    finish(third)
    for rank in range(2):
        assert losses(cut, rank) == losses(whole, rank)[:last]
    assert losses(cut, 0) != losses(cut, 1)  # each rank has data and dropout of its own
