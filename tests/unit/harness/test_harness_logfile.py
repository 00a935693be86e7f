from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rentbench.harness.logfile import HEAD_BYTES, MAX_LINE, TAIL_BYTES, LogFile


def log_of(folder: Path, *pieces: bytes) -> tuple[str, list[str]]:
    echoed: list[str] = []
    log = LogFile(folder / "log.txt", echoed.append)
    for piece in pieces:
        log.feed(piece)
    log.end_tail()
    log.close()
    return (folder / "log.txt").read_text(), echoed


def test_lines_may_come_in_pieces(tmp_path: Path) -> None:
    text, echoed = log_of(tmp_path, b"one\ntw", b"o\nthr", b"ee")
    assert text == "one\ntwo\nthree\n"
    assert echoed == ["one", "two", "three"]


def test_progress_bars_become_lines(tmp_path: Path) -> None:
    assert log_of(tmp_path, b"10%\r50%\r100%\r\ndone\n")[0] == "10%\n50%\n100%\ndone\n"


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        (b"\x1b[31mred\x1b[0m", "red"),
        (b"\x1b]0;title\x07after", "after"),
        (b"bell\x07 and null\x00", "bell and null"),
        (b"tab\tstays", "tab\tstays"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        ("häßlich × 2".encode(), "häßlich × 2"),
    ],
)
def test_nothing_acts_on_a_terminal(tmp_path: Path, raw: bytes, clean: str) -> None:
    assert log_of(tmp_path, raw + b"\n")[0] == f"{clean}\n"


def test_a_secret_is_gone_before_it_is_written_or_echoed(tmp_path: Path) -> None:
    secret = "hf_" + "QmVyeVNlY3JldFRva2VuMTIzNDU2Nzg5"
    text, echoed = log_of(tmp_path, f"token={secret}\n".encode())
    assert secret not in text
    assert secret not in "".join(echoed)


def test_an_endless_line_is_cut(tmp_path: Path) -> None:
    text, _ = log_of(tmp_path, *[b"x" * 100_000] * 50, b"\nnext\n")
    first, second = text.splitlines()
    assert len(first) < MAX_LINE + 100
    assert "more characters" in first
    assert second == "next"


def test_head_and_tail_are_kept_and_the_gap_is_counted(tmp_path: Path) -> None:
    lines = [f"{number:09d} {'y' * 989}" for number in range(8000)]  # a kilobyte each
    text, echoed = log_of(tmp_path, "".join(f"{line}\n" for line in lines).encode())
    kept = text.splitlines()
    assert kept[0] == lines[0]
    assert kept[-1] == lines[-1]
    assert len(text) < HEAD_BYTES + TAIL_BYTES + 10_000
    (gap,) = [line for line in kept if line.startswith("[")]
    assert int(gap[1:].split()[0]) + len(kept) - 1 == len(lines)
    assert echoed[-1] == "[the log is long; its rest is not shown]"


def test_the_tail_belongs_to_the_present_case(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "log.txt", lambda _line: None)
    log.feed(b"CUDA out of memory, and survived it\n")
    log.begin_tail()
    log.feed(b"Segmentation fault")
    assert log.end_tail() == "Segmentation fault"


def test_a_disk_that_is_full_costs_the_log_and_not_the_run() -> None:
    echoed: list[str] = []
    log = LogFile(Path("/dev/full"), echoed.append)
    log.feed(b"one\ntwo\n")
    log.close()
    assert log.error is not None
    assert "No space left" in str(log.error)
    assert echoed == ["one", "two"]


def test_a_folder_that_is_missing_is_no_end_either(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "missing" / "log.txt", lambda _line: None)
    log.feed(b"one\n")
    log.close()
    assert isinstance(log.error, FileNotFoundError)


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_whatever_comes_ends_up_as_printable_text(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]
) -> None:
    text, _ = log_of(tmp_path_factory.mktemp("log"), *pieces)
    # Unicode has more that does not print (private use, unassigned); none of it acts on a terminal.
    assert not [character for character in text if ord(character) < 32 and character not in "\n\t"]
    assert not [character for character in text if 0x7F <= ord(character) <= 0x9F]
