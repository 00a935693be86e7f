"""Strict reading of what anybody may have written, and writing that never replaces."""

import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rentbench.core.documents import (
    MAX_DEPTH,
    read_document,
    read_toml,
    render_document,
    sha256_bytes,
    sha256_file,
    unfit,
    write_document,
)
from rentbench.core.errors import RentbenchError, UnusableInputError

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
trees = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)

HOSTILE = {
    "empty": (b"", "is empty"),
    "only white space": (b" \n\t", "is empty"),
    "byte order mark": (b'\xef\xbb\xbf{"a": 1}', "byte order mark"),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), "byte order mark"),
    "binary": (b"\x7fELF\x00\x00", "is binary"),
    "Latin-1": ('{"a": "é"}'.encode("latin-1"), "no UTF-8 text"),
    "cut off in an object": (b'{"a": [1, 2', "ends too early"),
    "cut off in a text": (b'{"a": "b', "ends too early"),
    "two documents": (b"{} {}", "no valid JSON: extra data"),
    "an array": (b"[]", "not a JSON object"),
    "a number": (b"12", "not a JSON object"),
    "duplicate key": (b'{"a": 1, "a": 2}', 'has the key "a" twice'),
    "duplicate key below": (b'{"a": [{"b": 1, "b": 1}]}', 'has the key "b" twice'),
    "NaN": (b'{"a": {"b": [0, NaN]}}', "/a/b/1 is nan"),
    "Infinity": (b'{"a": -Infinity}', "/a is -inf"),
    "overflow": (b'{"a": 1e999}', "/a is inf"),
    "integer of digits": (b'{"a": ' + b"9" * 5000 + b"}", "thousands of digits"),
    "integer beyond doubles": (b'{"a": 9007199254740993}', "/a is an integer"),
    "half a surrogate pair": (b'{"a": "\\ud83d"}', "surrogate"),
    "nesting": (b'{"a": ' + b"[" * 100 + b"]" * 100 + b"}", "nested deeper"),
    "endless nesting": (b'{"a":' * 200_000, "nested deeper"),
    "endless arrays": (b'{"a":' + b"[" * 500_000, "nested deeper"),
    "many objects": (b'{"a": [' + b"{}," * 2_000_000 + b"{}]}", "more than 2000000 objects"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_content_is_refused_with_a_reason(name: str, tmp_path: Path) -> None:
    raw, reason = HOSTILE[name]
    path = tmp_path / "measurement.json"
    path.write_bytes(raw)
    with pytest.raises(UnusableInputError) as caught:
        read_document(path)
    assert reason in caught.value.message
    assert str(path) in caught.value.message
    with pytest.raises(UnusableInputError):
        read_document(raw)


def test_escaped_pairs_of_surrogates_are_characters() -> None:
    assert read_document(b'{"a": "\\ud83d\\ude00"}') == {"a": "😀"}


def test_too_large_is_said_before_reading(tmp_path: Path) -> None:
    path = tmp_path / "sparse.json"
    with path.open("wb") as file:
        file.truncate(10**12)
    with pytest.raises(UnusableInputError, match="is larger than"):
        read_document(path)
    with pytest.raises(UnusableInputError, match="is larger than 3 bytes"):
        read_document(b'{"a": 1}', max_bytes=3)


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("{}")
    link = tmp_path / "link.json"
    link.symlink_to("real.json")
    loop = tmp_path / "loop.json"
    loop.symlink_to("loop.json")
    for path in (link, loop):
        with pytest.raises(UnusableInputError, match="symbolic link"):
            read_document(path)
    with pytest.raises(UnusableInputError, match="symbolic link"):
        sha256_file(link)


def test_a_pipe_without_writer_does_not_block(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    with pytest.raises(UnusableInputError, match="no regular file"):
        read_document(pipe)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/dev/zero", "no regular file"),
        ("missing.json", "is not there"),
        (".", "is a folder"),
        ("x\0y", "cannot be read"),
        ("n" * 5000, "cannot be read"),
        ("/dev/null/x.json", "cannot be read"),
    ],
)
def test_what_is_no_file_is_refused(path: str, reason: str) -> None:
    with pytest.raises(UnusableInputError, match=reason):
        read_document(Path(path))


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), trees, max_size=5))
def test_what_is_written_is_read_again(document: dict[str, Any]) -> None:
    raw = render_document(document)
    assert raw.endswith(b"\n")
    again = read_document(raw)
    assert again == document
    assert json.loads(raw) == document
    assert list(again) == list(document)


@given(
    st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass"))
)
def test_any_bytes_give_an_object_or_a_reason(raw: bytes) -> None:
    try:
        document: object = read_document(raw)
    except UnusableInputError:
        document = {}
    assert isinstance(document, dict)


def test_numbers_stand_on_one_line_and_objects_do_not() -> None:
    assert render_document({"a": [1, 2.5, None], "b": [{"c": []}], "d": {}}) == (
        b'{\n "a": [1, 2.5, null],\n "b": [\n  {\n   "c": []\n  }\n ],\n "d": {}\n}\n'
    )


def test_a_written_document_is_whole_and_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "measurement.json"
    digest = write_document(path, {"a": 1})
    assert digest == sha256_file(path) == sha256_bytes(path.read_bytes())
    with pytest.raises(RentbenchError, match="is there already"):
        write_document(path, {"a": 2})
    assert read_document(path) == {"a": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["measurement.json"]


def test_a_dangling_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "run.json").symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(RentbenchError, match="is there already"):
        write_document(tmp_path / "run.json", {})
    assert not (tmp_path / "elsewhere.json").exists()


def test_of_many_writers_one_wins(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    outcomes: list[str] = []

    def write(number: int) -> None:
        try:
            outcomes.append(write_document(path, {"number": number}))
        except RentbenchError:
            outcomes.append("refused")

    threads = [threading.Thread(target=write, args=(number,), daemon=True) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count("refused") == 7
    assert sha256_file(path) in outcomes


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        write_document(tmp_path / "run.json", {})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "run.json").stat().st_mode) == 0o644


@pytest.mark.parametrize(
    "document",
    [{"a": float("nan")}, {"a": [float("inf")]}, {"a": 2**60}, {"a": {1, 2}}, {"a": "\ud83d"}, {"a": Path()}],
)
def test_what_could_not_be_read_is_not_written(document: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(RentbenchError, match="cannot be written"):
        write_document(tmp_path / "run.json", document)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(RentbenchError, match="cannot be written: No such file"):
        write_document(tmp_path / "nowhere" / "run.json", {})


def test_the_limit_of_nesting_is_exact() -> None:
    def nested(levels: int) -> dict[str, Any]:
        return {"a": nested(levels - 1)} if levels > 1 else {}

    assert unfit(nested(MAX_DEPTH)) is None
    problem = unfit(nested(MAX_DEPTH + 1))
    assert problem is not None
    assert "nested deeper" in problem.message


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a = [" * 10_000, "nested deeper|no valid TOML"),
        ("a = inf", "/a is inf"),
        ("a = 1\na = 2", "no valid TOML"),
        ("a = " + "9" * 5000, "no valid TOML"),
        ("a", "no valid TOML"),
        ("", "is empty"),
    ],
)
def test_hostile_toml_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "suite.toml"
    path.write_text(text)
    with pytest.raises(UnusableInputError, match=reason):
        read_toml(path)
