from __future__ import annotations

import threading
import urllib.error
import urllib.request

import pytest

from rentbench.core.errors import UsageError
from rentbench.report.serve import make_server


@pytest.fixture
def server(tmp_path):
    (tmp_path / "index.html").write_text("<h1>hub</h1>")
    (tmp_path / "404.html").write_text("<h1>not found</h1>")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "samples.jsonl").write_text("{}\n")
    with make_server(tmp_path, 0) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def get(server, place):
    try:
        return urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}{place}", timeout=10)
    except urllib.error.HTTPError as error:
        return error


def test_it_listens_on_the_loopback_address_only(server):
    assert server.server_address[0] == "127.0.0.1"


def test_pages_and_data_are_served_as_what_they_are(server):
    with get(server, "/") as answer:
        assert (answer.status, answer.read()) == (200, b"<h1>hub</h1>")
        assert answer.headers["Cache-Control"] == "no-store"
    with get(server, "/data/samples.jsonl") as answer:
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    "place", ["/nowhere.html", "/data/", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd"]
)
def test_what_is_not_there_is_the_sites_own_page(server, place):
    with get(server, place) as answer:
        assert (answer.status, answer.read()) == (404, b"<h1>not found</h1>")


def test_a_port_that_is_taken_is_said(server, tmp_path):
    with pytest.raises(UsageError, match=f"port {server.server_port} cannot be had"):
        make_server(tmp_path, server.server_port)
