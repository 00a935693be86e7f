"""An S3 API as the destination of checkpoints. This module, and no other, needs boto3 and tenacity."""

from __future__ import annotations

import contextlib
import math
import os
import queue
import threading
from typing import TYPE_CHECKING, Any, TypeAlias

import boto3
import tenacity
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, IncompleteReadError
from botocore.exceptions import ConnectionError as ConnectionFailedError

from .destinations import CancelledError, PermanentError, UploadError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["S3Destination"]

# boto3 makes its classes at run time.
_Client: TypeAlias = Any
_Answer: TypeAlias = Any

_MOST_PARTS = 10_000
_TRANSIENT_CODES = frozenset(
    {"RequestTimeout", "RequestTimeoutException", "SlowDown", "Throttling", "ThrottlingException"}
    | {"TooManyRequests", "RequestLimitExceeded", "InternalError", "ServiceUnavailable", "IncompleteBody"}
)
_ABSENT_CODES = frozenset({"404", "NoSuchKey", "NotFound"})


class S3Destination:
    """Objects below a prefix of a bucket. Credentials come from the environment, as boto3 finds them.

    Each request is tried again with exponential back-off and full jitter for as long as that can help: server
    errors, throttling, time-outs, cut connections. What cannot pass (403, NoSuchBucket, no credentials) is
    not. A large file goes in parts, and a part that fails is sent again by itself. Each part carries a
    checksum only where the service asks for one, since many S3 look-alikes refuse the headers that newer
    boto3 sends.

    Args:
        bucket: It must exist.
        prefix: Of all names, one a job.
        endpoint_url: Of a service other than AWS.
        region: Where neither the environment nor the endpoint tells.
        part_bytes: Size of a part; raised where a file would need more than 10,000 of them.
        parallel_parts: Parts on their way at the same time; each takes `part_bytes` of memory.
        timeout_seconds: Silence on a connection after which the request is tried again.
        give_up_seconds: For how long one request is tried again.
    """

    def __init__(
        self,
        bucket: str,
        *,
        prefix: str = "",
        endpoint_url: str | None = None,
        region: str | None = None,
        part_bytes: int = 16 << 20,
        parallel_parts: int = 4,
        timeout_seconds: float = 20.0,
        give_up_seconds: float = 300.0,
    ) -> None:
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._endpoint_url = endpoint_url
        self._region = region
        self._part_bytes = part_bytes
        self._parallel_parts = parallel_parts
        self._timeout_seconds = timeout_seconds
        self._give_up_seconds = give_up_seconds
        self._made: tuple[int, Any] | None = None

    def put(self, path: Path, name: str, cancelled: threading.Event) -> None:
        """Store a file, in parts where it is large."""
        if path.stat().st_size <= self._part_bytes:
            body = path.read_bytes()
            self._call(
                lambda client: client.put_object(**self._object(name), Body=body), f"put {name}", cancelled
            )
        else:
            self._put_parts(path, name, cancelled)

    def get(self, name: str, path: Path) -> None:
        """Write an object to a path; a broken download begins anew."""

        def download(client: _Client) -> None:
            body = client.get_object(**self._object(name))["Body"]
            with path.open("wb") as file:
                for chunk in body.iter_chunks(1 << 20):
                    file.write(chunk)

        self._call(download, f"get {name}", threading.Event())

    def names(self) -> list[str]:
        """Return the names of all objects below the prefix."""

        def listed(client: _Client) -> list[str]:
            pages = client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=self._prefix)
            return [entry["Key"] for page in pages for entry in page.get("Contents", ())]

        keys: list[str] = self._call(listed, "list", threading.Event())
        return [key.removeprefix(self._prefix) for key in keys]

    def delete(self, name: str) -> None:
        """Remove an object."""
        self._call(
            lambda client: client.delete_object(**self._object(name)), f"delete {name}", threading.Event()
        )

    def __repr__(self) -> str:
        return f"bucket {self._bucket}"

    def _put_parts(self, path: Path, name: str, cancelled: threading.Event) -> None:
        size = path.stat().st_size
        part_bytes = max(self._part_bytes, math.ceil(size / _MOST_PARTS))
        target = self._object(name)
        upload = self._call(lambda client: client.create_multipart_upload(**target), f"put {name}", cancelled)
        target_of_parts = {**target, "UploadId": upload["UploadId"]}

        def send(number: int, ended: threading.Event) -> dict[str, Any]:
            with path.open("rb") as file:
                file.seek((number - 1) * part_bytes)
                body = file.read(part_bytes)
            answer = self._call(
                lambda client: client.upload_part(**target_of_parts, PartNumber=number, Body=body),
                f"put part {number} of {name}",
                ended,
            )
            return {"PartNumber": number, "ETag": answer["ETag"]}

        try:
            parts = _in_threads(send, math.ceil(size / part_bytes), self._parallel_parts, cancelled)
            self._call(
                lambda client: client.complete_multipart_upload(
                    **target_of_parts, MultipartUpload={"Parts": parts}
                ),
                f"put {name}",
                cancelled,
            )
        except BaseException:
            # Parts of an upload that never ends are paid for. Once is enough: a life-cycle rule clears the
            # rest.
            with contextlib.suppress(BotoCoreError, ClientError):
                self._client().abort_multipart_upload(**target_of_parts)
            raise

    def _object(self, name: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": f"{self._prefix}{name}"}

    def _call(self, request: Callable[[_Client], _Answer], what: str, cancelled: threading.Event) -> _Answer:
        """Make a request until it succeeds, cannot succeed, is cancelled, or the time for it is over."""

        def attempt() -> _Answer:
            if cancelled.is_set():
                raise CancelledError
            return request(self._client())

        attempts = tenacity.Retrying(
            retry=tenacity.retry_if_exception(_is_transient),
            wait=tenacity.wait_random_exponential(multiplier=0.5, max=30),
            stop=tenacity.stop_after_delay(self._give_up_seconds),
            sleep=tenacity.sleep_using_event(cancelled),
            reraise=True,
        )
        try:
            return attempts(attempt)
        except (BotoCoreError, ClientError) as error:
            if isinstance(error, ClientError) and error.response["Error"].get("Code") in _ABSENT_CODES:
                raise FileNotFoundError(what) from error
            msg = f"cannot {what}: {error}"
            raise (UploadError if _is_transient(error) else PermanentError)(msg) from error

    def _client(self) -> _Client:
        """Return this process's client. One that was made before a fork is left to the parent."""
        made = self._made
        if made is None or made[0] != os.getpid():
            client = boto3.session.Session().client(
                "s3",
                endpoint_url=self._endpoint_url,
                region_name=self._region,
                config=Config(
                    connect_timeout=min(self._timeout_seconds, 5.0),
                    read_timeout=self._timeout_seconds,
                    retries={"total_max_attempts": 1},  # ours can be cancelled
                    max_pool_connections=self._parallel_parts + 2,
                    request_checksum_calculation="when_required",
                    response_checksum_validation="when_required",
                ),
            )
            made = self._made = (os.getpid(), client)
        return made[1]


def _is_transient(error: BaseException) -> bool:
    if isinstance(error, ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return (
            status >= 500 or status in {408, 429} or error.response["Error"].get("Code") in _TRANSIENT_CODES
        )
    # Time-outs, refused and cut connections, names that do not resolve just now, and bodies that end early.
    return isinstance(error, HTTPClientError | ConnectionFailedError | IncompleteReadError)


def _in_threads(
    send: Callable[[int, threading.Event], dict[str, Any]],
    count: int,
    threads: int,
    cancelled: threading.Event,
) -> list[dict[str, Any]]:
    """Call `send` for 1 to `count` and return the results in order; the first failure ends all.

    The threads are daemons, and are not waited for once one has failed: a process whose time is over is not
    held up by a connection that hangs.
    """
    numbers: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(1, count + 1):
        numbers.put(number)
    results: dict[int, dict[str, Any]] = {}
    failures: list[BaseException] = []
    ended = threading.Event()

    def work() -> None:
        while not ended.is_set():
            try:
                number = numbers.get_nowait()
            except queue.Empty:
                return
            try:
                results[number] = send(number, ended)
            except BaseException as error:  # noqa: BLE001 (told by the thread that waits)
                failures.append(error)
                ended.set()

    workers = [
        threading.Thread(target=work, name="upload-part", daemon=True) for _ in range(min(threads, count))
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        while worker.is_alive() and not ended.is_set():
            worker.join(0.05)
            if cancelled.is_set():
                ended.set()
    if failures:
        raise failures[0]
    if ended.is_set():
        raise CancelledError
    return [results[number] for number in range(1, count + 1)]
