"""The probes that need no GPU: processor, disk, network."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from preflight_cpu import load_cores
from preflight_disk import filesystem, measure_disk
from preflight_findings import Finding
from preflight_network import Download, DownloadError, download

from rentbench.core.errors import ErrorKind

if TYPE_CHECKING:
    from preflight_findings import Report

    from rentbench.harness.context import Context

__all__ = ["probe_cpu", "probe_disk", "probe_network"]

_MIB = 2**20
_RESULTS = Path("/results")  # where an image's results are mounted


def probe_cpu(context: Context, report: Report) -> None:
    """Load all usable cores; see what is obtained of them, and what is stolen."""
    settings = context.settings
    quota = context.host["cpu"]["quota_cores"]
    threads = len(os.sched_getaffinity(0))
    usable = threads if quota is None else min(threads, quota)
    with context.phase("measure"):
        load = load_cores(threads, float(settings["cpu_seconds"]))
    context.record("cpu_cores", load.cores)
    least = usable * float(settings["minimum_cores_percent"]) / 100
    report.add(
        Finding(
            name="cpu_obtained",
            passed=load.cores >= least,
            detail=f"{threads} busy threads obtained {load.cores:.2f} of {usable:g} usable cores",
            value=round(load.cores, 2),
            limit=round(least, 2),
            unit="cores",
        )
    )
    stolen, most = load.stolen_percent, float(settings["maximum_steal_percent"])
    if stolen is None:
        report.add(Finding(name="cpu_steal", passed=None, detail="the kernel does not count stolen time"))
        return
    context.record("cpu_steal", stolen)
    report.add(
        Finding(
            name="cpu_steal",
            passed=stolen <= most,
            detail=f"{stolen:.1f} % of the processor time went to other machines on the same host",
            value=round(stolen, 2),
            limit=most,
            unit="%",
        )
    )


def probe_disk(context: Context, report: Report) -> None:
    """Write and read one file on the machine's disk."""
    settings = context.settings
    folder = _disk_folder(context)
    if folder is None:
        report.skip(
            "no folder on a disk could be written; name one with disk_folder", "disk_write", "disk_read"
        )
    size_bytes = int(settings["disk_mebibytes"]) * _MIB
    status = os.statvfs(folder)
    if status.f_bavail * status.f_frsize < 2 * size_bytes:
        context.fail(
            ErrorKind.DISK_FULL,
            f"the disk probe writes {size_bytes // _MIB} MiB, and less than twice as much is free",
            "free some space, or lower disk_mebibytes",
        )
    with context.phase("measure"):
        speed = measure_disk(
            folder, size_bytes=size_bytes, limit_seconds=float(settings["disk_limit_seconds"])
        )
    write, read = (speed.size_bytes / seconds / 1e6 for seconds in (speed.write_seconds, speed.read_seconds))
    context.record("disk_write", write)
    report.minimum("disk_write", write, "minimum_disk_write", "MB/s")
    if speed.direct:
        context.record("disk_read", read)
        report.minimum("disk_read", read, "minimum_disk_read", "MB/s")
        return
    # A number that may be the page cache's is worse than none.
    detail = "the file system cannot be read past the page cache, so the disk's own speed is not known"
    report.add(Finding(name="disk_read", passed=None, detail=detail))


def _disk_folder(context: Context) -> Path | None:
    """Return the folder to write in: what the user named, or the first usual one that is on a disk.

    In a hardened container the scratch folder is a tmpfs, and only the mounted results lie on a disk.
    """
    named = str(context.settings["disk_folder"])
    for folder in [Path(named)] if named else [context.scratch, _RESULTS]:
        if os.access(folder, os.W_OK | os.X_OK) and filesystem(folder) not in {"tmpfs", "ramfs"}:
            return folder
    return None


def probe_network(context: Context, report: Report) -> None:
    """Download from the URL that the user gave."""
    settings = context.settings
    url = str(settings["network_url"])
    if not url:
        report.skip("no URL was given (network_url)", "network_download")
    got: Download | DownloadError
    with context.phase("download"):
        try:
            got = download(
                url,
                limit_bytes=int(settings["network_limit_mebibytes"]) * _MIB,
                limit_seconds=float(settings["network_limit_seconds"]),
            )
        except DownloadError as error:
            got = error
    if isinstance(got, DownloadError):
        report.add(Finding(name="network_download", passed=False, detail=str(got)))
        context.fail(ErrorKind.NETWORK, str(got), "try the URL from another machine")
    rate = got.size_bytes / got.seconds / 1e6
    context.record("network_download", rate)
    context.record("network_first_byte", got.first_byte_seconds)
    report.minimum("network_download", rate, "minimum_network_download", "MB/s")
