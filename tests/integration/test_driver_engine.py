"""What the engine refuses, and an engine that goes away in the middle of a run."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import docker
import pytest

from rentbench.core.errors import ErrorKind
from rentbench.core.scan import validate_paths
from rentbench.driver.engine import Engine, connect
from rentbench.driver.failures import RunFailedError
from rentbench.driver.interrupts import Interrupts
from rentbench.driver.leftovers import find_leftovers, reap
from rentbench.driver.runs import run_suite
from support.driver_runs import Seen, execute, plan

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.docker


def assert_valid(results: Path, documents: int) -> None:
    """Check that a results folder holds so many documents, all valid."""
    reports = list(validate_paths([results]))
    assert [str(report) for report in reports if not report.valid] == []
    assert len(reports) == documents


def test_a_missing_image_says_how_to_make_it(docker_engine: Engine, tmp_path: Path) -> None:
    outcome = execute(docker_engine, "rentbench/cpu:no-such-recipe", "gemm", tmp_path)
    assert outcome.failure is not None
    assert outcome.failure.kind is ErrorKind.IMAGE_MISSING
    assert outcome.failure.hint == "rentbench image build cpu"
    assert outcome.run["container"] is None
    assert_valid(tmp_path, 1)


def test_gpus_without_the_toolkit_are_a_named_failure(
    docker_engine: Engine, behaviours: str, tmp_path: Path
) -> None:
    if "nvidia" in docker_engine.information["Runtimes"]:
        pytest.skip("this engine has the NVIDIA container toolkit")
    outcome = execute(
        docker_engine, behaviours, "ok", tmp_path, options={"gpus": "all", "lock_memory": False}
    )
    assert outcome.failure is not None
    assert outcome.failure.kind is ErrorKind.NO_CONTAINER_TOOLKIT
    assert "--gpus none" in str(outcome.failure.hint)
    assert outcome.run["container"]["gpus"] == "all"
    assert_valid(tmp_path, 1)


def test_an_unknown_network_is_a_wrong_option(docker_engine: Engine, behaviours: str, tmp_path: Path) -> None:
    outcome = execute(docker_engine, behaviours, "ok", tmp_path, options={"network": "no-such-network"})
    assert outcome.failure is not None
    assert outcome.failure.kind is ErrorKind.USAGE


def test_an_image_for_another_processor_is_refused_before_it_starts(
    docker_engine: Engine, behaviours: str, tmp_path: Path
) -> None:
    elsewhere = replace(docker_engine, information={**docker_engine.information, "Architecture": "riscv64"})
    outcome = execute(elsewhere, behaviours, "ok", tmp_path)
    assert outcome.failure is not None
    assert outcome.failure.kind is ErrorKind.UNSUPPORTED_PLATFORM
    assert "linux/riscv64" in outcome.failure.message


@pytest.mark.parametrize(
    ("entrypoint", "init", "kind"),
    [
        ("/no/such/program", True, ErrorKind.COMMAND_MISSING),
        ("/no/such/program", False, ErrorKind.COMMAND_MISSING),
        ("/etc/passwd", True, ErrorKind.COMMAND_NOT_EXECUTABLE),
        ("/etc/passwd", False, ErrorKind.COMMAND_NOT_EXECUTABLE),
        ("/not-a-program", False, ErrorKind.UNSUPPORTED_PLATFORM),
    ],
)
def test_a_program_that_cannot_start_is_a_named_failure(
    docker_engine: Engine, behaviours: str, tmp_path: Path, entrypoint: str, init: bool, kind: ErrorKind
) -> None:
    lines = [f"FROM {behaviours}", f'ENTRYPOINT ["{entrypoint}"]']
    if entrypoint == "/not-a-program":
        # Bytes that no processor's loader knows, as those of a program for another one.
        lines[1:1] = ["USER 0", "RUN printf '\\177ELF\\0\\0\\0' >/not-a-program && chmod 755 /not-a-program"]
    (tmp_path / "Dockerfile").write_text("\n".join(lines))
    image, _ = docker_engine.client.images.build(path=str(tmp_path), rm=True, forcerm=True)
    try:
        outcome = execute(docker_engine, str(image.id), "ok", tmp_path / "results", options={"init": init})
    finally:
        docker_engine.client.images.remove(str(image.id), force=True)
    assert outcome.failure is not None
    assert outcome.failure.kind is kind


@pytest.mark.parametrize("address", ["unix:///no/such/socket", "tcp://127.0.0.1:1"])
def test_an_engine_that_is_not_there_is_said_plainly(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("DOCKER_HOST", address)
    with pytest.raises(RunFailedError, match="no Docker engine answers") as caught:
        connect()
    assert "DOCKER_HOST" in str(caught.value.hint)


class SecondEngine:
    """Another engine, with a bridge of its own so that it leaves the first one's alone."""

    BRIDGE = "rb-test-br0"

    def __init__(self, folder: Path, *options: str) -> None:
        self.socket = folder / "s"
        self._log = folder / "log"
        self._command = [
            *(
                "dockerd",
                f"--data-root={folder}/data",
                f"--exec-root={folder}/exec",
                f"--pidfile={folder}/pid",
            ),
            *("-H", f"unix://{self.socket}", f"--bridge={self.BRIDGE}", "--iptables=false", *options),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Engine:
        """Start it, and return the connection once it answers."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + 60
        while True:
            try:
                client = docker.DockerClient(base_url=f"unix://{self.socket}", timeout=60)
                return Engine(client=client, information=client.info(), version=client.version())
            except docker.errors.DockerException:
                assert self._process.poll() is None, self._log.read_text()[-2000:]
                assert time.monotonic() < deadline, self._log.read_text()[-2000:]
                time.sleep(0.1)

    def stop(self) -> None:
        """End it, and wait until it has ended."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=60)


@contextmanager
def second_engine(image: str, first: Engine, *options: str) -> Iterator[tuple[SecondEngine, Engine]]:
    """Run another engine that has an image of the first one."""
    if shutil.which("dockerd") is None or shutil.which("ip") is None:
        pytest.skip("dockerd and ip are needed for a second engine")
    if subprocess.run(["ip", "link", "add", SecondEngine.BRIDGE, "type", "bridge"], check=False).returncode:
        pytest.skip("a bridge cannot be made here: not root")
    folder = Path(tempfile.mkdtemp(prefix="rb-", dir="/tmp"))  # a socket's path must be short
    second = SecondEngine(folder, *options)
    try:
        subprocess.run(["ip", "addr", "add", "172.31.251.1/24", "dev", SecondEngine.BRIDGE], check=True)
        engine = second.start()
        engine.client.images.load(b"".join(first.client.images.get(image).save(named=image)))
        yield second, engine
    finally:
        for container in connection(second).containers.list(all=True):
            container.remove(force=True)
        second.stop()
        subprocess.run(["ip", "link", "delete", SecondEngine.BRIDGE], check=False)
        subprocess.run(["umount", folder / "data"], check=False, capture_output=True)
        shutil.rmtree(folder)


def connection(second: SecondEngine) -> docker.DockerClient:
    """Return a connection to an engine that a test may have stopped."""
    try:
        client = docker.DockerClient(base_url=f"unix://{second.socket}", timeout=60)
        client.ping()
    except docker.errors.DockerException:
        client = second.start().client
    return client


class Proxy:
    """A socket before the engine's own, whose connections can be cut."""

    def __init__(self, folder: Path) -> None:
        self.address = folder / "s"
        self._open: list[socket.socket] = []
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(self.address))
        self._server.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """End every connection."""
        for end in self._open:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._server.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                engine = socket.socket(socket.AF_UNIX)
                engine.connect("/var/run/docker.sock")
                self._open += [client, engine]
                for ends in ((client, engine), (engine, client)):
                    threading.Thread(target=self._forward, args=ends, daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while chunk := source.recv(65536):
                target.sendall(chunk)
            target.shutdown(socket.SHUT_WR)


@pytest.mark.slow
@pytest.mark.parametrize("behaviour", ["slow", "slower"])
def test_output_during_a_broken_connection_is_caught_up_with(
    docker_engine: Engine, behaviours: str, behaviour: str
) -> None:
    """Of a container that ends before the next look at it, and of one that is attached to again."""
    if not Path("/var/run/docker.sock").is_socket() or "DOCKER_HOST" in os.environ:
        pytest.skip("the engine is not behind the usual socket")
    with tempfile.TemporaryDirectory(prefix="rb-", dir="/tmp") as folder:
        proxy = Proxy(Path(folder))

        def cut(line: str) -> None:
            if line == "ready":
                proxy.cut()

        client = docker.DockerClient(base_url=f"unix://{proxy.address}", timeout=60)
        seen = Seen(on_line=cut)
        try:
            results = Path(folder) / "results"
            outcome = execute(
                replace(docker_engine, client=client), behaviours, behaviour, results, seen=seen
            )
        finally:
            proxy.close()
    assert outcome.failure is None
    assert seen.output == ["ready", "done"]


@pytest.mark.slow
def test_an_engine_that_restarts_ends_the_run_and_keeps_what_was_written(
    docker_engine: Engine, behaviours: str, tmp_path: Path
) -> None:
    with second_engine(behaviours, docker_engine) as (second, engine):

        def restart(line: str) -> None:
            if line == "ready":
                second.stop()
                second.start()

        outcome = execute(engine, behaviours, "slow", tmp_path, seen=Seen(on_line=restart))
        assert outcome.failure is not None
        assert outcome.failure.kind is ErrorKind.KILLED
        assert outcome.measurement is not None
        assert_valid(tmp_path, 2)


@pytest.mark.slow
def test_a_container_that_outlives_its_engine_is_followed_to_its_end(
    docker_engine: Engine, behaviours: str, tmp_path: Path
) -> None:
    with second_engine(behaviours, docker_engine, "--live-restore") as (second, engine):

        def restart(line: str) -> None:
            if line == "ready":
                second.stop()
                second.start()

        seen = Seen(on_line=restart)
        outcome = execute(engine, behaviours, "slow", tmp_path, seen=seen)
        assert outcome.failure is None
        assert outcome.status == "ok"
        assert seen.output == ["ready", "done"]


@pytest.mark.slow
def test_an_engine_that_stays_away_is_given_up(
    docker_engine: Engine, behaviours: str, tmp_path: Path
) -> None:
    with second_engine(behaviours, docker_engine) as (second, engine):

        def stop(line: str) -> None:
            if line == "ready":
                second.stop()

        seen = Seen(on_line=stop)
        plan_ = plan(behaviours, "slow", tmp_path, clocks={"engine": 1.0})
        outcome = run_suite(engine, plan_, listener=seen, interrupts=Interrupts(), redact=lambda text: text)
        assert outcome.failure is not None
        assert outcome.failure.kind is ErrorKind.ENGINE_ERROR
        assert any("rentbench reap" in text for text in seen.said)
        assert_valid(tmp_path, 1)
        # Once it is back, the leftover is found, and what it measured is kept.
        back = second.start()
        (leftover,) = find_leftovers(back)
        reaped = reap(back, leftover, results=tmp_path / "later", redact=lambda text: text)
        assert reaped.problem is None
        assert reaped.folder is not None
        assert (reaped.folder / "measurement.json").is_file()
        assert find_leftovers(back) == []
