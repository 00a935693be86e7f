"""Downloads from a real server on this machine, a good one and bad ones."""

from __future__ import annotations

import contextlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
from preflight_network import DownloadError, download

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 2**20


class Server(BaseHTTPRequestHandler):
    """Answers by path."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path.startswith("/to-"):
            targets = {
                "/to-web": "/body",
                "/to-file": "file:///etc/passwd",
                "/to-ftp": "ftp://127.0.0.1/x",
                "/to-self": path,
            }
            self.send_response(302)
            self.send_header("Location", targets[path])
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif path == "/missing":
            self.send_error(404)
        else:
            promised = 4 * MIB if path != "/empty" else 0
            self.send_response(200)
            self.send_header("Content-Length", str(promised))
            self.end_headers()
            with contextlib.suppress(ConnectionError):  # the client may have had enough
                self.wfile.write(bytes(MIB if path == "/broken" else promised))
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.mark.parametrize("path", ["/body", "/to-web"])
def test_a_body_is_read_to_its_end(server: str, path: str) -> None:
    got = download(server + path, limit_bytes=64 * MIB, limit_seconds=30)
    assert (got.size_bytes, got.complete) == (4 * MIB, True)
    assert got.seconds > 0
    assert got.first_byte_seconds > 0


def test_no_more_than_the_limit_is_read(server: str) -> None:
    got = download(server + "/body", limit_bytes=MIB, limit_seconds=30)
    assert (got.size_bytes, got.complete) == (MIB, False)


def test_nothing_is_begun_after_the_time_is_over(server: str) -> None:
    got = download(server + "/body", limit_bytes=64 * MIB, limit_seconds=0)
    assert 0 < got.size_bytes < 4 * MIB
    assert not got.complete


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/missing", "the server answered 404"),
        ("/broken", "the connection broke after 1048576 bytes"),
        ("/empty", "the download was empty"),
        ("/to-file", "the server answered 302"),
        ("/to-ftp", "unknown url type: ftp"),
        ("/to-self", "the server answered 302"),
    ],
)
def test_a_bad_download_says_why_and_keeps_the_url_to_itself(server: str, path: str, message: str) -> None:
    with pytest.raises(DownloadError, match=message) as failure:
        download(f"{server}{path}?token=abcdef", limit_bytes=64 * MIB, limit_seconds=30)
    assert "abcdef" not in str(failure.value)
    assert "127.0.0.1" not in str(failure.value)
    assert failure.value.__cause__ is None
    assert failure.value.__suppress_context__ or failure.value.__context__ is None


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://127.0.0.1/x", "/etc/passwd", "", "http://[::1", "gopher://x"]
)
def test_only_web_addresses_are_taken(url: str) -> None:
    with pytest.raises(DownloadError):
        download(url, limit_bytes=MIB, limit_seconds=5)


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(DownloadError, match="ConnectionRefusedError"):
        download("http://127.0.0.1:9/x", limit_bytes=MIB, limit_seconds=5)
