"""Hosts over SSH: the engine's socket there, forwarded to one here by the system's own ssh.

The Docker SDK then speaks to it as to a local engine. Its own `ssh://` needs Docker's command line on the
host, has no place for ssh's options, ignores time-outs, and tells every failure in the same words.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rentbench.core.errors import ErrorKind, UsageError
from rentbench.core.problems import show
from rentbench.driver.engine import Engine, connect_to
from rentbench.driver.failures import Failure, RunFailedError
from rentbench.driver.local import LocalGpus
from rentbench.driver.programs import find_program
from rentbench.driver.ssh_failures import ssh_failure

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["SshAddress", "SshHost", "open_ssh_host", "parse_address"]

CONFIG_VARIABLE = "RENTBENCH_SSH_CONFIG"
_SOCKET = "/var/run/docker.sock"
_ADDRESS = re.compile(
    r"ssh://(?P<user>[A-Za-z0-9_][A-Za-z0-9_.-]*)@"
    r"(?:(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*)|\[(?P<ipv6>[0-9A-Fa-f:]+)\])(?::(?P<port>[0-9]{1,5}))?"
)
_PATIENCE = (
    60.0  # seconds for one look at the host; without persistence mode nvidia-smi first wakes every GPU
)
_TUNNEL_PATIENCE = 20.0  # seconds until the local socket must be there
_RETRY = 0.5  # seconds before a tunnel that died is made again
# One fixed script: nothing of the user's becomes part of a command there.
_LOOK = f"""
if [ ! -S {_SOCKET} ]; then echo socket missing
elif [ -r {_SOCKET} ] && [ -w {_SOCKET} ]; then echo socket usable
else echo socket denied; fi
for one in nvidia-container-runtime-hook nvidia-container-toolkit nvidia-ctk; do
command -v $one >/dev/null && echo toolkit && break; done
command -v nvidia-smi >/dev/null &&
nvidia-smi --query-gpu=driver_version,compute_cap --format=csv,noheader | sed 's/^/gpu /'
exit 0
"""


@dataclass(frozen=True, kw_only=True)
class SshAddress:
    """Whom to reach, where."""

    user: str
    host: str
    port: int = 22


@dataclass(frozen=True, kw_only=True)
class SshHost:
    """A host that is connected.

    Attributes:
        engine: Its engine.
        gpus: What it has.
    """

    engine: Engine
    gpus: LocalGpus


def parse_address(text: str) -> SshAddress:
    """Return the address that `ssh://user@host[:port]` names.

    Only plain characters are taken, none of which ssh or a shell could read as anything else.

    Raises:
        UsageError: It is of another form.
    """
    found = _ADDRESS.fullmatch(text)
    port = int(found["port"] or 22) if found else 0
    if found is None or not 0 < port < 2**16:
        msg = f"the host {show(text)} is of a kind that is not known"
        raise UsageError(msg, hint="hosts: local, ssh://USER@HOST or ssh://USER@HOST:PORT")
    return SshAddress(user=found["user"], host=found["host"] or found["ipv6"], port=port)


@contextlib.contextmanager
def open_ssh_host(address: SshAddress) -> Iterator[SshHost]:
    """Connect to the engine of a host; a connection that breaks is made again until the context ends.

    Args:
        address: Which host. The environment's `RENTBENCH_SSH_CONFIG` names another configuration of ssh.

    Raises:
        RunFailedError: It cannot be reached, lets nobody in, or has no engine that may be used.
        DependencyMissingError: There is no ssh here.
    """
    # Private, as who can write to the socket can do everything on the host; and short, as its path must be.
    with tempfile.TemporaryDirectory(prefix="rb-", dir="/tmp") as name:
        folder = Path(name)
        command = [find_program("ssh", package="openssh-client"), *_options(address, folder)]
        gpus = _look(command, address)
        tunnel = _Tunnel(command, address, folder / "s")
        tunnel.start()
        try:
            engine = connect_to(f"unix://{folder / 's'}", name=f"ssh://{address.host}", kind="ssh")
            toolkit = gpus.toolkit or "nvidia" in (engine.information.get("Runtimes") or {})
            facts = LocalGpus(
                count=gpus.count,
                driver_version=gpus.driver_version,
                toolkit=toolkit,
                compute_capabilities=gpus.compute_capabilities,
            )
            yield SshHost(engine=engine, gpus=facts)
        finally:
            tunnel.close()


def _options(address: SshAddress, folder: Path) -> list[str]:
    config = os.environ.get(CONFIG_VARIABLE)
    # New keys go into a file of this run; those that the user knows already are held against the host.
    settings = (
        "BatchMode=yes",
        "StrictHostKeyChecking=accept-new",
        f"UserKnownHostsFile={folder}/known_hosts ~/.ssh/known_hosts",
        "UpdateHostKeys=no",
        "ForwardAgent=no",
        "ForwardX11=no",
        "ControlMaster=no",
        "ControlPath=none",
        "ConnectTimeout=15",
        "ServerAliveInterval=5",
        "ServerAliveCountMax=3",
        "ExitOnForwardFailure=yes",
        "StreamLocalBindUnlink=yes",
        "StreamLocalBindMask=0177",
    )
    return [
        *(() if config is None else ("-F", config)),
        *(word for setting in settings for word in ("-o", setting)),
        *("-T", "-p", str(address.port), "-l", address.user),
    ]


def _look(command: list[str], address: SshAddress) -> LocalGpus:
    """Return the host's GPUs, and raise where its engine may not be used."""
    try:
        done = subprocess.run(
            [*command, "-n", "--", address.host, _LOOK],
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
            text=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired as error:
        raise RunFailedError(ssh_failure("Connection timed out", address.host)) from error
    if done.returncode != 0:
        raise RunFailedError(ssh_failure(done.stderr, address.host))
    lines = done.stdout.splitlines()
    if "socket usable" not in lines:
        raise RunFailedError(_no_engine(address, denied="socket denied" in lines))
    cards = [line.removeprefix("gpu ").split(", ") for line in lines if re.match(r"gpu \d", line)]
    capabilities = {card[1].strip() for card in cards if len(card) == 2 and re.match(r"\d+\.\d+", card[1])}
    return LocalGpus(
        count=len(cards),
        driver_version=cards[0][0] if cards else None,
        toolkit="toolkit" in lines,
        compute_capabilities=tuple(sorted(capabilities)),
    )


def _no_engine(address: SshAddress, *, denied: bool) -> Failure:
    if denied:
        return Failure(
            kind=ErrorKind.PERMISSION_DENIED,
            message=f"{address.user} may not use the Docker engine on {address.host}",
            hint=f"there: sudo usermod -aG docker {address.user}; the next login may",
        )
    return Failure(
        kind=ErrorKind.ENGINE_ERROR,
        message=f"no Docker engine runs on {address.host} ({_SOCKET} is not there)",
        hint="install it there (on Debian or Ubuntu: sudo apt-get install docker.io), or start it",
    )


class _Tunnel:
    """An ssh process that forwards the engine's socket, started again when it dies."""

    def __init__(self, command: list[str], address: SshAddress, socket: Path) -> None:
        # `cat` ends with its input, which ends with this process, however that dies: no tunnel outlives it.
        self._command = [*command, "-L", f"{socket}:{_SOCKET}", "--", address.host, "cat"]
        self._host = address.host
        self._socket = socket
        self._log = socket.with_name("log")
        self._closing = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="ssh-tunnel", daemon=True)
        self._process = self._spawn()

    def start(self) -> None:
        """Wait until the socket is there, and keep it so from then on."""
        deadline = time.monotonic() + _TUNNEL_PATIENCE
        while not self._socket.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.close()
                raise RunFailedError(ssh_failure(self._log.read_text(errors="replace"), self._host))
            time.sleep(0.02)
        self._keeper.start()

    def close(self) -> None:
        """End it."""
        self._closing.set()
        self._process.terminate()
        self._process.wait()
        if self._keeper.is_alive():
            self._keeper.join()

    def _keep(self) -> None:
        while True:
            self._process.wait()
            if self._closing.wait(_RETRY):
                return
            self._process = self._spawn()
            if self._closing.is_set():  # asked to end while it was made
                self._process.terminate()

    def _spawn(self) -> subprocess.Popen[bytes]:
        with self._log.open("wb") as log:
            # A session of its own: Ctrl-C stops the container first, and that needs the tunnel.
            return subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )
