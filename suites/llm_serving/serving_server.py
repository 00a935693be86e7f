"""A `vllm serve` of our own: in a session of its own, waited for, and ended with all its processes."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from serving_api import Api
from serving_log import explain

from rentbench.core.errors import ErrorKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["HOST", "Server", "ServerError", "free_port", "living_members"]

HOST: Final = "127.0.0.1"
_TICK_SECONDS: Final = 0.25
_TERMINATE_SECONDS: Final = 15.0
_KILL_SECONDS: Final = 10.0
_TAIL_BYTES: Final = 60_000


class ServerError(Exception):
    """The server did not come up, or is gone; `kind` is one of the schema's error kinds."""

    def __init__(self, kind: ErrorKind, message: str, *, hint: str | None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint


class Server:
    """A server process and what it started.

    It serves its model under a name that no other server has: an answer on the port proves nothing, since
    another program may have it.

    Args:
        command: What starts vLLM's command line, such as python and a module; `serve` comes after it.
        model: Folder of the model.
        arguments: More for `vllm serve`.
        environment: Of the server.
        port: To listen on, at the loopback address.
        log: File that takes its output.

    Raises:
        ServerError: The port is taken, or the command cannot be started.
    """

    def __init__(
        self,
        *,
        command: Sequence[str],
        model: Path,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        port: int,
        log: Path,
    ) -> None:
        if _is_open(port):
            msg = f"port {port} is in use by another program"
            raise ServerError(ErrorKind.USAGE, msg, hint="leave port=0, and a free one is taken")
        self.model_name = f"rentbench-{secrets.token_hex(4)}"
        self.api = Api(f"http://{HOST}:{port}")
        self.log_path = log
        self._began = time.monotonic()
        self.ready_seconds: float | None = None
        try:
            with log.open("wb") as output:
                self._process = subprocess.Popen(
                    [
                        *command,
                        *("serve", str(model), "--served-model-name", self.model_name),
                        *("--host", HOST, "--port", str(port), *arguments),
                    ],
                    env=dict(environment),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            raise ServerError(
                ErrorKind.DEPENDENCY_MISSING, f"vLLM cannot be started: {error}", hint=None
            ) from error

    @property
    def process_id(self) -> int:
        """Of the API server; also the number of the session that all its processes are in."""
        return self._process.pid

    @property
    def log(self) -> str:
        """What it has printed so far."""
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def alive(self) -> bool:
        """Say whether the API server's process runs."""
        return self._process.poll() is None

    def wait_until(self, reached: Callable[[Server], bool], limit_seconds: float) -> None:
        """Wait until something is reached.

        Args:
            reached: Asked four times a second.
            limit_seconds: Counted from the server's start.

        Raises:
            ServerError: The server ended, or the limit is over.
        """
        while not reached(self):
            self.require_alive()
            if time.monotonic() - self._began > limit_seconds:
                msg = (
                    f"the server was not ready within {limit_seconds:g} s; its last line: {self._last_line()}"
                )
                raise ServerError(ErrorKind.TIMEOUT, msg, hint="see server log, or raise start_limit_seconds")
            time.sleep(_TICK_SECONDS)

    def healthy(self) -> bool:
        """Say whether this server, and no other, answers on its port with its model."""
        ready = self.alive() and self.api.healthy() and self.model_name in (self.api.models() or ())
        if ready and self.ready_seconds is None:
            self.ready_seconds = time.monotonic() - self._began
        return ready

    def require_alive(self) -> None:
        """Return if the server runs.

        Raises:
            ServerError: It has ended, with the reason that its log or its exit code tells. What it left
                behind has been ended too.
        """
        code = self._process.poll()
        if code is None:
            return
        self.stop()
        ended = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        failure = explain(self.log[-_TAIL_BYTES:], code if code else 1)
        message = f"the server ended with {ended}: {failure.message}"
        raise ServerError(failure.kind, message, hint=failure.hint)

    def stop(self) -> None:
        """End the server: politely, then its whole group, engine and workers included."""
        if self.alive():
            self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_TERMINATE_SECONDS)
        # A killed API server leaves its engine behind, with the GPU's memory.
        until = time.monotonic() + _KILL_SECONDS
        while living_members(self._process.pid) and time.monotonic() < until:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            time.sleep(0.05)
        self._process.wait(_KILL_SECONDS)

    def _last_line(self) -> str:
        lines = self.log[-_TAIL_BYTES:].strip().splitlines()
        return lines[-1][-300:] if lines else "none"


def free_port() -> int:
    """Return a port of the loopback address that nobody has."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def living_members(session: int) -> list[int]:
    """Return the processes of a session that have not ended."""
    members = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # After the name in brackets: state, parent, group, session.
            state, _, _, number = path.read_text().rpartition(")")[2].split()[:4]
            if int(number) == session and state not in {"Z", "X"}:
                members.append(int(path.parent.name))
    return members


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0
