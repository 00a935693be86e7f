"""What went wrong, told from an exception, an exit code and what the program printed."""

from __future__ import annotations

import errno
import re
import signal
import sys
from typing import TYPE_CHECKING, Any, Final, TypedDict

from rentbench.core.errors import ErrorKind, UsageError
from rentbench.harness.failures.patterns import RULES
from rentbench.harness.privacy import redact

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ErrorDocument", "classify"]

# Earlier lines tell of what was overcome.
_MAX_LINES: Final = 200
_MAX_TAIL: Final = 60_000
_MAX_MESSAGE: Final = 4000
_MAX_LINE: Final = 1000
_GIB: Final = 1 << 30

_ERRNO_KINDS: Final = {
    errno.ENOSPC: (ErrorKind.DISK_FULL, "free some space, or mount a larger disk"),
    errno.EDQUOT: (ErrorKind.DISK_FULL, "free some space, or mount a larger disk"),
    errno.ENOMEM: (ErrorKind.HOST_OOM, "the machine or the container ran out of main memory"),
    errno.EACCES: (ErrorKind.PERMISSION_DENIED, "let this user write there, or choose another folder"),
    errno.EPERM: (ErrorKind.PERMISSION_DENIED, "let this user write there, or choose another folder"),
    errno.EROFS: (ErrorKind.PERMISSION_DENIED, "let this user write there, or choose another folder"),
}
_TYPE_KINDS: Final = (
    (KeyboardInterrupt, ErrorKind.INTERRUPTED, None),
    (MemoryError, ErrorKind.HOST_OOM, "the machine or the container ran out of main memory"),
    (ImportError, ErrorKind.DEPENDENCY_MISSING, "install it, or take the image that has it"),
    (TimeoutError, ErrorKind.TIMEOUT, None),
    (ConnectionError, ErrorKind.NETWORK, "the network or a server did not answer: try again"),
)
# Exit codes of a shell and of Docker.
_CODE_KINDS: Final = {
    125: (ErrorKind.ENGINE_ERROR, "the container engine could not start the container"),
    126: (ErrorKind.COMMAND_NOT_EXECUTABLE, "the image's command cannot be executed"),
    127: (ErrorKind.COMMAND_MISSING, "the image does not have this command"),
}
_KILLED_HINT: Final = (
    "the out-of-memory killer does this, and so does a time limit: see the host's kernel log"
)
_BUS_ERROR_HINT: Final = "a full /dev/shm does this: give the container more shared memory (--shm-size=16g)"
_ALLOCATED: Final = re.compile(
    r"Of the allocated memory ([\d.]+) ([KMG]iB) is allocated by PyTorch|([\d.]+) ([KMG]iB) already allocated"
)
_UNITS: Final = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": _GIB}


class ErrorDocument(TypedDict):
    """An error as measurement documents hold it (`$defs/error`)."""

    kind: str
    message: str
    hint: str | None
    phase: str | None
    memory_allocated_bytes: int | None
    log_tail: str | None


def classify(
    text: str,
    *,
    returncode: int | None = None,
    exception: BaseException | None = None,
    phase: str | None = None,
) -> ErrorDocument:
    """Return the error that fits, with every identifier removed from its texts.

    The exception decides, else what the program printed last, else how it ended.

    Args:
        text: What the program printed; its end is kept as `log_tail`.
        returncode: The process's exit code as `subprocess` gives it (negative: killed by that signal).
        exception: The exception, where it was caught in this process.
        phase: What was being done (`load`, `measure`, …).
    """
    tail = "\n".join(text.splitlines()[-_MAX_LINES:])[-_MAX_TAIL:]
    kind, message, hint = (
        (exception and _of_exception(exception)) or _of_text(tail) or _of_ending(returncode, exception, tail)
    )
    said = f"{'' if exception is None else _message(exception)}\n{tail}"
    if kind == ErrorKind.UNSUPPORTED_ARCH:
        hint = f"{hint}; {_architectures(said)}"
    return ErrorDocument(
        kind=str(kind),
        message=redact(message).strip()[:_MAX_MESSAGE] or str(kind),
        hint=hint and redact(hint)[:_MAX_MESSAGE],
        phase=phase,
        memory_allocated_bytes=_allocated(said) if kind == ErrorKind.OOM else None,
        log_tail=redact(tail) if tail.strip() else None,
    )


Finding = tuple[ErrorKind, str, str | None]


def _of_exception(exception: BaseException) -> Finding | None:
    message = _message(exception)
    if isinstance(exception, UsageError):
        return ErrorKind.USAGE, exception.message, exception.hint
    for link in _chain(exception):
        found = _of_text(_message(link))
        if found:
            return found[0], message, found[2]
    for link in _chain(exception):
        if isinstance(link, OSError) and link.errno in _ERRNO_KINDS:
            kind, hint = _ERRNO_KINDS[link.errno]
            return kind, message, hint
        for base, kind, advice in _TYPE_KINDS:
            if isinstance(link, base):
                return kind, message, advice
    return None


def _chain(exception: BaseException) -> Iterator[BaseException]:
    """Yield the exception and those that led to it; a library often wraps the one that tells."""
    seen: set[int] = set()
    link: BaseException | None = exception
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)


def _message(exception: BaseException) -> str:
    name = type(exception).__name__
    try:
        said = str(exception).strip()
    except Exception:  # noqa: BLE001 (a library's own __str__ may fail; the name is still worth something)
        said = ""
    return f"{name}: {said}" if said else name


def _of_text(text: str) -> Finding | None:
    for rule in RULES:
        match = rule.pattern.search(text)
        if match:
            begin = text.rfind("\n", 0, match.start()) + 1
            end = text.find("\n", match.end())
            line = text[begin : end if end >= 0 else None].strip()[:_MAX_LINE]
            return rule.kind, line, _fill(rule.hint, match)
    return None


def _fill(hint: str | None, match: re.Match[str]) -> str | None:
    groups = {name: value for name, value in match.groupdict().items() if value}
    if "found" in groups and groups["found"].isdigit():  # 11040 is CUDA 11.4
        number = int(groups["found"])
        groups["found"] = f"{number // 1000}.{number % 1000 // 10}"
    return hint.format_map(groups) if hint else None


def _of_ending(returncode: int | None, exception: BaseException | None, tail: str) -> Finding:
    if exception is not None:
        return ErrorKind.INTERNAL, _message(exception), None
    if returncode is None:
        last = tail.strip().splitlines()[-1:] or ["no message"]
        return ErrorKind.CRASHED, last[0], None
    if returncode in _CODE_KINDS:
        kind, hint = _CODE_KINDS[returncode]
        return kind, f"the program ended with exit code {returncode}", hint
    number = -returncode if returncode < 0 else returncode - 128
    try:
        name = signal.Signals(number).name
    except ValueError:
        return ErrorKind.CRASHED, f"the program ended with exit code {returncode}", None
    message = f"the program was ended by {name}"
    if number == signal.SIGKILL:
        return ErrorKind.KILLED, message, _KILLED_HINT
    if number in {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}:
        return ErrorKind.INTERRUPTED, message, None
    return ErrorKind.CRASHED, message, _BUS_ERROR_HINT if number == signal.SIGBUS else None


def _allocated(text: str) -> int | None:
    """Return what PyTorch had allocated when memory ran out; its wording changed with 2.1."""
    match = _ALLOCATED.search(text)
    if match is None:
        return None
    return int(float(match[1] or match[3]) * _UNITS[match[2] or match[4]])


def _architectures(text: str) -> str:
    """Return what the GPU is and what the build is for, by PyTorch where it is loaded, else by the text."""
    torch: Any = sys.modules.get("torch")
    built: list[str] = []
    device = ""
    if torch is not None:
        try:
            built = torch.cuda.get_arch_list()
            device = "sm_{}{}".format(*torch.cuda.get_device_capability())
        except Exception:  # noqa: BLE001 (CUDA may be beyond answering now)
            built = built or []
    if match := re.search(r"CUDA capability (sm_\d+)", text):
        device = device or match[1]
    if match := re.search(r"supports CUDA capabilities ([\w ]+)", text):
        built = built or match[1].split()
    return f"the GPU is {device or 'of an unknown one'}, the build is for {' '.join(built) or 'unknown ones'}"
