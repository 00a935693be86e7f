"""Registries that do not answer: a pull is given up, or interrupted, within seconds."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rentbench.core.errors import ErrorKind, RentbenchError
from rentbench.core.manifests import load_images
from rentbench.core.scan import validate_paths
from rentbench.driver.failures import RunFailedError
from rentbench.driver.images.bases import find_base, stand_in_reference
from rentbench.driver.interrupts import Interrupts
from rentbench.driver.pulls import pull
from support.driver_runs import Seen, execute

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rentbench.driver.engine import Engine

pytestmark = pytest.mark.docker

NO_DIGEST = "sha256:" + "0" * 64


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A registry that takes connections and says nothing, on this host as the engine's."""
    if os.environ.get("DOCKER_HOST", "unix:").partition(":")[0] != "unix":
        pytest.skip("the engine is on another host")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)
        yield server


def reference(registry: socket.socket) -> str:
    return f"127.0.0.1:{registry.getsockname()[1]}/image"


def test_a_registry_that_says_nothing_is_given_up(docker_engine: Engine, silent: socket.socket) -> None:
    before = time.monotonic()
    with pytest.raises(RunFailedError, match="no registry answered") as caught:
        pull(docker_engine, f"{reference(silent)}@{NO_DIGEST}", patience=0.5)
    assert caught.value.failure.kind is ErrorKind.NETWORK
    assert time.monotonic() - before < 5


def test_what_the_engine_says_of_a_registry_is_passed_on(docker_engine: Engine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = reference(server)
    with pytest.raises(RunFailedError, match="connection refused") as caught:
        pull(docker_engine, f"{closed}@{NO_DIGEST}", patience=30)
    assert caught.value.failure.kind is ErrorKind.NETWORK


def test_an_interrupt_ends_a_pull(silent: socket.socket, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-c",
        "from rentbench.cli.main import main; main()",
        "run",
        "gemm",
        "preflight",
    ]
    image = f"{reference(silent)}@{NO_DIGEST}"
    process = subprocess.Popen(
        [*command, "--preset", "smoke", "--image", image, "--results", str(tmp_path), "--json"],
        stdout=subprocess.PIPE,
        text=True,
    )
    silent.accept()
    before = time.monotonic()
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=20)
    assert time.monotonic() - before < 5
    assert process.returncode == 3
    assert [run["error"]["kind"] for run in json.loads(output)["runs"]] == ["interrupted"]
    reports = list(validate_paths([tmp_path]))
    assert [report.valid for report in reports] == [True]


def test_nothing_starts_after_an_interrupt(docker_engine: Engine, behaviours: str, tmp_path: Path) -> None:
    seen, interrupts = Seen(), Interrupts()
    interrupts.count = 1
    outcome = execute(docker_engine, behaviours, "ok", tmp_path, seen=seen, interrupts=interrupts)
    assert outcome.failure is not None
    assert outcome.failure.kind is ErrorKind.INTERRUPTED
    assert outcome.run["container"] is None
    assert seen.output == []


def test_a_stand_in_that_is_here_is_taken_without_asking_a_registry(
    docker_engine: Engine, behaviours: str, silent: socket.socket
) -> None:
    """The image of the tests is tagged as a stand-in: any image serves."""
    release = f"test{os.getpid()}"
    manifest = replace(
        load_images()["cpu"], base_reference=f"{reference(silent)}:{release}", base_digest=NO_DIGEST
    )
    name = stand_in_reference(manifest)
    said: list[str] = []
    image = docker_engine.client.images.get(behaviours)
    image.tag(*name.split(":"))
    try:
        base = find_base(docker_engine, manifest, say=said.append)
        assert base.image_id == image.id
        silent.settimeout(0.2)
        with pytest.raises(TimeoutError):
            silent.accept()
        # Asked otherwise, it looks for the pinned one first.
        base = find_base(docker_engine, manifest, renew=True, say=said.append)
        assert any("cannot be pulled" in line for line in said)
        silent.accept()
    finally:
        docker_engine.client.images.remove(name)


def test_a_base_that_was_asked_for_is_never_replaced(docker_engine: Engine) -> None:
    with pytest.raises(RentbenchError, match="neither here nor can it be pulled"):
        find_base(
            docker_engine,
            load_images()["cpu"],
            wanted=f"127.0.0.1:1/image@{NO_DIGEST}",
            say=lambda _: None,
        )
