"""Hosts over SSH: a real sshd on loopback, and the engine's own socket behind it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rentbench.core.errors import ErrorKind, UsageError
from rentbench.driver.failures import Failure, RunFailedError
from rentbench.driver.hosts import open_host
from rentbench.driver.ssh import CONFIG_VARIABLE, parse_address
from rentbench.driver.transfers import send_image
from support.driver_runs import Seen, execute
from support.sshd import Sshd, make_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rentbench.driver.engine import Engine


@pytest.fixture
def sshd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    yield from serve(tmp_path, monkeypatch)


def serve(folder: Path, monkeypatch: pytest.MonkeyPatch, *settings: str) -> Iterator[Sshd]:
    """Run a server, with the client's configuration in force."""
    server = Sshd(folder, *settings)
    monkeypatch.setenv(CONFIG_VARIABLE, str(server.config))
    server.start()
    try:
        yield server
    finally:
        server.stop()


def refusal(address: str) -> Failure:
    """Return why a host cannot be used."""
    with pytest.raises(RunFailedError) as caught, open_host(address):
        pass
    assert caught.value.failure.hint
    return caught.value.failure


@pytest.mark.parametrize(
    "text",
    [
        "ssh://host",
        "ssh://-oProxyCommand=id@host",
        "ssh://user@-oProxyCommand=id",
        "ssh://user@host;id",
        "ssh://us$(id)er@host",
        "ssh://user@host:0",
        "ssh://user@host:65536",
        "ssh://user@host\n",
        "ssh://user@host/path",
        "somewhere",
    ],
)
def test_an_address_that_could_be_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not known"):
        parse_address(text)


def test_addresses_are_taken_apart() -> None:
    address = parse_address("ssh://root@[2001:db8::1]:2222")
    assert (address.user, address.host, address.port) == ("root", "2001:db8::1", 2222)
    assert parse_address("ssh://ubuntu@gpu-1.example").port == 22


def test_a_key_that_the_host_does_not_know_is_told(sshd: Sshd, tmp_path: Path) -> None:
    make_key(tmp_path / "other")
    sshd.use_key(tmp_path / "other")
    failure = refusal(sshd.address)
    assert failure.kind is ErrorKind.PERMISSION_DENIED
    assert "does not let this user in" in failure.message


def test_a_changed_host_key_is_told(sshd: Sshd, tmp_path: Path) -> None:
    other = make_key(tmp_path / "other")
    sshd.known_hosts.write_text(f"[127.0.0.1]:{sshd.port} {other}\n")
    failure = refusal(sshd.address)
    assert failure.kind is ErrorKind.HOST_FAULT
    assert "another host key" in failure.message
    assert "ssh-keygen -R" in str(failure.hint)


def test_a_port_that_refuses_and_a_host_that_is_not_there_are_told(sshd: Sshd) -> None:
    sshd.stop()
    assert "refuses connections" in refusal(sshd.address).message
    assert "there is no host" in refusal("ssh://root@no-such-host.invalid").message


@pytest.mark.parametrize(
    ("seen", "kind", "message"),
    [
        ("denied", ErrorKind.PERMISSION_DENIED, "may not use the Docker engine"),
        ("missing", ErrorKind.ENGINE_ERROR, "no Docker engine runs"),
    ],
)
def test_an_engine_that_cannot_be_used_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: str, kind: ErrorKind, message: str
) -> None:
    """The host's answer is the server's: root, who runs these tests, may use every socket."""
    for server in serve(tmp_path, monkeypatch, f'ForceCommand echo "socket {seen}"'):
        failure = refusal(server.address)
        assert failure.kind is kind
        assert message in failure.message


@pytest.mark.docker
class TestRuns:
    """Needs the engine behind its usual socket."""

    @pytest.fixture(autouse=True)
    def usual_socket(self) -> None:
        if not Path("/var/run/docker.sock").is_socket() or "DOCKER_HOST" in os.environ:
            pytest.skip("the engine is not behind the usual socket")

    def test_a_run_over_ssh_is_as_one_here(
        self, docker_engine: Engine, behaviours: str, sshd: Sshd, tmp_path: Path
    ) -> None:
        with open_host(sshd.address) as (engine, gpus):
            assert engine.information["ID"] == docker_engine.information["ID"]
            assert gpus is not None
            outcome = execute(engine, behaviours, "ok", tmp_path / "results")
        assert outcome.status == "ok"
        assert outcome.run["host"]["kind"] == "ssh"
        assert "127.0.0.1" not in str(outcome.run)

    def test_a_connection_that_dies_in_the_middle_is_made_again_and_nothing_is_lost(
        self, behaviours: str, sshd: Sshd, tmp_path: Path
    ) -> None:
        seen = Seen()

        def cut(line: str) -> None:
            if line == "ready":
                sshd.stop()
                sshd.start()

        seen.on_line = cut
        with open_host(sshd.address) as (engine, _):
            outcome = execute(engine, behaviours, "slower", tmp_path / "results", seen=seen)
        assert outcome.failure is None, outcome.failure
        assert seen.output == ["ready", "done"]

    def test_an_image_is_streamed_through_the_tunnel(
        self, docker_engine: Engine, behaviours: str, sshd: Sshd
    ) -> None:
        """The engine at the other end is this one, so it has all layers; what is shown is the way there."""
        image = docker_engine.client.images.get(behaviours)
        with open_host(sshd.address) as (engine, _):
            send_image(image, behaviours, engine)
            assert engine.client.images.get(behaviours).id == image.id
