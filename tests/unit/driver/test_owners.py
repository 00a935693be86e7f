"""Telling a living driver from a dead one."""

from __future__ import annotations

import subprocess
import sys

from rentbench.driver.owners import RUN_LABEL, Owner, owner_labels, owner_of

OWNER = "rentbench.owner"


def test_this_process_lives() -> None:
    labels = owner_labels("the-run")
    assert labels[RUN_LABEL] == "the-run"
    assert owner_of(labels) is Owner.ALIVE


def test_a_process_that_ended_is_dead() -> None:
    script = "from rentbench.driver.owners import owner_labels; print(owner_labels('x')['rentbench.owner'])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert owner_of({OWNER: done.stdout.strip()}) is Owner.DEAD


def test_a_number_that_was_used_again_is_dead() -> None:
    world, pid, started = owner_labels("x")[OWNER].split("/")
    assert owner_of({OWNER: f"{world}/{pid}/{int(started) - 1}"}) is Owner.DEAD


def test_another_boot_or_machine_cannot_be_judged() -> None:
    world, rest = owner_labels("x")[OWNER].split("/", 1)
    boot, namespace = world.split(":")
    assert owner_of({OWNER: f"{boot}:1/{rest}"}) is Owner.ELSEWHERE
    assert owner_of({OWNER: f"another:{namespace}/{rest}"}) is Owner.ELSEWHERE
    assert owner_of({}) is Owner.ELSEWHERE


def test_a_mangled_label_is_never_alive() -> None:
    world = owner_labels("x")[OWNER].partition("/")[0]
    for rest in ("", "1", "1/", "x/1", "-1/5", "1/2/3"):
        assert owner_of({OWNER: f"{world}/{rest}"}) is Owner.DEAD
