"""Where a case keeps its checkpoints: a local folder, and a destination that is a folder or an S3 API."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import urllib.parse
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkpointer import UploadError
from interruption_model import SIZES

from rentbench.core.errors import ErrorKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rentbench.harness.context import Context

__all__ = ["checkpoint_places", "s3_arguments"]

# What botocore takes; services differ in more than that.
_BUCKET = re.compile(r"[a-zA-Z0-9._-]{1,255}|arn:\S+")
_COPIES = 3  # two that stay, and one that is being written


@contextmanager
def checkpoint_places(context: Context, size: str) -> Iterator[dict[str, Any]]:
    """Make the places of one case and yield them as arguments of a plan; afterwards they are empty again."""
    settings = context.settings
    local = _new_folder(str(settings["local_folder"]) or str(context.scratch), context)
    s3 = s3_arguments(settings, prefix=f"rentbench-{local.name}")
    upload = None
    try:
        if s3 is None:
            upload = _new_folder(str(settings["upload_folder"]) or str(context.scratch), context)
        _require_space([local] if upload is None else [local, upload], size, context)
        upload_folder = None if upload is None else str(upload)
        yield {"folder": str(local / "checkpoints"), "upload_folder": upload_folder, "s3": s3}
    finally:
        for folder in (local, upload):
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
        if s3 is not None:
            _empty(s3)


def s3_arguments(settings: Mapping[str, Any], *, prefix: str) -> dict[str, Any] | None:
    """Return the arguments of `S3Destination` that the settings ask for; None where they name no bucket.

    Raises:
        ValueError: The bucket's name cannot be one, or the endpoint is no address, or holds credentials,
            which belong into the environment.
    """
    bucket = str(settings["s3_bucket"])
    if not bucket:
        return None
    if not _BUCKET.fullmatch(bucket):
        msg = "s3_bucket is no name of a bucket: letters, digits, dots, hyphens, underscores (or an ARN)"
        raise ValueError(msg)
    endpoint = str(settings["s3_endpoint"]) or None
    if endpoint is not None:
        try:
            parts = urllib.parse.urlsplit(endpoint)
            parts.port  # noqa: B018  (raises ValueError where it is none)
        except ValueError:  # its text may hold a part of the address, and that a secret
            msg = "s3_endpoint is no address that can be read"
            raise ValueError(msg) from None
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            msg = "s3_endpoint is no address that begins with http:// or https://"
            raise ValueError(msg)
        if parts.username is not None or parts.password is not None or parts.query:
            msg = "s3_endpoint holds credentials; give them as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            raise ValueError(msg)
    region = str(settings["s3_region"]) or None
    return {
        "bucket": bucket,
        "prefix": prefix,
        "endpoint_url": endpoint,
        "region": region,
    }


def _new_folder(parent: str, context: Context) -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix="interruption-", dir=parent))
    except OSError as error:
        kind = ErrorKind.PERMISSION_DENIED if isinstance(error, PermissionError) else ErrorKind.USAGE
        context.fail(kind, f"there is no place for checkpoints: {error}", "choose another folder")


def _require_space(folders: list[Path], size: str, context: Context) -> None:
    """Refuse a disk that would run full, before time is spent; folders of one file system share its space."""
    for folder in folders:
        beside = [other for other in folders if os.stat(other).st_dev == os.stat(folder).st_dev]  # noqa: PTH116
        needed = _COPIES * SIZES[size].checkpoint_bytes * len(beside)
        free = shutil.disk_usage(folder).free
        if free < needed:
            context.fail(
                ErrorKind.DISK_FULL,
                f"checkpoints of {size} need {needed / 1e6:,.1f} MB, {free / 1e6:,.1f} MB are free",
                "name a larger disk: --set local_folder=… and --set upload_folder=…",
            )


def _empty(s3: dict[str, Any]) -> None:
    """Remove what a case uploaded; what cannot be removed does not spoil its figures."""
    from checkpointer.s3 import S3Destination

    destination = S3Destination(**s3, give_up_seconds=10.0)
    with suppress(UploadError):
        for name in destination.names():
            destination.delete(name)
