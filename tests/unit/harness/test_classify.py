"""Failures as they were seen in the field, and what they must not be taken for."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from rentbench.core.errors import ErrorKind, UsageError
from rentbench.core.schemas import schema
from rentbench.harness.failures.classify import classify

FILE = Path(__file__).parents[2] / "fixtures" / "failures" / "seen.tsv"
SEEN = [
    (case, kind, text.replace("\\n", "\n"))
    for case, kind, text in (line.split("\t", 2) for line in FILE.read_text().splitlines() if line[0] != "#")
]


def seen(part: str) -> str:
    """Return the first failure of the file that holds these words."""
    return next(text for _, _, text in SEEN if part in text)


NOT_OOM = [
    "RuntimeError: CUDA error: an illegal memory access was encountered",
    "RuntimeError: CUDA error: misaligned address",
    "RuntimeError: CUDA error: device-side assert triggered",
]

HARMLESS = [
    "num_ooms: 0, alloc retries: 0, max_memory_allocated: 429 MiB",
    "except torch.cuda.OutOfMemoryError:",
    "429 tokens/s, 401 requests, 403 done",
    "NCCL INFO NCCL_IB_TIMEOUT set by environment to 22",
    "using 79 layers and Xid 79 of the table",
    "loss 0.25 at step 137",
]


def check(error: dict[str, Any]) -> None:
    whole = schema("measurement")
    jsonschema.validate(error, {"$defs": whole["$defs"], "$ref": "#/$defs/error"})


@pytest.mark.parametrize(("case", "kind", "text"), SEEN)
def test_a_failure_that_was_seen(case: str, kind: str, text: str) -> None:
    error = classify(f"step 1 done\n{text}\n", returncode=1)
    check(dict(error))
    assert error["kind"] == kind, case
    assert error["hint"]
    assert error["message"] in text


@pytest.mark.parametrize(("case", "kind", "text"), SEEN)
def test_the_same_failure_as_an_exception(case: str, kind: str, text: str) -> None:
    name, _, said = text.partition(": ")
    if said and " " not in name:  # Type: message
        failure = type(name.rpartition(".")[2], (Exception,), {})(said)
    else:
        failure = RuntimeError(text)
    error = classify("", exception=failure, phase="load")
    check(dict(error))
    assert (error["kind"], error["phase"]) == (kind, "load"), case


@pytest.mark.parametrize("text", NOT_OOM)
def test_a_wild_pointer_is_no_lack_of_memory(text: str) -> None:
    assert classify(text, returncode=1)["kind"] == "crashed"


@pytest.mark.parametrize("text", HARMLESS)
def test_lines_that_only_look_like_failures(text: str) -> None:
    assert classify(text, returncode=1)["kind"] == "crashed"
    assert classify(text, returncode=1)["message"] == "the program ended with exit code 1"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (seen("Free memory on device"), ["31.44", "47.38", "45.01"]),
        (seen("Bfloat16 is only"), ["8.0", "7.0"]),
        (seen("found version 11040"), ["CUDA 11.4"]),
        (seen("cuda>=12.8"), ["12.8"]),
        (seen("libbitsandbytes_cuda128"), ["CUDA 128"]),
        (
            "V100 with CUDA capability sm_70 is not compatible with the current PyTorch installation.\n"  # noqa: ISC004
            "The current PyTorch install supports CUDA capabilities sm_75 sm_80 sm_90.",
            ["sm_70", "sm_75 sm_80 sm_90"],
        ),
        (seen("posix_fallocate"), ["--shm-size"]),
        (seen("Watchdog"), ["NCCL_P2P_DISABLE=1"]),
    ],
)
def test_the_hint_has_the_numbers(text: str, words: list[str]) -> None:
    hint = classify(text, returncode=1)["hint"]
    assert hint
    assert all(word in hint for word in words)


def test_the_memory_at_the_moment_of_the_failure() -> None:
    assert classify(seen("Of the allocated memory"), returncode=1)["memory_allocated_bytes"] == int(
        40.5 * 2**30
    )
    assert classify(seen("already allocated"), returncode=1)["memory_allocated_bytes"] == 20 * 2**30
    assert classify("CUDA error: out of memory", returncode=1)["memory_allocated_bytes"] is None


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        (-9, "killed", "SIGKILL"), (137, "killed", "SIGKILL"), (-15, "interrupted", "SIGTERM"),
        (143, "interrupted", "SIGTERM"), (-2, "interrupted", "SIGINT"), (130, "interrupted", "SIGINT"),
        (-11, "crashed", "SIGSEGV"), (139, "crashed", "SIGSEGV"), (-6, "crashed", "SIGABRT"),
        (1, "crashed", "exit code 1"), (125, "engine_error", "125"), (126, "command_not_executable", "126"),
        (127, "command_missing", "127"), (250, "crashed", "exit code 250"),
    ],
)  # fmt: skip
def test_how_a_program_ended(code: int, kind: str, message: str) -> None:
    error = classify("working\n", returncode=code)
    check(dict(error))
    assert error["kind"] == kind
    assert message in error["message"]


def test_what_was_printed_tells_more_than_how_it_ended() -> None:
    assert classify(seen("Tried to allocate 20.00 MiB"), returncode=-6)["kind"] == "oom"


def test_old_lines_do_not_count() -> None:
    text = "RuntimeError: CUDA error: out of memory\n" + "step\n" * 300
    assert classify(text, returncode=-11)["kind"] == "crashed"


@pytest.mark.parametrize(
    ("exception", "kind"),
    [
        (KeyboardInterrupt(), "interrupted"),
        (MemoryError(), "host_oom"),
        (OSError(errno.ENOSPC, "full", "/cache"), "disk_full"),
        (PermissionError(errno.EACCES, "no"), "permission_denied"),
        (OSError(errno.EROFS, "read only"), "permission_denied"),
        (ImportError("cannot import name 'x'"), "dependency_missing"),
        (ConnectionResetError(errno.ECONNRESET, "peer"), "network"),
        (TimeoutError("too long"), "timeout"),
        (UsageError("no such case", hint="see --list-cases"), "usage"),
        (ValueError("some bug"), "internal"),
    ],
)
def test_exceptions_by_their_type(exception: BaseException, kind: str) -> None:
    error = classify("", exception=exception)
    check(dict(error))
    assert error["kind"] == kind


def test_a_wrapped_exception_is_found() -> None:
    try:
        try:
            msg = "CUDA error: out of memory"
            raise RuntimeError(msg)
        except RuntimeError as error:
            msg = "engine failed"
            raise ValueError(msg) from error
    except ValueError as error:
        found = classify("", exception=error)
    assert (found["kind"], found["message"]) == ("oom", "ValueError: engine failed")


def test_an_exception_that_cannot_be_shown() -> None:
    class BrokenError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert classify("", exception=BrokenError())["message"] == "BrokenError"


def test_secrets_do_not_come_out() -> None:
    text = "PermissionError: /home/alice/x hf_aBcDeFgHiJkLmNoP 203.0.113.7 Permission denied"
    error = classify(text, exception=RuntimeError(text))
    for secret in ("alice", "hf_aBc", "203.0.113.7"):
        assert secret not in repr(error)


def test_every_kind_is_in_the_closed_list() -> None:
    assert {kind for _, kind, _ in SEEN} <= set(ErrorKind)
