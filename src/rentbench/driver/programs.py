"""Running other programs: bounded in time, their own words in the error, nothing left behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections import deque
from typing import TYPE_CHECKING

from rentbench.core.errors import DependencyMissingError, RentbenchError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["ProgramError", "capture", "find_program", "stream"]

_TAIL_LINES = 20


class ProgramError(RentbenchError):
    """A program failed or took too long.

    Attributes:
        output: The last lines of what it printed.
    """

    def __init__(self, message: str, *, hint: str | None = None, output: str = "") -> None:
        super().__init__(message, hint=hint)
        self.output = output

    @property
    def last_words(self) -> str | None:
        """The end of the output on one line, for a hint."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        return "; ".join(lines[-3:]) or None


def find_program(name: str, *, package: str) -> str:
    """Return the path of a program.

    Args:
        name: What it is called.
        package: The Debian package that brings it, for the hint.

    Raises:
        DependencyMissingError: It is not installed.
    """
    path = shutil.which(name)
    if path is None:
        msg = f"the program {name} is not installed"
        raise DependencyMissingError(msg, hint=f"on Debian or Ubuntu: apt-get install {package}")
    return path


def capture(command: Sequence[str], *, timeout: float) -> str:
    """Run a short command and return what it wrote to standard output.

    Args:
        command: Program and arguments.
        timeout: Seconds after which it is killed.

    Raises:
        ProgramError: It failed, took too long, or cannot be started.
    """
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=timeout, check=False, text=True, errors="replace"
        )
    except subprocess.TimeoutExpired as error:
        msg = f"{command[0]} gave no answer within {timeout:g} s"
        raise ProgramError(msg) from error
    except OSError as error:
        msg = f"{command[0]} cannot be started: {error.strerror or error}"
        raise ProgramError(msg) from error
    if done.returncode != 0:
        raise _failed(command, done.returncode, done.stderr.splitlines()[-_TAIL_LINES:])
    return done.stdout


def stream(
    command: Sequence[str],
    *,
    timeout: float,
    on_line: Callable[[str], None],
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run a long command and hand over every line that it prints, standard error included.

    Args:
        command: Program and arguments.
        timeout: Seconds after which it and its children are killed.
        on_line: Called with each line, without its end.
        environment: What to add to the environment.

    Raises:
        ProgramError: It failed, took too long, or cannot be started; `output` holds its last lines.
    """
    tail: deque[str] = deque(maxlen=_TAIL_LINES)
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        msg = f"{command[0]} cannot be started: {error.strerror or error}"
        raise ProgramError(msg) from error
    late = threading.Event()

    def stop() -> None:
        late.set()
        _kill_group(process)

    timer = threading.Timer(timeout, stop)
    timer.start()
    try:
        assert process.stdout is not None  # noqa: S101 - asked for above; tells the type checker
        for line in process.stdout:
            tail.append(line.rstrip("\n"))
            on_line(tail[-1])
        returncode = process.wait()
    finally:
        timer.cancel()
        _kill_group(process)  # also on Ctrl-C: the program has a group of its own and does not get it
        process.wait()
    if late.is_set():
        msg = f"{command[0]} was stopped: it took more than {timeout:g} s"
        raise ProgramError(msg, output="\n".join(tail))
    if returncode != 0:
        raise _failed(command, returncode, list(tail))


def _failed(command: Sequence[str], returncode: int, tail: list[str]) -> ProgramError:
    output = "\n".join(tail)
    msg = f"{' '.join(command[:2])} failed with exit code {returncode}"
    last = next((line.strip() for line in reversed(tail) if line.strip()), "")
    return ProgramError(f"{msg}: {last}" if last else msg, output=output)


def _kill_group(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
