"""The checkpointer around a loop: resume bit by bit, the last save, the destination, torn checkpoints."""

from __future__ import annotations

import logging
import os
import random
import shutil
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")

import numpy as np
import torch
from checkpointer import (
    Checkpointer,
    FolderDestination,
    PermanentError,
    Restored,
    RestoreError,
    ResumableBatches,
    Save,
    StopFlag,
    TrainingState,
    Upload,
    UploadError,
)

from support.tiny_job import Numbers, TinyJob, uninterrupted

if TYPE_CHECKING:
    from pathlib import Path

STEPS = 30  # five epochs of six batches


def train(job: TinyJob, checkpoints: Checkpointer, *, up_to: int) -> dict[int, str]:
    """Go on from where the checkpoints are; return the losses of the steps done."""
    losses, step = {}, checkpoints.restore()
    while step < up_to:
        step += 1
        losses[step] = job.step()
        if checkpoints.after_step(step):
            break
    return losses


@pytest.fixture(scope="module")
def reference() -> list[str]:
    return uninterrupted(STEPS)


@pytest.mark.parametrize(("stopped", "workers"), [(1, 0), (5, 0), (6, 0), (7, 0), (12, 0), (5, 1)])
def test_losses_go_on_bit_by_bit(tmp_path: Path, reference: list[str], stopped: int, workers: int) -> None:
    first = TinyJob(workers=workers)
    with first.checkpoints(tmp_path) as checkpoints:
        losses = train(first, checkpoints, up_to=stopped)
        assert checkpoints.finish(stopped)
    second = TinyJob(workers=workers)
    for generator in (torch.manual_seed, random.seed, np.random.seed):
        generator(99)  # all of them are put back
    torch.nn.init.zeros_(second.model[0].weight)
    with second.checkpoints(tmp_path) as checkpoints:
        losses |= train(second, checkpoints, up_to=STEPS)
    assert [losses[step] for step in range(1, STEPS + 1)] == reference


def test_a_signal_ends_the_loop_with_a_save(tmp_path: Path, reference: list[str]) -> None:
    job = TinyJob()
    with job.checkpoints(tmp_path / "local", destination=FolderDestination(tmp_path / "up")) as checkpoints:
        for step in range(1, 5):
            assert job.step() == reference[step - 1]
            if step == 4:
                os.kill(os.getpid(), signal.SIGTERM)
            assert checkpoints.after_step(step) == (step == 4)
        assert checkpoints.last_saved_step == checkpoints.last_uploaded_step == 4
    assert (tmp_path / "up" / "step-000000000004" / "manifest.json").is_file()


def test_steps_and_seconds_make_a_checkpoint_due(tmp_path: Path) -> None:
    job, told = TinyJob(), []
    with job.checkpoints(tmp_path / "a", every_steps=3, listener=told.append) as checkpoints:
        train(job, checkpoints, up_to=10)
    assert [event.step for event in told if isinstance(event, Save)] == [3, 6, 9]
    job, told = TinyJob(), []
    with job.checkpoints(tmp_path / "b", every_seconds=0.0, listener=told.append) as checkpoints:
        train(job, checkpoints, up_to=2)
    assert [event.step for event in told if isinstance(event, Save)] == [1, 2]
    job, told = TinyJob(), []
    with job.checkpoints(tmp_path / "c", every_seconds=3600.0, listener=told.append) as checkpoints:
        train(job, checkpoints, up_to=5)
    assert told == []


def test_what_happens_is_told_with_its_times(tmp_path: Path) -> None:
    told: list[Any] = []
    for _ in range(2):
        job = TinyJob()
        where = FolderDestination(tmp_path / "up")
        with job.checkpoints(tmp_path / "local", destination=where, listener=told.append) as checkpoints:
            step = checkpoints.restore() + 1
            job.step()
            assert checkpoints.finish(step)
    while sum(isinstance(event, Upload) for event in told) < 2:
        time.sleep(0.005)
    order = sorted(told, key=lambda event: event.begin)
    assert [(type(event), event.step) for event in order] == [
        (Save, 1),
        (Upload, 1),
        (Restored, 1),
        (Save, 2),
        (Upload, 2),
    ]
    assert all(event.begin < event.end for event in order)


@pytest.mark.parametrize(("left", "saved"), [(2.9, 2), (3.5, 4)])
def test_no_save_is_begun_with_less_than_three_seconds(
    tmp_path: Path, left: float, saved: int, caplog: pytest.LogCaptureFixture
) -> None:
    job = TinyJob()
    with job.checkpoints(tmp_path, every_steps=2) as checkpoints:
        for step in range(1, 5):
            job.step()
            if step == 4:
                checkpoints.stop.set("notice", seconds=left)
            if checkpoints.after_step(step):
                break
        assert step == 4
        assert checkpoints.last_saved_step == saved
    assert ("no save is begun with 2." in caplog.text) == (saved == 2)


def test_a_step_that_is_saved_is_not_saved_twice(tmp_path: Path) -> None:
    job, told = TinyJob(), []
    with job.checkpoints(tmp_path, every_steps=2, listener=told.append) as checkpoints:
        train(job, checkpoints, up_to=2)
        checkpoints.stop.set("SIGTERM")
        assert checkpoints.after_step(2)
        assert checkpoints.finish(2)
    assert [event.step for event in told] == [2]


class Hanging:
    """A network that never answers, never lets go, and comes back for nobody."""

    def put(self, path: Path, name: str, cancelled: threading.Event) -> None:
        del path, name, cancelled
        threading.Event().wait(60)

    def names(self) -> list[str]:
        return []


def test_the_loop_ends_in_time_whatever_the_network_does(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = TinyJob()
    stop = StopFlag(grace_seconds=4.0)
    options = {"destination": Hanging(), "stop": stop, "every_steps": 1, "exit_seconds": 3.0}
    with job.checkpoints(tmp_path, **options) as checkpoints:
        begin = time.monotonic()
        for step in range(1, 4):
            job.step()
            if step == 3:
                assert time.monotonic() - begin < 2  # the upload hangs, the loop does not
                begin = time.monotonic()
                os.kill(os.getpid(), signal.SIGTERM)
            if checkpoints.after_step(step):
                break
        assert 0.5 < time.monotonic() - begin < 3
        assert checkpoints.last_saved_step == 3
    assert "step 3 is not uploaded in time; its local copy stays" in caplog.text
    again = TinyJob()
    with again.checkpoints(tmp_path) as checkpoints:
        assert checkpoints.restore() == 3


def test_another_machine_goes_on_from_the_destination(tmp_path: Path, reference: list[str]) -> None:
    job = TinyJob()
    where = FolderDestination(tmp_path / "up")
    with job.checkpoints(tmp_path / "here", destination=where) as checkpoints:
        train(job, checkpoints, up_to=7)
        assert checkpoints.finish(7)
    job = TinyJob()
    with job.checkpoints(tmp_path / "there", destination=where) as checkpoints:
        losses = train(job, checkpoints, up_to=STEPS)
    assert list(losses.values()) == reference[7:]


def test_the_newer_one_counts_wherever_it_is(tmp_path: Path) -> None:
    where = FolderDestination(tmp_path / "up")
    for folder, steps in (("here", 3), ("there", 5)):
        job = TinyJob()
        with job.checkpoints(tmp_path / folder, destination=where) as checkpoints:
            train(job, checkpoints, up_to=steps)
            checkpoints.finish(steps)
    with TinyJob().checkpoints(tmp_path / "here", destination=where) as checkpoints:
        assert checkpoints.restore() == 5
    with TinyJob().checkpoints(tmp_path / "there") as checkpoints:
        assert checkpoints.restore() == 5


def saved_steps(folder: Path, *steps: int, destination: Any = None) -> None:
    job = TinyJob()
    with job.checkpoints(folder, destination=destination) as checkpoints:
        for step in range(1, max(steps) + 1):
            job.step()
            if step in steps:
                assert checkpoints.save(step)
        if destination is not None:
            assert checkpoints.finish(max(steps))


def damage(folder: Path, step: int) -> None:
    path = folder / f"step-{step:012d}" / "state.pt"
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 3] ^= 0x40
    path.write_bytes(raw)


def test_a_torn_checkpoint_is_passed_over_and_told(
    tmp_path: Path, reference: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    saved_steps(tmp_path, 4, 8)
    damage(tmp_path, 8)
    job = TinyJob()
    with job.checkpoints(tmp_path, every_steps=8) as checkpoints:
        losses = train(job, checkpoints, up_to=STEPS)
    assert list(losses.values()) == reference[4:]
    assert "the local checkpoint of step 8 is torn and not used: state.pt has another SHA-256" in caplog.text
    with TinyJob().checkpoints(tmp_path) as checkpoints:
        assert checkpoints.restore() == 24


def test_the_uploaded_copy_takes_the_place_of_a_torn_one(tmp_path: Path) -> None:
    saved_steps(tmp_path / "local", 4, 8, destination=FolderDestination(tmp_path / "up"))
    damage(tmp_path / "local", 8)
    for where in (FolderDestination(tmp_path / "up"), None):
        with TinyJob().checkpoints(tmp_path / "local", destination=where) as checkpoints:
            assert checkpoints.restore() == 8


def test_a_torn_upload_is_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    where = FolderDestination(tmp_path / "up")
    for steps in ((4,), (8,)):
        shutil.rmtree(tmp_path / "local", ignore_errors=True)
        saved_steps(tmp_path / "local", *steps, destination=where)
    damage(tmp_path / "up", 8)
    with TinyJob().checkpoints(tmp_path / "new", destination=where) as checkpoints:
        assert checkpoints.restore() == 4
    assert "the uploaded checkpoint of step 8 is not used" in caplog.text


def test_a_job_never_begins_anew_where_all_is_torn(tmp_path: Path) -> None:
    saved_steps(tmp_path, 4, 8)
    damage(tmp_path, 4)
    damage(tmp_path, 8)
    for _ in range(2):  # the second time, too
        with (
            TinyJob().checkpoints(tmp_path) as checkpoints,
            pytest.raises(RestoreError, match=r"none of the checkpoints of steps \[4, 8\] is intact"),
        ):
            checkpoints.restore()


class Unreachable(Hanging):
    def names(self) -> list[str]:
        raise UploadError("no route")  # noqa: EM101


def test_a_job_never_begins_anew_where_the_destination_cannot_be_asked(tmp_path: Path) -> None:
    with (
        TinyJob().checkpoints(tmp_path, destination=Unreachable()) as checkpoints,
        pytest.raises(RestoreError, match=r"there is no checkpoint here, and .* cannot be asked: no route"),
    ):
        checkpoints.restore()
    saved_steps(tmp_path, 4)
    with TinyJob().checkpoints(tmp_path, destination=Unreachable()) as checkpoints:
        assert checkpoints.restore() == 4


class Refusing(Hanging):
    def put(self, path: Path, name: str, cancelled: threading.Event) -> None:
        del path, cancelled
        raise PermanentError(f"cannot put {name}: AccessDenied")  # noqa: EM102


def test_an_upload_that_fails_does_not_end_training(tmp_path: Path) -> None:
    job = TinyJob()
    with job.checkpoints(tmp_path, destination=Refusing(), every_steps=1) as checkpoints:
        train(job, checkpoints, up_to=4)
        assert not checkpoints.finish(4)
        assert "AccessDenied" in (checkpoints.upload_error or "")
        assert checkpoints.last_saved_step == 4


def test_a_save_that_fails_does_not_end_training(tmp_path: Path) -> None:
    job = TinyJob()
    with job.checkpoints(tmp_path / "local", every_steps=1) as checkpoints:
        job.step()
        assert checkpoints.save(1)
        (tmp_path / "local").rename(tmp_path / "away")
        (tmp_path / "local").write_text("in the way")
        job.step()
        assert not checkpoints.save(2)
        assert "local" in (checkpoints.save_error or "")
        assert checkpoints.last_saved_step == 1
        (tmp_path / "local").unlink()
        job.step()
        assert checkpoints.save(3)
        assert checkpoints.save_error is None


def test_an_error_of_the_loop_waits_for_the_upload_that_runs(tmp_path: Path) -> None:
    begun, release = threading.Event(), threading.Event()

    class Slow(FolderDestination):
        def put(self, path: Path, name: str, cancelled: threading.Event) -> None:
            begun.set()
            release.wait(10)
            super().put(path, name, cancelled)

    def fail() -> None:
        job = TinyJob()
        with job.checkpoints(tmp_path / "local", destination=Slow(tmp_path / "up")) as checkpoints:
            job.step()
            checkpoints.save(1)
            begun.wait(10)
            threading.Timer(0.2, release.set).start()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (tmp_path / "up" / "step-000000000001" / "manifest.json").is_file()


def test_another_job_s_checkpoint_is_refused(tmp_path: Path) -> None:
    saved_steps(tmp_path, 4)
    job = TinyJob()
    state = TrainingState(job.model, data=job.batches, optimizer=job.optimizer)
    with (
        Checkpointer(tmp_path, state) as checkpoints,
        pytest.raises(RestoreError, match="this job has"),
    ):
        checkpoints.restore()
    job = TinyJob()
    job.batches._batch_size = 4
    with (
        job.checkpoints(tmp_path) as checkpoints,
        pytest.raises(RestoreError, match="batch_size is 4 instead of 3"),
    ):
        checkpoints.restore()


def test_a_compiled_model_s_checkpoint_is_that_of_the_bare_one(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 2)
    compiled = torch.compile(model)
    assert list(TrainingState(compiled).shared()["model"]) == list(model.state_dict())
    with Checkpointer(tmp_path, TrainingState(compiled)) as checkpoints:
        assert checkpoints.save(1)
    other = torch.nn.Linear(2, 2)
    with Checkpointer(tmp_path, TrainingState(other)) as checkpoints:
        assert checkpoints.restore() == 1
    assert torch.equal(other.weight, model.weight)


def test_batches_are_each_rank_s_share_of_a_permutation() -> None:
    numbers = Numbers()
    seen: list[float] = []
    for rank in range(2):
        batches = ResumableBatches(numbers, batch_size=5, seed=3, rank=rank, ranks=2)
        source = iter(batches)
        seen += [float(row[0]) for _ in range(batches.batches_per_epoch) for row in next(source)]
        assert batches.state_dict()["epoch"] == 0
        next(source)
        assert (batches.state_dict()["epoch"], batches.state_dict()["batch"]) == (1, 1)
    assert sorted(seen) == sorted(float(numbers[index][0]) for index in range(len(numbers)))
    with pytest.raises(ValueError, match="do not fill a batch"):
        ResumableBatches(numbers, batch_size=11, seed=3, ranks=2)


def test_batches_draw_nothing_from_the_global_generator() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    source = iter(ResumableBatches(Numbers(), batch_size=3, seed=3))
    for _ in range(14):
        next(source)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_log_says_where_it_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    saved_steps(tmp_path, 4)
    with (
        caplog.at_level(logging.INFO, "checkpointer"),
        TinyJob().checkpoints(tmp_path) as checkpoints,
    ):
        checkpoints.restore()
    assert "goes on from step 4" in caplog.text
