"""What tells a job to end: signals, a provider's notices, and the time that is left then."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("torch")

from checkpointer import FileNotice, StopFlag, UrlNotice

from support.suites import SUITES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_only_sets_the_flag(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with StopFlag(grace_seconds=25) as stop:
        assert not stop.is_set
        assert stop.seconds_left == float("inf")
        os.kill(os.getpid(), number)
        wait_for(lambda: stop.is_set)
        assert stop.reason == number.name
        assert 24 < stop.seconds_left <= 25
    assert signal.getsignal(number) is before


def test_a_second_signal_gives_no_more_time() -> None:
    stop = StopFlag(grace_seconds=25)
    stop.set("SIGTERM", seconds=5)
    stop.set("SIGINT")
    assert stop.reason == "SIGTERM"
    assert stop.seconds_left <= 5


def test_time_does_not_go_below_nothing() -> None:
    stop = StopFlag()
    stop.set("late", seconds=-3)
    assert stop.seconds_left == 0


def test_a_file_announces_the_end(tmp_path: Path) -> None:
    path = tmp_path / "notice"
    notice = FileNotice(path, seconds=25)
    assert notice() is None
    with StopFlag(notices=[notice], poll_seconds=0.01) as stop:
        path.write_text("120")
        wait_for(lambda: stop.is_set)
        assert stop.reason == "notice file notice"
        assert 110 < stop.seconds_left <= 120
    path.write_text("")
    assert 20 < (notice() or 0) <= 25
    path.write_text("soon")
    assert 20 < (notice() or 0) <= 25
    os.utime(path, (time.time() - 1000,) * 2)
    assert notice() == 0


class _Metadata(BaseHTTPRequestHandler):
    announced = False

    def do_GET(self) -> None:
        body = b"TRUE" if self.announced else b"FALSE"
        known = self.headers.get("Metadata-Flavor") == "Google"
        self.send_response(200 if known and (self.announced or self.path == "/always") else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def metadata() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Metadata)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    _Metadata.announced = False
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize(("path", "contains"), [("/", None), ("/always", "TRUE")])
def test_an_address_announces_the_end(
    metadata: str, path: str, contains: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # metadata is never behind a proxy
    headers = {"Metadata-Flavor": "Google"}
    notice = UrlNotice(metadata + path, headers=headers, contains=contains, seconds=30)
    assert notice() is None
    _Metadata.announced = True
    assert 29 < (notice() or 0) <= 30
    _Metadata.announced = False
    assert 28 < (notice() or 0) <= 30  # what was announced stays so


def test_an_address_that_does_not_answer_announces_nothing() -> None:
    assert UrlNotice("http://127.0.0.1:9/")() is None
    with pytest.raises(ValueError, match="begins with http"):
        UrlNotice("file:///etc/passwd")


def test_a_notice_that_fails_is_told_once_and_the_others_count(caplog: pytest.LogCaptureFixture) -> None:
    calls = []

    def broken() -> float | None:
        calls.append(1)
        raise PermissionError

    with (
        caplog.at_level(logging.WARNING, "checkpointer"),
        StopFlag(notices=[broken, lambda: 7.0 if len(calls) > 3 else None], poll_seconds=0.001) as stop,
    ):
        wait_for(lambda: stop.is_set)
        assert stop.seconds_left <= 7
    assert caplog.text.count("PermissionError") == 1


def test_a_forked_process_ends_by_signals_as_usual() -> None:
    with StopFlag() as stop:
        child = os.fork()
        if child == 0:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
        assert not stop.is_set


def test_a_data_worker_leaves_signals_to_its_parent() -> None:
    code = """
import os, signal, sys
sys.path[:0] = sys.argv[1:]
from checkpointer import leave_signals_to_parent
leave_signals_to_parent(0)
for number in (signal.SIGTERM, signal.SIGINT):
    os.kill(os.getpid(), number)
print("alive")
"""
    arguments = [sys.executable, "-c", code, str(SUITES / "interruption")]
    ended = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert ended.stdout == "alive\n"


def test_a_signal_in_the_very_start_of_a_data_worker_does_not_end_it() -> None:
    code = """
import os, signal, sys
sys.path[:0] = sys.argv[1:]
import torch
from checkpointer import ResumableBatches, StopFlag

def at_start():
    for number in (signal.SIGTERM, signal.SIGINT):
        os.kill(os.getpid(), number)

os.register_at_fork(after_in_child=at_start)
with StopFlag() as stop:
    batches = iter(ResumableBatches(list(range(8)), batch_size=2, seed=1, options={"num_workers": 1}))
    print(sorted(torch.cat([next(batches) for _ in range(8)]).tolist()), stop.is_set)
    os.kill(os.getpid(), signal.SIGTERM)
    print(stop.reason)
batches.close()  # ends the worker; multiprocessing itself would ask it by SIGTERM
"""
    arguments = [sys.executable, "-c", code, str(SUITES / "interruption")]
    ended = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == f"{sorted([*range(8), *range(8)])} False\nSIGTERM\n"
