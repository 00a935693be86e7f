"""What the engine's words and a container's exit code mean.

The messages in engine_messages.tsv were seen on real engines, or are quoted in public issues.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from rentbench.core.errors import ErrorKind
from rentbench.driver.failures import engine_failure, exit_failure

MESSAGES = Path(__file__).parents[2] / "fixtures" / "driver" / "engine_messages.tsv"


def messages() -> list[list[str]]:
    """Return kind, words of our message, and the engine's message."""
    with MESSAGES.open(newline="") as file:
        return list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]


@pytest.mark.parametrize(("kind", "words", "text"), messages())
def test_the_engines_words_have_a_name(kind: str, words: str, text: str) -> None:
    failure = engine_failure(text, during="starting the container")
    assert failure.kind == kind
    assert words in failure.message
    assert failure.hint or kind == "engine_error"


@pytest.mark.parametrize("code", [0, 2, 3, 4, 5])
def test_the_harness_own_exit_codes_are_no_failure(code: int) -> None:
    assert exit_failure(code, oom_killed=False, tail="", memory_limit=None) is None


@pytest.mark.parametrize(
    ("code", "tail", "kind"),
    [
        (1, "Traceback (most recent call last):", ErrorKind.CRASHED),
        (126, "", ErrorKind.COMMAND_NOT_EXECUTABLE),
        (127, "", ErrorKind.COMMAND_MISSING),
        (127, "[FATAL tini (7)] exec /x failed: No such file or directory", ErrorKind.COMMAND_MISSING),
        (126, "[FATAL tini (7)] exec /x failed: Permission denied", ErrorKind.COMMAND_NOT_EXECUTABLE),
        (1, "exec /x: exec format error", ErrorKind.UNSUPPORTED_PLATFORM),
        (
            1,
            "standard_init_linux.go:228: exec user process caused: exec format error",
            ErrorKind.UNSUPPORTED_PLATFORM,
        ),
        (134, "", ErrorKind.CRASHED),
        (137, "", ErrorKind.KILLED),
        (139, "", ErrorKind.CRASHED),
        (143, "", ErrorKind.KILLED),
        (255, "", ErrorKind.CRASHED),
    ],
)
def test_other_exit_codes_have_a_name(code: int, tail: str, kind: ErrorKind) -> None:
    failure = exit_failure(code, oom_killed=False, tail=tail, memory_limit=None)
    assert failure is not None
    assert failure.kind is kind


def test_the_signal_is_named() -> None:
    failure = exit_failure(134, oom_killed=False, tail="", memory_limit=None)
    assert failure is not None
    assert "SIGABRT" in failure.message


@pytest.mark.parametrize("code", [0, 3, 137])
def test_out_of_memory_is_told_whatever_the_exit_code(code: int) -> None:
    failure = exit_failure(code, oom_killed=True, tail="", memory_limit=2**30)
    assert failure is not None
    assert failure.kind is ErrorKind.HOST_OOM
    assert "1.0 GiB" in failure.message
