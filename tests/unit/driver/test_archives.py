"""Unpacking what a container left: plain files only, within limits, never outside the folder."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import tarfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rentbench.core.errors import ErrorKind
from rentbench.driver.archives import Limits, unpack
from rentbench.driver.failures import RunFailedError

if TYPE_CHECKING:
    from pathlib import Path


def member(name: str, content: bytes = b"", **attributes: object) -> tuple[tarfile.TarInfo, bytes]:
    """Return a member of an archive."""
    information = tarfile.TarInfo(name)
    information.size = len(content)
    for key, value in attributes.items():
        setattr(information, key, value)
    return information, content


def archive(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """Return a tar stream."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for information, content in members:
            tar.addfile(information, io.BytesIO(content))
    return buffer.getvalue()


TOP = member("results", type=tarfile.DIRTYPE)


def test_files_are_made_anew_for_the_caller(tmp_path: Path) -> None:
    raw = archive(
        TOP,
        member("results/gemm", type=tarfile.DIRTYPE),
        member("results/gemm/cpu/measurement.json", b"{}", mode=0o4777, uid=65532, mtime=1),
    )
    assert unpack([raw], tmp_path) == 1
    path = tmp_path / "gemm/cpu/measurement.json"
    assert path.read_bytes() == b"{}"
    state = path.stat()
    assert (state.st_uid, stat.S_IMODE(state.st_mode) & 0o7111) == (os.getuid(), 0)
    assert state.st_mtime > 1


@pytest.mark.parametrize("size", [1, 511, 512, 513, 100_000])
def test_chunks_may_be_cut_anywhere(tmp_path: Path, size: int) -> None:
    content = os.urandom(3000)
    raw = archive(TOP, member("results/a/file", content))
    assert unpack([raw[at : at + size] for at in range(0, len(raw), size)], tmp_path) == 1
    assert (tmp_path / "a/file").read_bytes() == content


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (member("results/x", type=tarfile.SYMTYPE, linkname="/etc/passwd"), "a link"),
        (member("results/x", type=tarfile.LNKTYPE, linkname="results/y"), "a link"),
        (member("results/x", type=tarfile.CHRTYPE), "neither file nor folder"),
        (member("results/x", type=tarfile.BLKTYPE), "neither file nor folder"),
        (member("results/x", type=tarfile.FIFOTYPE), "neither file nor folder"),
        (member("/etc/cron.d/x", b"x"), "the path"),
        (member("results/../../x", b"x"), "the path"),
        (member("results/..", type=tarfile.DIRTYPE), "the path"),
        (member("results/./x", b"x"), "the path"),
        (member("results//x", b"x"), "the path"),
        (member("results/a\nb", b"x"), "the path"),
        (member("results/a\x1b[31m", b"x"), "the path"),
        (member("results/a\\b", b"x"), "the path"),
        (member("results/" + "d/" * 20 + "x", b"x"), "the path"),
        (member("results/" + "n" * 250, b"x"), "the path"),
        (member("results", b"x"), "in place of its top folder"),
        (member("results/y/z", b"x"), "two things of one name"),
    ],
)
def test_anything_but_plain_files_below_is_refused(
    tmp_path: Path, bad: tuple[tarfile.TarInfo, bytes], words: str
) -> None:
    target = tmp_path / "target"
    target.mkdir()
    raw = archive(member("results/y", b"there"), bad, member("results/late", b"late"))
    with pytest.raises(RunFailedError, match=words) as caught:
        unpack([raw], target)
    assert caught.value.failure.kind is ErrorKind.INVALID_RESULT
    assert {path.name for path in tmp_path.iterdir()} == {"target"}
    assert not (target / "late").exists()


def test_a_second_file_of_one_name_is_refused(tmp_path: Path) -> None:
    raw = archive(member("results/x", b"first"), member("results/x", b"second"))
    with pytest.raises(RunFailedError, match="two things of one name"):
        unpack([raw], tmp_path)
    assert (tmp_path / "x").read_bytes() == b"first"


def test_a_sparse_file_is_refused(tmp_path: Path) -> None:
    sparse = member(
        "results/x", b"x", pax_headers={"GNU.sparse.map": "0,1", "GNU.sparse.size": "1000000000000"}
    )
    with pytest.raises(RunFailedError):
        unpack([archive(sparse)], tmp_path)
    assert not list(tmp_path.iterdir())


def test_limits_hold(tmp_path: Path) -> None:
    files = [member(f"results/{number}", b"12345") for number in range(4)]
    assert unpack([archive(*files)], tmp_path, limits=Limits(files=4, bytes=20)) == 4
    for name, limits, words in (
        ("count", Limits(files=3, bytes=20), "more than 3 files"),
        ("bytes", Limits(files=4, bytes=19), "more bytes"),
    ):
        target = tmp_path / name
        target.mkdir()
        with pytest.raises(RunFailedError, match=words):
            unpack([archive(*files)], target, limits=limits)


def test_folders_count_as_well(tmp_path: Path) -> None:
    folders = [member(f"results/{number}", type=tarfile.DIRTYPE) for number in range(5)]
    with pytest.raises(RunFailedError, match="more than 3 files"):
        unpack([archive(*folders)], tmp_path, limits=Limits(files=3))


@pytest.mark.parametrize("keep", [100, 700, 1500])
def test_a_stream_that_breaks_off_is_refused(tmp_path: Path, keep: int) -> None:
    raw = archive(member("results/x", b"x" * 2000))
    with pytest.raises(RunFailedError, match="broken archive"):
        unpack([raw[:keep]], tmp_path)


@settings(deadline=None)  # the machine may be busy
@given(raw=st.binary(max_size=4096))
def test_noise_is_refused_or_empty(raw: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("noise")
    with contextlib.suppress(RunFailedError):
        assert unpack([raw], folder) == 0
    assert not list(folder.iterdir())
