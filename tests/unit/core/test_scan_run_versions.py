"""A run and its later versions in one folder: a chain by hashes."""

from pathlib import Path

import pytest

from rentbench.core.documents import read_document, write_document
from rentbench.core.files import sha256_file
from rentbench.core.run_versions import run_version
from rentbench.core.scan import validate_paths
from support.results import write_result


def complete(folder: Path, version: int, replaces: str) -> Path:
    """Write a further version of a result's run."""
    path = folder / f"run.{version}.json"
    write_document(path, read_document(folder / "run.json") | {"replaces": replaces, "region": f"v{version}"})
    return path


def faults(path: Path) -> dict[str, list[str]]:
    return {
        Path(report.source).name: [problem.pointer for problem in report.problems]
        for report in validate_paths([path])
        if not report.valid
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_result(tmp_path)[0]


def test_versions_that_follow_each_other_are_one_run(folder: Path) -> None:
    second = complete(folder, 2, sha256_file(folder / "run.json"))
    complete(folder, 3, sha256_file(second))
    assert faults(folder) == {}
    assert len(list(validate_paths([folder]))) == 4


def test_a_version_that_replaces_something_else_is_found(folder: Path) -> None:
    complete(folder, 2, "sha256:" + "0" * 64)
    assert faults(folder) == {"run.2.json": ["/replaces"]}


def test_a_version_without_the_one_before_is_found(folder: Path) -> None:
    complete(folder, 3, sha256_file(folder / "run.json"))
    assert faults(folder) == {"run.3.json": ["/replaces"]}


def test_the_first_version_replaces_nothing(folder: Path) -> None:
    run = read_document(folder / "run.json") | {"replaces": "sha256:" + "0" * 64}
    (folder / "run.json").unlink()
    write_document(folder / "run.json", run)
    assert faults(folder) == {"run.json": ["/replaces"]}


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("run.json", 1),
        ("run.2.json", 2),
        ("run.10.json", 10),
        ("run.1.json", None),
        ("run.02.json", None),
        ("run-2.json", None),
        ("rerun.json", None),
    ],
)
def test_names_of_versions(name: str, version: int | None) -> None:
    assert run_version(name) == version
