"""Asking what may never answer: every question has a time limit and brings an answer or a reason."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Answer", "module_command", "module_environment", "run_tool", "within", "without_escapes"]

# What is read of a tool's output; `nvidia-smi -q -x` of eight GPUs is some 300 kB.
_MAX_OUTPUT_BYTES: Final = 16 << 20
_KILL_SECONDS: Final = 2.0
# ECMA-48: control sequences (colours, the cursor) and operating system commands (a window's title).
_ESCAPES: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a program said.

    Attributes:
        output: Its standard output, also when it failed or was killed.
        problem: Why the output is not what was asked for; None when it is.
    """

    output: str
    problem: str | None


def run_tool(
    command: Sequence[str],
    *,
    timeout_seconds: float,
    name: str | None = None,
    env: dict[str, str] | None = None,
) -> Answer:
    """Run a program and return what it said; never raises.

    One that takes too long is killed with all that it started. A program that the kernel cannot kill (a
    driver call that hangs) is left behind rather than waited for. Output goes to memory files, not pipes: a
    pipe stays open as long as any descendant holds it.

    Args:
        command: Program and arguments.
        timeout_seconds: For the whole of it.
        name: What to call it in a problem; the program's own name by default.
        env: Its environment; this process's by default.
    """
    name = name or Path(command[0]).name
    with _memory_file() as stdout, _memory_file() as stderr:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env={**(os.environ if env is None else env), "LC_ALL": "C"},
                start_new_session=True,
            )
        except FileNotFoundError:
            return Answer(output="", problem=f"{name} is not installed")
        except OSError as error:
            return Answer(output="", problem=f"{name} cannot be started: {error.strerror}")
        try:
            code = process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            _kill(process)
            problem = f"{name} gave no answer within {timeout_seconds:g} s and was killed"
            return Answer(output=_text(stdout), problem=problem)
        output = _text(stdout)
        if code == 0:
            return Answer(output=output, problem=None)
        said = (_text(stderr).strip() or output.strip()).splitlines()
        ending = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return Answer(output=output, problem=f"{name} {ending}" + (f": {said[-1][:300]}" if said else ""))


def within(timeout_seconds: float, question: Callable[[], T]) -> T:
    """Return what the call returns; one that does not come back is left behind in its thread.

    Raises:
        TimeoutError: No answer in time.
        Exception: Whatever the call raises.
    """
    box: dict[str, Any] = {}

    def ask() -> None:
        try:
            box["answer"] = question()
        except Exception as error:  # noqa: BLE001 (raised again below, in the caller's thread)
            box["error"] = error

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(timeout_seconds)
    if "error" in box:
        raise box["error"]
    if "answer" not in box:
        msg = f"no answer within {timeout_seconds:g} s"
        raise TimeoutError(msg)
    answer: T = box["answer"]
    return answer


def without_escapes(text: str) -> str:
    """Return a text without the terminal's escape sequences."""
    return _ESCAPES.sub("", text)


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of this package in a fresh interpreter."""
    return [sys.executable, "-m", module, *arguments]


def module_environment() -> dict[str, str]:
    """Return the environment in which `module_command` finds this package, wherever it was imported from."""
    package = str(Path(__file__).resolve().parents[2])
    paths = [package, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_KILL_SECONDS)


def _memory_file() -> IO[bytes]:
    return os.fdopen(os.memfd_create("output"), "w+b")


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(_MAX_OUTPUT_BYTES).decode("utf-8", "replace")
