"""Serving the built site on this machine, for a look at it; a published site needs no server of ours."""

from __future__ import annotations

import functools
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from rentbench.core.errors import UsageError

__all__ = ["make_server"]

_ADDRESS = "127.0.0.1"


def make_server(site: Path, port: int) -> ThreadingHTTPServer:
    """Return a server of a built site, listening on the loopback address only; it serves once it is told to.

    Args:
        site: The site's folder.
        port: 0 takes a free one.

    Raises:
        UsageError: The port cannot be had.
    """
    handler = functools.partial(_Handler, directory=str(site))
    try:
        return ThreadingHTTPServer((_ADDRESS, port), handler)
    except OSError as error:
        msg = f"port {port} cannot be had: {error.strerror}"
        raise UsageError(msg, hint="choose another one with --port, or 0 for any free one") from error


class _Handler(SimpleHTTPRequestHandler):
    """Serves files as a plain file server does, without lists of folders and without a cache."""

    extensions_map = SimpleHTTPRequestHandler.extensions_map | {
        ".jsonl": "text/plain; charset=utf-8",
        ".txt": "text/plain; charset=utf-8",
        ".log": "text/plain; charset=utf-8",
        ".csv": "text/csv; charset=utf-8",
    }

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def list_directory(self, path: object) -> None:
        del path
        self.send_error(HTTPStatus.NOT_FOUND)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        page = Path(self.directory) / "404.html"
        if code != HTTPStatus.NOT_FOUND or not page.is_file():
            super().send_error(code, message, explain)
            return
        content = page.read_bytes()
        self.send_response(code)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing: the terminal shows the address, and stays readable."""
