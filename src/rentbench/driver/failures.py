"""Named failures as the driver sees them: from the engine's words, and from how a container ended."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import Any

from rentbench.core.errors import ErrorKind, ExitCode, RentbenchError

__all__ = ["Failure", "RunFailedError", "engine_failure", "exit_failure"]

_HARNESS_EXITS = {int(code) for code in ExitCode}
_MESSAGE_LIMIT = 1000


@dataclass(frozen=True, kw_only=True)
class Failure:
    """What went wrong around a workload.

    Attributes:
        kind: From the one closed list.
        message: What happened.
        hint: What to do about it.
        log_tail: The last lines of the container's output, where they tell more.
    """

    kind: ErrorKind
    message: str
    hint: str | None = None
    log_tail: str | None = None

    def document(self) -> dict[str, Any]:
        """Return the failure as documents hold it."""
        return {
            "kind": self.kind.value,
            "message": self.message,
            "hint": self.hint,
            "phase": None,
            "memory_allocated_bytes": None,
            "log_tail": self.log_tail,
        }


class RunFailedError(RentbenchError):
    """A run cannot go on; carries the failure that its document records."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message, hint=failure.hint)
        self.failure = failure


@dataclass(frozen=True, kw_only=True)
class _Rule:
    """What a pattern in the engine's words means; the message may use the pattern's groups."""

    kind: ErrorKind
    pattern: str
    message: str | None = None
    hint: str


_BROKEN_IMAGE = "is this an image of rentbench, and whole?"

# Engine, runtime and NVIDIA's hook in their own words; the first match wins.
_RULES = (
    _Rule(
        kind=ErrorKind.NO_CONTAINER_TOOLKIT,
        pattern=r'could not select device driver|unknown runtime specified "?nvidia|unresolvable CDI devices',
        message="Docker cannot hand GPUs to containers on this host",
        hint="install the NVIDIA container toolkit and restart Docker; on CPU: --gpus none --preset smoke",
    ),
    _Rule(
        kind=ErrorKind.DRIVER_TOO_OLD,
        pattern=r"requirement error: unsatisfied condition: (?P<needed>[a-z]+ ?[<>=!]+ ?[0-9.]+)",
        message="the NVIDIA driver is too old for this image, which needs {needed}",
        hint="update the NVIDIA driver, or use an image for an older CUDA",
    ),
    _Rule(
        kind=ErrorKind.DRIVER_MISMATCH,
        pattern=r"driver/library version mismatch",
        message="the NVIDIA driver's kernel module and its libraries differ in version",
        hint="the driver was updated while loaded: reboot the host",
    ),
    _Rule(
        kind=ErrorKind.NO_GPU,
        pattern=r"nvml error: driver not loaded|driver rpc error|libnvidia-ml\.so\.1: cannot open",
        message="the host has the NVIDIA container toolkit, but no NVIDIA driver that works",
        hint="nvidia-smi on the host tells whether a driver is loaded",
    ),
    _Rule(
        kind=ErrorKind.NO_GPU,
        pattern=r'nvidia-container-cli: device error: (?P<what>[^\n"]{1,200})',
        message="a GPU that was asked for is not there: {what}",
        hint="nvidia-smi on the host lists the GPUs that there are",
    ),
    _Rule(
        kind=ErrorKind.HOST_FAULT,
        pattern=r"nvidia-container-cli",
        hint="does nvidia-smi work on the host?",
    ),
    _Rule(
        kind=ErrorKind.UNSUPPORTED_PLATFORM,
        pattern=r"exec format error|no matching manifest for|does not match the (?:specified|detected)",
        hint="the image must be built for the host's processor",
    ),
    _Rule(
        kind=ErrorKind.DISK_FULL,
        pattern=r"no space left on device",
        hint="free some space where Docker keeps its data",
    ),
    _Rule(
        kind=ErrorKind.COMMAND_MISSING,
        pattern=r"exec.*(?:executable file not found|no such file or directory)",
        hint=_BROKEN_IMAGE,
    ),
    _Rule(
        kind=ErrorKind.COMMAND_NOT_EXECUTABLE,
        pattern=r"exec.*permission denied",
        hint=_BROKEN_IMAGE,
    ),
    _Rule(
        kind=ErrorKind.IMAGE_MISSING,
        pattern=r"no such image|manifest unknown|manifest for \S+ not found|pull access denied",
        hint="rentbench image list shows what is here; rentbench image build IMAGE makes one",
    ),
    _Rule(
        kind=ErrorKind.NETWORK,
        pattern=r"no such host|connection (?:refused|reset)|(?:i/o|handshake) timeout|network is unreachable",
        hint="is the network up, and may this host reach the registry?",
    ),
    _Rule(
        kind=ErrorKind.USAGE,
        pattern=r"network \S+ not found",
        hint="docker network ls shows what --network can name",
    ),
)


def engine_failure(text: str, *, during: str) -> Failure:
    """Return the failure that the engine's error message means.

    Args:
        text: The message, as the engine gave it.
        during: What was being done: "starting the container".
    """
    text = " ".join(text.split())[:_MESSAGE_LIMIT]
    for rule in _RULES:
        found = re.search(rule.pattern, text, re.IGNORECASE)
        if found:
            message = rule.message.format(**found.groupdict()) if rule.message else f"{during} failed: {text}"
            return Failure(kind=rule.kind, message=message, hint=rule.hint, log_tail=text)
    return Failure(kind=ErrorKind.ENGINE_ERROR, message=f"{during} failed: {text}")


def exit_failure(exit_code: int, *, oom_killed: bool, tail: str, memory_limit: int | None) -> Failure | None:
    """Return the failure that the way a container ended means; None where the harness's own result tells all.

    Args:
        exit_code: Of the container's first process.
        oom_killed: Whether the kernel killed something in it for memory. It does so to a child as well, and
            the container can then end with 0.
        tail: The last lines of its output.
        memory_limit: Bytes that the container could use.
    """
    tail_or_none = tail or None
    if oom_killed:
        limit = f" ({memory_limit / 2**30:.1f} GiB)" if memory_limit else ""
        return Failure(
            kind=ErrorKind.HOST_OOM,
            message=f"the kernel killed a process of the container for exceeding its memory{limit}",
            hint="give it more with --memory, or use a smaller preset or case",
            log_tail=tail_or_none,
        )
    if exit_code in _HARNESS_EXITS:
        return None
    refused = re.search(r"\bexec (?:\S+ failed|\S+|user process caused): (?P<why>[^\n]+)", tail)
    if refused:
        # Said inside the container, by Docker's init or by the runtime after the engine called it started.
        return engine_failure(f"exec: {refused['why']}", during="starting the program in the container")
    if exit_code in (126, 127):
        kind = ErrorKind.COMMAND_NOT_EXECUTABLE if exit_code == 126 else ErrorKind.COMMAND_MISSING
        what = "cannot be executed" if exit_code == 126 else "is not there"
        return Failure(
            kind=kind,
            message=f"a program in the container {what} (exit code {exit_code})",
            hint="is this an image of rentbench, and whole?",
            log_tail=tail_or_none,
        )
    name = _signal_name(exit_code - 128)
    if name in ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"):
        return Failure(
            kind=ErrorKind.KILLED,
            message=f"the container was stopped from outside (exit code {exit_code}, {name})",
            hint="by docker stop or kill, a restart of the engine, or the host's own lack of memory (dmesg)",
            log_tail=tail_or_none,
        )
    return Failure(
        kind=ErrorKind.CRASHED,
        message=f"the container ended with exit code {exit_code}" + (f" ({name})" if name else ""),
        log_tail=tail_or_none,
    )


def _signal_name(number: int) -> str | None:
    try:
        return signal.Signals(number).name
    except ValueError:
        return None
