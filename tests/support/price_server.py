"""A real HTTP server that speaks price interfaces of Runcrate, Lambda and Vast, with faults on request."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, kw_only=True)
class Fault:
    """An answer instead of the right one."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False  # announce more than is sent


@dataclass
class PriceServer:
    """What the server answers, and what it was asked.

    Attributes:
        url: Where it answers.
        answers: What each path answers.
        faults: What each path answers first, in order.
        asked: The requests that came: method, path, headers.
        key: The key that paths below `locked` ask for.
    """

    url: str = ""
    answers: dict[str, Any] = field(default_factory=dict)
    faults: dict[str, list[Fault]] = field(default_factory=lambda: defaultdict(list))
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    key: str = "rc_live_test"
    locked: tuple[str, ...] = ("/api/v1/", "/lambda/")


@contextmanager
def price_server() -> Iterator[PriceServer]:
    """Run a server for as long as the block lasts."""
    state = PriceServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer()

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.answer()

        def answer(self) -> None:
            state.asked.append((self.command, self.path, dict(self.headers)))
            faults = state.faults[self.path]
            if faults:
                fault = faults.pop(0)
                self.send(fault.status, fault.body, fault.headers, cut=fault.cut)
            elif (
                self.path.startswith(state.locked) and self.headers["authorization"] != f"Bearer {state.key}"
            ):
                self.send(401, b'{"error": {"code": "unauthorized", "message": "no such key"}}')
            elif self.path in state.answers:
                self.send(200, json.dumps(state.answers[self.path]).encode())
            else:
                self.send(404, b'{"message": "not found"}')

        def send(
            self, status: int, body: bytes, headers: dict[str, str] | None = None, *, cut: bool = False
        ) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body) + 100 * cut))
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
