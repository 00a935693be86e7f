"""An S3 API that fails on demand: moto's server, and a proxy before it that knows what should go wrong."""

from __future__ import annotations

import http.client
import socket
import threading
import urllib.request
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Literal

import boto3
from moto.server import ThreadedMotoServer

if TYPE_CHECKING:
    from collections.abc import Iterator

BUCKET = "checkpoints"
Fault = Literal["error", "throttle", "slow", "cut", "cut_body", "denied"]

_ANSWERS = {
    "error": (500, "InternalError"),
    "throttle": (503, "SlowDown"),
    "denied": (403, "AccessDenied"),
}


@dataclass
class FaultyS3:
    """The proxy's address, what it was asked, and what it will do wrong."""

    url: str
    moto_url: str
    requests: list[str] = field(default_factory=list)
    _faults: list[tuple[Fault, str, int]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    released: threading.Event = field(default_factory=threading.Event)

    def fail(self, fault: Fault, *, containing: str = "", times: int = 1) -> None:
        """Let the next requests whose line contains a text go wrong; "slow" ones wait for `released`."""
        self._faults.append((fault, containing, times))

    def take(self, line: str) -> Fault | None:
        with self._lock:
            self.requests.append(line)
            for index, (fault, containing, times) in enumerate(self._faults):
                if containing in line:
                    self._faults[index] = (fault, containing, times - 1)
                    if times == 1:
                        del self._faults[index]
                    return fault
        return None

    @property
    def counts(self) -> Counter[str]:
        return Counter(line.split(" ")[0] for line in self.requests)

    @property
    def names(self) -> list[str]:
        """Names of what the bucket holds, asked past the proxy."""
        return [entry["Key"] for entry in self.client.list_objects_v2(Bucket=BUCKET).get("Contents", ())]

    @property
    def objects(self) -> dict[str, bytes]:
        """What the bucket holds; nothing may be removed meanwhile."""
        return {name: self.client.get_object(Bucket=BUCKET, Key=name)["Body"].read() for name in self.names}

    @property
    def open_uploads(self) -> int:
        return len(self.client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", ()))

    @cached_property
    def client(self) -> Any:
        options = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
        return boto3.session.Session().client("s3", endpoint_url=self.moto_url, **options)

    def reset(self) -> None:
        """Forget everything that was stored, asked and planned; the bucket is there and empty."""
        self.released.set()  # requests of an earlier test still wait
        self.released = threading.Event()
        with self._lock:
            self.requests.clear()
            self._faults.clear()
        urllib.request.urlopen(f"{self.moto_url}/moto-api/reset", data=b"").close()
        self.client.create_bucket(Bucket=BUCKET)


class _Proxy(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: FaultyS3

    def _handle(self) -> None:
        line = f"{self.command} {self.path}"
        fault = self.api.take(line)
        if fault == "cut":
            self._cut()
            return
        # A client that waits for "100 Continue" is told so by the base class before it sends its body.
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if fault in _ANSWERS:
            status, code = _ANSWERS[fault]
            self._answer(status, {}, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode())
            return
        if fault == "slow":
            self.api.released.wait(30)
        status, headers, answer = self._forward(body)
        if fault == "cut_body":
            self.send_response_only(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer[: len(answer) // 2])
            self._cut()
            return
        self._answer(status, headers, answer)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _handle  # noqa: N815

    def _forward(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        host = self.api.moto_url.removeprefix("http://")
        connection = http.client.HTTPConnection(host, timeout=30)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "expect"}
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        kept = {name: value for name, value in answer.getheaders() if name in {"ETag", "Content-Type"}}
        connection.close()
        return answer.status, kept, content

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        try:
            self.send_response_only(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)
        except OSError:
            self.close_connection = True  # the client did not wait

    def _cut(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Say nothing: cut connections are what this server is for."""


@contextmanager
def faulty_s3() -> Iterator[FaultyS3]:
    """Run moto and the proxy; `reset` makes the bucket."""
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    server = _Server(("127.0.0.1", 0), _Proxy)
    api = FaultyS3(url=f"http://127.0.0.1:{server.server_port}", moto_url=f"http://{host}:{port}")
    server.RequestHandlerClass = type("_Handler", (_Proxy,), {"api": api})
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield api
    finally:
        api.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
        moto.stop()
