"""Local checkpoints: complete or not there, checked before they are read, and the previous one kept."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("torch")

import torch
from checkpointer.files import MANIFEST, STATE, LocalFolder, TornError

from support.suites import SUITES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def state(value: float = 1.0, elements: int = 1000) -> dict[str, object]:
    return {"weights": torch.full((elements,), value), "step": 3, "nested": [1, "text", None]}


@pytest.fixture
def folder(tmp_path: Path) -> LocalFolder:
    made = LocalFolder(tmp_path / "checkpoints")
    made.prepare()
    return made


def test_what_was_written_is_read(folder: LocalFolder) -> None:
    saved = folder.write(3, state(2.0))
    found = folder.open(3)
    assert found == saved
    assert found.manifest.size_bytes == found.state.stat().st_size
    content = torch.load(found.state, weights_only=True)
    assert torch.equal(content["weights"], torch.full((1000,), 2.0))
    assert content["nested"] == [1, "text", None]


def test_nothing_temporary_stays(folder: LocalFolder) -> None:
    folder.write(3, state())
    assert sorted(path.name for path in folder.folder.iterdir()) == ["step-000000000003"]
    assert sorted(path.name for path in folder.open(3).folder.iterdir()) == [MANIFEST, STATE]


def cut(path: Path) -> None:
    os.truncate(path / STATE, (path / STATE).stat().st_size - 1)


def flip(path: Path) -> None:
    raw = bytearray((path / STATE).read_bytes())
    raw[len(raw) // 2] ^= 1
    (path / STATE).write_bytes(raw)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut, "bytes instead of"),
        (flip, "another SHA-256"),
        (lambda path: (path / STATE).unlink(), "cannot be read"),
        (lambda path: (path / MANIFEST).unlink(), "cannot be read"),
        (lambda path: (path / MANIFEST).write_text("{"), "manifest cannot be read"),
        (lambda path: (path / MANIFEST).write_text('{"step": 3}'), "manifest cannot be read"),
    ],
)
def test_a_torn_checkpoint_is_never_opened(
    folder: LocalFolder, damage: Callable[[Path], None], message: str
) -> None:
    damage(folder.write(3, state()).folder)
    with pytest.raises(TornError, match=message):
        folder.open(3)


def test_a_format_of_the_future_is_not_guessed_at(folder: LocalFolder) -> None:
    path = folder.write(3, state()).folder / MANIFEST
    path.write_text(path.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(TornError, match="its format is 2"):
        folder.open(3)


def test_a_checkpoint_takes_the_place_of_a_torn_one(folder: LocalFolder) -> None:
    flip(folder.write(3, state()).folder)
    folder.write(3, state(5.0))
    assert folder.open(3).step == 3
    assert folder.steps() == [3]


def test_the_newest_and_the_previous_one_stay(folder: LocalFolder) -> None:
    for step in (1, 2, 3, 4):
        folder.write(step, state())
        folder.prune(step)
    assert folder.steps() == [4, 3]
    with pytest.raises(ValueError, match="at least 2"):
        LocalFolder(folder.folder, keep=1)


def test_what_is_being_uploaded_stays(folder: LocalFolder) -> None:
    for step in (1, 2, 3, 4):
        folder.write(step, state())
    folder.prune(4, busy=frozenset({1}))
    assert folder.steps() == [4, 3, 1]


def test_later_steps_of_another_machine_are_not_pruned(folder: LocalFolder) -> None:
    for step in (1, 2, 3, 9):
        folder.write(step, state())
    folder.prune(3)
    assert folder.steps() == [9, 3, 2]


def test_what_a_killed_process_left_is_removed(folder: LocalFolder) -> None:
    left = folder.folder / ".partial-000000000007"
    left.mkdir()
    (left / STATE).write_bytes(b"half")
    folder.prepare()
    assert list(folder.folder.iterdir()) == []


def test_a_disk_that_is_full_leaves_what_was_there(folder: LocalFolder) -> None:
    folder.write(1, state())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            folder.write(2, state(elements=1_000_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert folder.steps() == [1]
    assert sorted(path.name for path in folder.folder.iterdir()) == ["step-000000000001"]


KILLED = """
import os, sys
sys.path.insert(0, sys.argv[1])
import torch
from pathlib import Path
from checkpointer import files

def die(descriptor):
    os.kill(os.getpid(), 9)

folder = files.LocalFolder(Path(sys.argv[2]))
folder.prepare()
folder.write(1, {"weights": torch.zeros(1000)})
setattr(os, sys.argv[3], die)
folder.write(2, {"weights": torch.zeros(1000)})
"""


def test_a_process_killed_between_write_and_rename_leaves_the_previous_one(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", KILLED, str(SUITES / "interruption"), str(tmp_path), "fsync"]
    assert subprocess.run(arguments, check=False).returncode == -9
    folder = LocalFolder(tmp_path)
    assert folder.steps() == [1]
    assert folder.open(1).step == 1
