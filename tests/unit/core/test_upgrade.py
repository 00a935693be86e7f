"""From an older format to the present one, with a step made up for the test: version 0 had `gpu_count`."""

from pathlib import Path
from typing import Any

import pytest

from rentbench.core.documents import read_document, render_document, sha256_bytes, sha256_file, write_document
from rentbench.core.errors import InvalidDocumentError, RentbenchError, UnusableInputError
from rentbench.core.scan import validate_paths
from rentbench.core.upgrade import STEPS, is_old, upgrade
from rentbench.core.upgrade_files import upgrade_path
from support.results import example, write_result


def from_version_0(document: dict[str, Any]) -> dict[str, Any]:
    del document["gpu_count"]
    return document


def to_version_0(document: dict[str, Any]) -> dict[str, Any]:
    return document | {"schema_version": 0, "gpu_count": 0}


@pytest.fixture(autouse=True)
def step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STEPS, ("measurement", 0), from_version_0)


def age(folder: Path) -> None:
    """Make a result's measurement an old one, cited by its run as it was then."""
    measurement = to_version_0(read_document(folder / "measurement.json"))
    run = read_document(folder / "run.json")
    run["measurement"]["sha256"] = sha256_bytes(render_document(measurement))
    for name, document in (("measurement.json", measurement), ("run.json", run)):
        (folder / name).unlink()
        write_document(folder / name, document)


def test_a_step_takes_a_document_to_the_next_version_and_leaves_the_old_one() -> None:
    present = example("measurement", "smoke-on-cpu")
    old = to_version_0(present)
    assert is_old(old, "measurement")
    assert upgrade(old) == present
    assert old["gpu_count"] == 0
    assert upgrade(present) == present


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": 2}, "newer than this rentbench"),
        ({"schema_version": -1}, "no upgrade of measurement documents from version -1"),
        ({"schema_version": "0"}, 'schema_version is "0"'),
        ({"schema_version": True}, "schema_version is true"),
    ],
)
def test_versions_that_nobody_knows_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UnusableInputError, match=message):
        upgrade(example("measurement", "smoke-on-cpu") | change)


def test_an_old_document_is_refused_with_the_command_that_upgrades_it(tmp_path: Path) -> None:
    folder, _ = write_result(tmp_path / "my results")
    age(folder)
    reports = {Path(report.source).name: report for report in validate_paths([folder])}
    (problem,) = reports["measurement.json"].problems
    assert problem.pointer == "/schema_version"
    assert f"rentbench upgrade '{folder / 'measurement.json'}'" in problem.message


def test_a_newer_document_is_not_called_broken(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_document(path, example("run", "local") | {"schema_version": 2, "speed": 3})
    (report,) = validate_paths([path])
    assert [str(problem) for problem in report.problems] == [
        "/schema_version is 2, newer than this rentbench (allowed: 1)"
    ]


@pytest.mark.parametrize("what", ["results", "folder", "file"])
def test_a_result_is_written_anew_where_it_belongs(what: str, tmp_path: Path) -> None:
    folder, _ = write_result(tmp_path / "results")
    age(folder)
    before = {path.name: sha256_file(path) for path in folder.iterdir()}
    path = {"results": tmp_path / "results", "folder": folder, "file": folder / "measurement.json"}[what]
    outcomes = list(upgrade_path(path, tmp_path / "new"))
    target = tmp_path / "new" / folder.relative_to(tmp_path / "results")
    assert [outcome.target for outcome in outcomes] == [target / "measurement.json", target / "run.json"]
    assert all(report.valid for report in validate_paths([tmp_path / "new"]))
    assert read_document(target / "run.json")["measurement"]["sha256"] == sha256_file(
        target / "measurement.json"
    )
    assert sha256_file(target / "samples.jsonl") == before["samples.jsonl"]
    assert {path.name: sha256_file(path) for path in folder.iterdir()} == before


def test_a_run_that_cited_something_else_is_not_made_right(tmp_path: Path) -> None:
    folder, _ = write_result(tmp_path / "results")
    age(folder)
    run = read_document(folder / "run.json")
    run["measurement"]["sha256"] = "sha256:" + "0" * 64
    (folder / "run.json").unlink()
    write_document(folder / "run.json", run)
    list(upgrade_path(tmp_path / "results", tmp_path / "new"))
    invalid = [report for report in validate_paths([tmp_path / "new"]) if not report.valid]
    assert [report.problems[0].pointer for report in invalid] == ["/measurement/sha256"]


def test_later_versions_of_a_run_follow_their_upgraded_ones(tmp_path: Path) -> None:
    folder, _ = write_result(tmp_path / "results")
    age(folder)
    run = read_document(folder / "run.json")
    write_document(folder / "run.2.json", run | {"replaces": sha256_file(folder / "run.json"), "region": "x"})
    outcomes = list(upgrade_path(folder, tmp_path / "new"))
    assert [outcome.source.name for outcome in outcomes] == ["measurement.json", "run.json", "run.2.json"]
    target = tmp_path / "new" / folder.relative_to(tmp_path / "results")
    assert read_document(target / "run.2.json")["replaces"] == sha256_file(target / "run.json")
    assert all(report.valid for report in validate_paths([tmp_path / "new"]))


def test_present_documents_are_left_alone(tmp_path: Path) -> None:
    write_result(tmp_path / "results")
    outcomes = list(upgrade_path(tmp_path / "results", tmp_path / "new"))
    assert [outcome.target for outcome in outcomes] == [None, None]
    assert not (tmp_path / "new").exists()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    folder, _ = write_result(tmp_path / "results")
    age(folder)
    list(upgrade_path(folder, tmp_path / "new"))
    with pytest.raises(RentbenchError, match="is there already"):
        list(upgrade_path(folder, tmp_path / "new"))


def test_what_is_not_valid_afterwards_is_not_written(tmp_path: Path) -> None:
    old = to_version_0(example("measurement", "smoke-on-cpu"))
    old["artifacts"] = [
        {"name": "../../secret", "sha256": "sha256:" + "0" * 64, "bytes": 1, "description": ""}
    ]
    path = tmp_path / "measurement.json"
    write_document(path, old)
    with pytest.raises(InvalidDocumentError, match="upgraded, it is not valid: /artifacts/0/name"):
        list(upgrade_path(path, tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_a_step_that_meets_what_it_does_not_expect_is_an_error_of_the_document(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_document(path, {"document": "measurement", "schema_version": 0})
    with pytest.raises(InvalidDocumentError, match="cannot be upgraded"):
        list(upgrade_path(path, tmp_path / "new"))
