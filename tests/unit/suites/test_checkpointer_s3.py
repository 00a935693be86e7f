"""Uploads to an S3 API that fails in every way it can: moto's server behind a proxy that injects faults."""

from __future__ import annotations

import hashlib
import logging
import os
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("moto")

from checkpointer import PermanentError, UploadError
from checkpointer.destinations import CancelledError
from checkpointer.files import LocalFolder
from checkpointer.s3 import S3Destination
from checkpointer.uploading import Upload, Uploader

from support.faulty_s3 import BUCKET, FaultyS3, faulty_s3

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PART = 5 << 20  # the smallest that S3 allows


@pytest.fixture(scope="module")
def server() -> Iterator[FaultyS3]:
    with faulty_s3() as made:
        yield made


@pytest.fixture
def api(server: FaultyS3, monkeypatch: pytest.MonkeyPatch) -> FaultyS3:
    for name, value in {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_EC2_METADATA_DISABLED": "true",
        "no_proxy": "127.0.0.1",
    }.items():
        monkeypatch.setenv(name, value)
    server.reset()
    return server


def destination(api: FaultyS3, **options: Any) -> S3Destination:
    usual = {"prefix": "job", "endpoint_url": api.url, "region": "us-east-1", "part_bytes": PART}
    return S3Destination(**{"bucket": BUCKET, "timeout_seconds": 5.0, **usual, **options})


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small"
    path.write_bytes(b"state" * 100)
    return path


@pytest.fixture
def large(tmp_path: Path) -> Path:
    path = tmp_path / "large"
    path.write_bytes(os.urandom(3 * PART + 12345))
    return path


def never() -> threading.Event:
    return threading.Event()


def test_a_small_file_goes_in_one_piece(api: FaultyS3, small: Path, tmp_path: Path) -> None:
    where = destination(api)
    where.put(small, "step-1/state.pt", never())
    assert api.objects == {"job/step-1/state.pt": small.read_bytes()}
    assert where.names() == ["step-1/state.pt"]
    where.get("step-1/state.pt", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == small.read_bytes()
    where.delete("step-1/state.pt")
    assert where.names() == []
    with pytest.raises(FileNotFoundError):
        where.get("step-1/state.pt", tmp_path / "back")


def test_a_large_file_goes_in_parts(api: FaultyS3, large: Path, tmp_path: Path) -> None:
    where = destination(api)
    where.put(large, "state.pt", never())
    assert sum("partNumber=" in line for line in api.requests) == 4
    where.get("state.pt", tmp_path / "back")
    assert (
        hashlib.sha256((tmp_path / "back").read_bytes()).digest()
        == hashlib.sha256(large.read_bytes()).digest()
    )
    assert api.open_uploads == 0


@pytest.mark.parametrize("fault", ["error", "throttle", "cut"])
def test_what_can_pass_is_tried_again(api: FaultyS3, small: Path, fault: Any) -> None:
    api.fail(fault, containing="PUT", times=2)
    destination(api).put(small, "state.pt", never())
    assert api.objects == {"job/state.pt": small.read_bytes()}
    assert api.counts["PUT"] == 3


@pytest.mark.parametrize("fault", ["error", "cut"])
def test_a_part_that_fails_is_sent_again_by_itself(api: FaultyS3, large: Path, fault: Any) -> None:
    api.fail(fault, containing="partNumber=2", times=2)
    destination(api).put(large, "state.pt", never())
    assert api.objects == {"job/state.pt": large.read_bytes()}
    assert sum("partNumber=" in line for line in api.requests) == 4 + 2
    assert sum("?uploads" in line for line in api.requests) == 1


def test_silence_is_a_fault(api: FaultyS3, small: Path) -> None:
    api.fail("slow", containing="PUT")
    destination(api, timeout_seconds=0.3).put(small, "state.pt", never())
    assert api.counts["PUT"] == 2
    assert "job/state.pt" in api.names


def test_a_download_that_breaks_off_begins_anew(api: FaultyS3, large: Path, tmp_path: Path) -> None:
    where = destination(api)
    where.put(large, "state.pt", never())
    api.fail("cut_body", containing="GET")
    where.get("state.pt", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == large.read_bytes()


def test_access_denied_is_not_tried_again(api: FaultyS3, small: Path, large: Path) -> None:
    api.fail("denied", containing="PUT", times=9)
    with pytest.raises(PermanentError, match="AccessDenied"):
        destination(api).put(small, "state.pt", never())
    assert api.counts["PUT"] == 1
    with pytest.raises(PermanentError, match="AccessDenied"):
        destination(api, parallel_parts=1).put(large, "state.pt", never())
    assert api.counts["PUT"] == 2
    assert api.open_uploads == 0  # parts that nobody needs are not left to be paid for


def test_a_missing_bucket_is_not_tried_again(api: FaultyS3, small: Path) -> None:
    with pytest.raises(PermanentError, match="NoSuchBucket"):
        destination(api, bucket="elsewhere").put(small, "state.pt", never())
    assert api.counts["PUT"] == 1
    with pytest.raises(PermanentError, match="NoSuchBucket"):
        destination(api, bucket="elsewhere").names()


def test_missing_credentials_are_not_tried_again(
    api: FaultyS3, small: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(PermanentError, match="credentials"):
        destination(api).put(small, "state.pt", never())


def test_an_outage_ends_the_attempts_after_a_while(small: Path, api: FaultyS3) -> None:
    nobody = destination(api, endpoint_url="http://127.0.0.1:9", give_up_seconds=0.5)
    begin = time.monotonic()
    with pytest.raises(UploadError, match="cannot put") as raised:
        nobody.put(small, "state.pt", never())
    assert not isinstance(raised.value, PermanentError)
    assert time.monotonic() - begin < 5


def test_the_waits_between_attempts_grow_and_differ(api: FaultyS3, small: Path) -> None:
    waits: list[float] = []

    class Watched(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout or 0)
            return self.is_set()

    api.fail("error", times=7)
    destination(api).put(small, "state.pt", Watched())
    limits = [0.5 * 2**attempt for attempt in range(7)]
    assert len(waits) == 7
    assert all(0 <= wait <= min(limit, 30) for wait, limit in zip(waits, limits, strict=True))
    assert len(set(waits)) == 7


@pytest.mark.parametrize("which", ["small", "large"])
def test_an_upload_can_be_given_up_while_it_waits(
    api: FaultyS3, which: str, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(which)
    api.fail("error", containing="PUT", times=1000)
    cancelled = threading.Event()
    threading.Timer(0.3, cancelled.set).start()
    begin = time.monotonic()
    with pytest.raises(CancelledError):
        destination(api).put(path, "state.pt", cancelled)
    assert time.monotonic() - begin < 5
    assert api.open_uploads == 0


def test_no_client_is_carried_across_a_fork(api: FaultyS3, small: Path) -> None:
    where = destination(api)
    where.put(small, "parent", never())
    client = where._client()
    child = os.fork()
    if child == 0:
        os._exit(0 if where._client() is not client else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert where._client() is client


# The uploader on top of it


@pytest.fixture
def folder(tmp_path: Path) -> LocalFolder:
    made = LocalFolder(tmp_path / "checkpoints")
    made.prepare()
    return made


def uploader(where: S3Destination, ended: list[Upload]) -> Uploader:
    return Uploader(where, keep=2, told=ended.append)


def within(seconds: float) -> Callable[[], float]:
    end = time.monotonic() + seconds
    return lambda: end - time.monotonic()


def write(folder: LocalFolder, step: int) -> Any:
    return folder.write(step, {"step": step})


def steps_of(api: FaultyS3) -> set[int]:
    manifests = (name for name in api.names if name.endswith("manifest.json"))
    return {int(name.split("step-")[1].split("/")[0]) for name in manifests}


def test_handing_in_a_checkpoint_takes_no_time(api: FaultyS3, folder: LocalFolder) -> None:
    api.fail("slow", times=1)
    uploads = uploader(destination(api), [])
    saved = write(folder, 1)
    begin = time.monotonic()
    uploads.submit(saved)
    assert time.monotonic() - begin < 0.1
    assert uploads.busy == {1}
    api.released.set()
    assert uploads.finish(saved, seconds_left=within(20))
    assert uploads.uploaded_step == 1
    assert uploads.busy == frozenset()


def test_of_those_that_wait_the_newest_is_uploaded(api: FaultyS3, folder: LocalFolder) -> None:
    api.fail("slow", containing="step-000000000001/state", times=1)
    ended: list[Upload] = []
    uploads = uploader(destination(api), ended)
    for step in (1, 2, 3, 4):
        uploads.submit(write(folder, step))
        while not api.requests:
            time.sleep(0.005)
    api.released.set()
    while uploads.busy:
        time.sleep(0.005)
    assert [upload.step for upload in ended] == [1, 4]
    assert steps_of(api) == {1, 4}


def test_the_last_one_is_uploaded_though_an_older_one_hangs(
    api: FaultyS3, folder: LocalFolder, caplog: pytest.LogCaptureFixture
) -> None:
    api.fail("slow", containing="step-000000000001/state", times=100)
    uploads = uploader(destination(api), [])
    uploads.submit(write(folder, 1))
    while not api.requests:
        time.sleep(0.005)
    uploads.submit(write(folder, 2))
    with caplog.at_level(logging.INFO, "checkpointer"):
        begin = time.monotonic()
        assert uploads.finish(write(folder, 3), seconds_left=within(20))
    assert time.monotonic() - begin < 4  # the older one hangs for longer
    assert steps_of(api) == {3}
    assert "the upload of step 1 is given up for step 3" in caplog.text


def test_the_wait_ends_when_the_time_is_over(api: FaultyS3, folder: LocalFolder) -> None:
    api.fail("error", times=1000)
    uploads = uploader(destination(api), [])
    begin = time.monotonic()
    assert not uploads.finish(write(folder, 1), seconds_left=within(0.5))
    assert 0.4 < time.monotonic() - begin < 3
    assert folder.open(1).step == 1
    uploads.stop()
    while uploads.busy:
        time.sleep(0.005)


def test_a_permanent_error_is_told_and_the_next_checkpoint_is_tried(
    api: FaultyS3, folder: LocalFolder, caplog: pytest.LogCaptureFixture
) -> None:
    api.fail("denied", containing="PUT", times=1)
    uploads = uploader(destination(api), [])
    assert not uploads.finish(write(folder, 1), seconds_left=within(20))
    assert "AccessDenied" in (uploads.error or "")
    assert "step 1 is not uploaded, its local copy stays" in caplog.text
    assert uploads.finish(write(folder, 2), seconds_left=within(20))
    assert uploads.error is None
    assert steps_of(api) == {2}


def test_old_checkpoints_and_halves_leave_the_destination(api: FaultyS3, folder: LocalFolder) -> None:
    ended: list[Upload] = []
    where = destination(api)
    uploads = uploader(where, ended)
    where.put(write(folder, 1).state, "step-000000000001/state.pt", never())  # never got its manifest
    where.put(folder.open(1).state, "another/thing", never())
    for step in (2, 3, 4):
        assert uploads.finish(write(folder, step), seconds_left=within(20))
    end = time.monotonic() + 10
    while steps_of(api) != {3, 4} or len(api.names) != 5:
        assert time.monotonic() < end, api.names
        time.sleep(0.02)
    assert "job/another/thing" in api.names
