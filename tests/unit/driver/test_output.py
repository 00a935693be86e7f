"""Lines, progress and the kept log of a container's output."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rentbench.driver.output import MAX_LINE, LineSplitter, Log, Progress, plain_text, read_progress


def split(*chunks: bytes) -> list[str]:
    splitter = LineSplitter()
    return [line for chunk in chunks for line in splitter.feed(chunk)] + splitter.close()


def test_lines_are_put_together_from_chunks() -> None:
    assert split(b"one\ntw", b"o\n", b"\nthr", b"ee") == ["one", "two", "", "three"]


def test_a_carriage_return_ends_a_line_as_progress_bars_use_it() -> None:
    assert split(b"10 %\r20 %\r\nend\r\n") == ["10 %", "20 %", "end"]


def test_a_character_cut_in_two_is_whole_again() -> None:
    raw = "45 °C – ok\n".encode()
    assert split(raw[:4], raw[4:]) == ["45 °C – ok"]
    assert split(b"\xff broken\n") == ["\N{REPLACEMENT CHARACTER} broken"]


def test_an_endless_line_is_cut_and_the_next_is_whole() -> None:
    chunks = [b"x" * 10_000] * 1000
    assert split(*chunks, b"\nnext\n") == ["x" * MAX_LINE, "next"]


@settings(deadline=None)  # the machine may be busy
@given(st.lists(st.binary(max_size=50), max_size=20))
def test_cuts_do_not_matter(parts: list[bytes]) -> None:
    assert split(*parts) == split(b"".join(parts))


@settings(deadline=None)  # the machine may be busy
@given(st.text())
def test_plain_text_never_acts_on_a_terminal(text: str) -> None:
    plain = plain_text(text)
    assert all(character.isprintable() for character in plain)
    assert plain_text(plain) == plain


def test_the_log_keeps_both_ends() -> None:
    log = Log()
    for number in range(20_000):
        log.add(str(number))
    lines = log.text().splitlines()
    assert (lines[0], lines[-1]) == ("0", "19999")
    assert "[… 13000 lines left out …]" in lines
    assert log.last(2) == "19998\n19999"


def test_a_short_log_is_whole() -> None:
    log = Log()
    assert log.text() == ""
    log.add("only")
    assert log.text() == "only\n"
    assert log.last() == "only"


def test_progress_is_read() -> None:
    line = json.dumps({"rentbench": "progress", "done": 3, "total": 9, "text": "op=matmul"})
    assert read_progress(line) == Progress(done=3, total=9, text="op=matmul")


@pytest.mark.parametrize(
    "line",
    [
        "plain",
        '{"rentbench": "progress"}',
        '{"rentbench": "other", "done": 1, "total": 2, "text": "x"}',
        '{"rentbench": "progress", "done": "1", "total": 2, "text": "x"}',
        '{"rentbench": "progress", "done": -1, "total": 2, "text": "x"}',
        '{"rentbench": "progress", "done": 1, "total": 2, "text": "x"',
        '{"rentbench"' + "[" * 10_000,
    ],
)
def test_any_other_line_is_no_progress(line: str) -> None:
    assert read_progress(line) is None


@settings(deadline=None)  # the machine may be busy
@given(st.lists(st.sampled_from([b"a", b"\r", b"\n", b"\r\n"]), max_size=12))
def test_line_ends_may_be_cut_in_two(parts: list[bytes]) -> None:
    assert split(*parts) == split(b"".join(parts))
