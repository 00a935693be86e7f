"""A real sshd on loopback, for one user and one key."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

PATIENCE = 10.0


def make_key(path: Path) -> str:
    """Make a key without a passphrase, and return its public half."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path], check=True)
    return path.with_suffix(".pub").read_text().strip()


class Sshd:
    """A server, and the configuration of ssh that lets the client in.

    Args:
        folder: For keys and configuration.
        settings: More lines of its configuration, before the others.
    """

    def __init__(self, folder: Path, *settings: str) -> None:
        program = shutil.which("sshd") or "/usr/sbin/sshd"
        if not Path(program).exists():
            pytest.skip("sshd is not installed (Debian: openssh-server)")
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # sshd separates its privileges in there
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self.host_key = make_key(folder / "host")
        (folder / "authorized").write_text(make_key(folder / "client") + "\n")
        server = [
            *settings,
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {folder}/host",
            f"AuthorizedKeysFile {folder}/authorized",
            "StrictModes no",
            "UsePAM no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PidFile none",
        ]
        (folder / "sshd_config").write_text("\n".join(server) + "\n")
        self.config = folder / "ssh_config"
        self.known_hosts = folder / "known_hosts"
        self.known_hosts.touch()
        self.use_key(folder / "client")
        self._command = [program, "-D", "-e", "-f", str(folder / "sshd_config")]
        self._log = folder / "sshd.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """The host as `--on` takes it."""
        return f"ssh://{getpass.getuser()}@127.0.0.1:{self.port}"

    def use_key(self, key: Path) -> None:
        """Let the client show this key and no other."""
        lines = [
            f"IdentityFile {key}",
            "IdentitiesOnly yes",
            "IdentityAgent none",
            f"GlobalKnownHostsFile {self.known_hosts}",
        ]
        self.config.write_text("\n".join(lines) + "\n")

    def start(self) -> None:
        """Start it, and return once it listens."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except ConnectionRefusedError:
                assert self._process.poll() is None, self._log.read_text()
                assert time.monotonic() < deadline
                time.sleep(0.02)
            else:
                return

    def stop(self) -> None:
        """Kill it and every connection that it serves, as when the machine's network goes away."""
        if self._process is None:
            return
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                parent = int(stat.read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
            if parent == self._process.pid:
                os.kill(int(stat.parent.name), 9)
        self._process.kill()
        self._process.wait()
