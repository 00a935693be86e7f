"""Processor and disk: the real ones of this machine, and made-up readings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from preflight_cpu import load_cores, stolen_percent
from preflight_disk import filesystem, measure_disk

STAT = "cpu  {user} 0 100 {idle} 0 0 0 {steal} 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\nintr 1\n"


def test_stolen_time_is_a_share_of_all_time() -> None:
    before = STAT.format(user=1000, idle=5000, steal=10)
    after = STAT.format(user=1150, idle=5040, steal=20)
    assert stolen_percent(before, after) == pytest.approx(100 * 10 / 200)


@pytest.mark.parametrize("stat", ["", "cpu 1 2 3 4\n", "intr 5\n"])
def test_a_kernel_that_does_not_count_it_gives_none(stat: str) -> None:
    assert stolen_percent(stat, stat) is None


def test_no_time_passed_gives_none() -> None:
    stat = STAT.format(user=1000, idle=5000, steal=10)
    assert stolen_percent(stat, stat) is None


def test_busy_threads_obtain_cores() -> None:
    load = load_cores(1, 0.2)
    assert load.threads == 1
    assert 0.01 < load.cores < 1.5  # one thread; others may hold the machine's cores meanwhile
    assert load.stolen_percent is None or 0 <= load.stolen_percent <= 100


def test_a_disk_is_measured_and_left_clean(tmp_path: Path) -> None:
    speed = measure_disk(tmp_path, size_bytes=16 * 2**20, limit_seconds=30)
    assert speed.size_bytes == 16 * 2**20
    assert speed.write_seconds > 0
    assert speed.read_seconds > 0
    assert list(tmp_path.iterdir()) == []


def test_writing_ends_at_the_limit(tmp_path: Path) -> None:
    speed = measure_disk(tmp_path, size_bytes=2**33, limit_seconds=0.05)
    assert 8 * 2**20 <= speed.size_bytes < 2**33


def test_memory_has_no_reading_past_the_cache_or_says_so() -> None:
    shm = Path("/dev/shm")
    if not os.access(shm, os.W_OK):
        pytest.skip("no writable /dev/shm here")
    assert filesystem(shm) == "tmpfs"
    assert measure_disk(shm, size_bytes=8 * 2**20, limit_seconds=5).size_bytes == 8 * 2**20


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        measure_disk(tmp_path / "missing", size_bytes=8 * 2**20, limit_seconds=5)


def test_the_innermost_and_latest_mount_counts(tmp_path: Path) -> None:
    inner = tmp_path / "a folder"
    inner.mkdir()
    point = str(inner).replace(" ", "\\040")
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
        f"30 22 0:40 / {point} rw - tmpfs tmpfs rw\n"
        f"31 30 0:41 / {point} rw master:2 - xfs /dev/vdb rw\n"
        "32 22 0:42 / /elsewhere rw - nfs4 server:/x rw\n"
    )
    assert filesystem(inner, mounts) == "xfs"
    assert filesystem(tmp_path, mounts) == "ext4"
    assert filesystem(inner, tmp_path / "missing") is None
