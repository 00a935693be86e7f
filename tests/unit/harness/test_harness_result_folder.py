from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rentbench.core.errors import RentbenchError
from rentbench.core.problems import Problem
from rentbench.harness.results import ResultFolder

PLACE = Path("gemm", "cpu", "20261130T000000Z-x")


def test_a_result_appears_under_its_name_only_when_it_is_complete(tmp_path: Path) -> None:
    results = ResultFolder(tmp_path / "results", "x")
    results.add("notes.txt", b"hello", "notes")
    assert [path.name for path in (tmp_path / "results").iterdir()] == [".rentbench-x"]
    path = results.publish({"status": "ok"}, PLACE)
    assert path == tmp_path / "results" / PLACE
    assert {entry.name for entry in path.iterdir()} == {"measurement.json", "notes.txt"}
    assert not (tmp_path / "results" / ".rentbench-x").exists()


def test_all_files_are_on_the_disk_before_the_name_and_then_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink().relative_to(tmp_path)))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    results = ResultFolder(tmp_path, "x")
    results.expect("log.txt", "log").write_text("grew")
    results.add("notes.txt", b"hello", "notes")
    results.publish({"status": "ok"}, PLACE)
    hidden = {name for name in synced if name.startswith(".rentbench-x/")}
    assert {".rentbench-x/log.txt", ".rentbench-x/notes.txt"} < hidden
    assert synced[-3:] == [str(PLACE.parent), str(PLACE.parent.parent), "."]


def test_names_that_are_taken_get_a_number(tmp_path: Path) -> None:
    results = ResultFolder(tmp_path, "x")
    for name in ("log.txt", "LOG.txt", "tool.tar.gz", "tool.tar.gz", "measurement.json", "run.json"):
        results.add(name, b"", "")
    names = [artifact["name"] for artifact in results.artifacts()]
    assert names == [
        "log.txt",
        "LOG-2.txt",
        "tool.tar.gz",
        "tool-2.tar.gz",
        "measurement-2.json",
        "run-2.json",
    ]


def test_text_is_redacted_and_bytes_stay_as_they_are(tmp_path: Path) -> None:
    results = ResultFolder(tmp_path, "x")
    raw = b"\x89PNG\xff 203.0.113.77"
    results.add("picture.png", raw, "")
    results.add("tool.txt", b"from 203.0.113.77", "")
    assert (results.folder / "picture.png").read_bytes() == raw
    assert "203.0.113.77" not in (results.folder / "tool.txt").read_text()


def test_what_was_expected_and_never_came_is_no_artifact(tmp_path: Path) -> None:
    results = ResultFolder(tmp_path, "x")
    results.expect("telemetry.jsonl", "readings")
    assert results.artifacts() == []


def test_our_own_invalid_document_is_kept_beside_its_problems(tmp_path: Path) -> None:
    results = ResultFolder(tmp_path, "x")
    problem = Problem(pointer="/status", message="is 'fine'", allowed="ok")
    path = results.publish_invalid({"status": "fine"}, [problem], PLACE)
    assert json.loads((path / "measurement.invalid.json").read_text()) == {"status": "fine"}
    assert "/status is 'fine'" in (path / "problems.txt").read_text()
    assert not (path / "measurement.json").exists()


def test_a_root_that_cannot_be_made_is_told_and_replaced(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    results = ResultFolder(tmp_path / "file" / "results", "x")
    assert results.problem is not None
    assert "cannot be written: Not a directory" in results.problem
    results.add("notes.txt", b"kept for now", "notes")
    with pytest.raises(RentbenchError, match="cannot be written"):
        results.publish({"status": "ok"}, PLACE)
    results.discard()
    assert not results.folder.exists()


def test_a_result_is_never_written_over_another(tmp_path: Path) -> None:
    ResultFolder(tmp_path, "x").publish({"n": 1}, PLACE)
    with pytest.raises(RentbenchError, match="cannot be made"):
        ResultFolder(tmp_path, "x").publish({"n": 2}, PLACE)
    assert json.loads((tmp_path / PLACE / "measurement.json").read_text()) == {"n": 1}
