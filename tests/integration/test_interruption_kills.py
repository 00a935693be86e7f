"""A hundred real kills at random moments: training goes on bit by bit, and nothing torn is ever loaded."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")

from support.suites import SUITES
from support.trainer_server import TrainerServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KILLS = 50  # of each signal
SEED = 20261201
PATIENCE = 60


@pytest.fixture(scope="module")
def server() -> Iterator[TrainerServer]:
    made = TrainerServer()
    yield made
    made.close()


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The suite's modules, importable by their plain names."""
    monkeypatch.syspath_prepend(str(SUITES / "interruption"))
    import checkpointer.files
    import interruption_trainer

    return interruption_trainer, checkpointer.files


def events_of(path: Path) -> list[dict[str, Any]]:
    """Return what a trainer told; a killed one may leave half a line."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def of(events: list[dict[str, Any]], name: str) -> list[int]:
    return [event["step"] for event in events if event["event"] == name]


def wait_for_steps(path: Path, pid: int) -> None:
    end = time.monotonic() + PATIENCE
    while not of(events_of(path), "step"):
        assert time.monotonic() < end
        os.kill(pid, 0)
        time.sleep(0.002)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_every_kill_is_survived_bit_by_bit(
    server: TrainerServer, library: Any, tmp_path: Path, number: signal.Signals
) -> None:
    trainer, files = library
    moments = random.Random(SEED + number)
    plan = trainer.Plan(
        size="tiny",
        device="cpu",
        seed=7,
        data_workers=0,
        last_step=10**9,
        folder=str(tmp_path / "local"),
        upload_folder=str(tmp_path / "uploaded"),
        interval=4,
    )
    losses: dict[int, set[str]] = {}
    durable = told = 0
    early = inside_save = 0
    for kill in range(KILLS):
        events, log = tmp_path / f"events-{kill}", tmp_path / f"log-{kill}"
        pid = server.start(plan.encode(), events, log)
        # One in ten is hit before it has begun, the others while they train, save and upload.
        if kill % 10:
            wait_for_steps(events, pid)
        moment = moments.uniform(0, 0.25)
        time.sleep(moment)
        os.kill(pid, number)
        code = server.wait(pid)
        life = events_of(events)
        steps, restored, saved = of(life, "step"), of(life, "restored"), of(life, "saved")
        print(f"{number.name} {kill}: after {moment:.4f} s, from {restored}, to {steps[-1:]}, exit {code}")

        assert "torn" not in log.read_text(), log.read_text()
        if number == signal.SIGTERM:
            assert code in {0, -number}, log.read_text()  # -15: before the handler was there
            assert code == 0 or not steps
        else:
            assert code == -number
        if restored:
            # All that was told to be saved is there; one more may have been saved and not told.
            assert durable <= restored[0] <= told
        elif steps:
            assert durable == 0
            assert steps[0] == 1
        if steps:
            assert steps == list(range((restored or [0])[0] + 1, steps[-1] + 1))
        for event in life:
            if event["event"] == "step":
                losses.setdefault(event["step"], set()).add(event["loss"])
        durable, told = max([durable, *saved]), max([told, *steps])
        early += not steps
        if code == 0:
            (ended,) = [event for event in life if event["event"] == "ended"]
            assert ended["saved"] == ended["uploaded"] == ended["step"] == steps[-1] == durable
        inside_save += (tmp_path / "local").exists() and any((tmp_path / "local").glob(".partial-*"))
        folder = files.LocalFolder(tmp_path / "local")
        assert [folder.open(step).step for step in folder.steps()] == folder.steps()
    assert early < KILLS / 2
    if number == signal.SIGKILL:
        assert inside_save > 0  # some kills did hit a save

    reference = tmp_path / "uninterrupted"
    whole = replace(plan, folder=None, upload_folder=None, last_step=told)
    assert server.wait(server.start(whole.encode(), reference, tmp_path / "log-reference")) == 0
    expected = {e["step"]: e["loss"] for e in events_of(reference) if e["event"] == "step"}
    assert set(losses) == set(expected)
    assert {step: seen for step, seen in losses.items() if seen != {expected[step]}} == {}
    print(
        f"{number.name}: {KILLS} kills, {told} steps, {early} before the first step, {inside_save} in a save"
    )
