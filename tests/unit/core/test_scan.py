"""Whole result trees: documents, what lies beside them, and the folders that they lie in."""

import json
import os
import shutil
from pathlib import Path

import pytest

from rentbench.core.documents import read_document, render_document, write_document
from rentbench.core.ids import new_id
from rentbench.core.scan import validate_paths
from support.results import changed, example, write_result, write_root


def faults(*paths: Path) -> dict[str, list[str]]:
    """Return what is wrong, by path below the first one: pointers, or why a file could not be read."""
    return {
        os.path.relpath(report.source, paths[0]): [report.unusable]
        if report.unusable
        else sorted(problem.pointer for problem in report.problems)
        for report in validate_paths(paths)
        if not report.valid
    }


def rewrite(path: Path, pointer: str, value: object) -> None:
    document = changed(read_document(path), pointer, value)
    path.unlink()
    write_document(path, document)


def test_a_result_as_it_is_left_is_valid(tmp_path: Path) -> None:
    write_result(tmp_path)
    reports = list(validate_paths([tmp_path]))
    assert [(Path(report.source).name, report.kind, report.valid) for report in reports] == [
        ("measurement.json", "measurement", True),
        ("run.json", "run", True),
    ]


def test_an_artifact_that_was_changed_is_found(tmp_path: Path) -> None:
    folder, _ = write_result(tmp_path)
    artifact = folder / "samples.jsonl"
    artifact.write_bytes(artifact.read_bytes()[:-1])
    assert faults(folder) == {"measurement.json": ["/artifacts/0/bytes"]}
    artifact.write_bytes(b"x" * 77)
    rewrite(folder / "measurement.json", "/artifacts/0/bytes", 77)
    assert faults(folder)["measurement.json"] == ["/artifacts/0/sha256"]


def test_an_artifact_that_is_not_beside_is_no_fault(tmp_path: Path) -> None:
    folder, _ = write_result(tmp_path)
    (folder / "samples.jsonl").unlink()
    assert faults(folder) == {}


def test_an_artifact_is_read_neither_through_a_link_nor_from_a_pipe(tmp_path: Path) -> None:
    folder, _measurement = write_result(tmp_path)
    artifact = folder / "samples.jsonl"
    artifact.rename(tmp_path / "outside.jsonl")
    artifact.symlink_to(tmp_path / "outside.jsonl")
    assert faults(folder)["measurement.json"] == ["/artifacts/0"]
    artifact.unlink()
    os.mkfifo(artifact)
    assert faults(folder)["measurement.json"] == ["/artifacts/0"]


def test_artifacts_are_no_documents(tmp_path: Path) -> None:
    measurement = example("measurement", "smoke-on-cpu")
    folder, _ = write_result(tmp_path, measurement=measurement, run=False)
    raw = b'{"document": "of another tool"}'
    (folder / "tool.json").write_bytes(raw)
    assert faults(folder) == {"tool.json": ["/document"]}
    entry = {"name": "tool.json", "sha256": "sha256:" + "0" * 64, "bytes": 1, "description": "raw"}
    rewrite(folder / "measurement.json", "/artifacts/0", entry)
    assert faults(folder) == {"measurement.json": ["/artifacts/0/bytes"]}


@pytest.mark.parametrize(
    ("parts", "count"),
    [
        (("other", "cpu", None), 1),
        (("example", "nvidia-h200", None), 1),
        (("example", "cpu", "20261130T220501Z-019cb0f2-3a10-7c4e-9b1d-2f6a8c0d4e5f"), 1),
        (("example", "cpu", "20261130T220500Z-019cb0f2-3a10-7c4e-9b1d-000000000000"), 1),
        (("other", "unknown", None), 2),
        (("example", "cpu", "copied"), 0),
    ],
)
def test_a_folder_of_another_name_is_found(parts: tuple, count: int, tmp_path: Path) -> None:
    folder, _ = write_result(tmp_path / "right", run=False)
    suite, gpu, name = parts
    moved = tmp_path / suite / gpu / (name or folder.name)
    moved.parent.mkdir(parents=True)
    folder.rename(moved)
    found = [problem for report in validate_paths([tmp_path / suite]) for problem in report.problems]
    assert len(found) == count
    assert all("lies in a folder of another" in problem.message for problem in found)


def test_a_relative_path_tells_the_same_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, _ = write_result(tmp_path)
    monkeypatch.chdir(folder)
    assert [report.valid for report in validate_paths([Path("measurement.json"), Path("run.json")])] == [
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("pointer", "value", "expected"),
    [
        ("/measurement/sha256", "sha256:" + "0" * 64, "/measurement/sha256"),
        ("/measurement/id", "019cb0f2-3a10-7c4e-9b1d-000000000000", "/measurement/id"),
        ("/suite", "gemm", "/suite"),
        ("/preset", "full", "/preset"),
        ("/status", "partial", "/status"),
        ("/image/recipe_id", "sha256:" + "0" * 64, "/image/recipe_id"),
    ],
)
def test_a_run_that_differs_from_its_measurement_is_found(
    pointer: str, value: object, expected: str, tmp_path: Path
) -> None:
    folder, _ = write_result(tmp_path)
    rewrite(folder / "run.json", pointer, value)
    assert faults(folder) == {"run.json": [expected]}


def test_a_measurement_that_was_changed_after_the_run_is_found(tmp_path: Path) -> None:
    folder, _measurement = write_result(tmp_path)
    rewrite(folder / "measurement.json", "/software/torch", "2.10.0")
    assert faults(folder) == {"run.json": ["/measurement/sha256"]}
    (folder / "measurement.json").unlink()
    assert faults(folder) == {"run.json": ["/measurement"]}
    (folder / "measurement.json").write_text("{")
    assert faults(folder)["run.json"] == ["/measurement"]


def test_a_run_without_a_measurement_lies_under_unknown(tmp_path: Path) -> None:
    run = example("run", "failed-without-measurement")
    folder = tmp_path / run["suite"] / "unknown" / f"20261130T220458Z-{run['id']}"
    folder.mkdir(parents=True)
    write_document(folder / "run.json", run)
    assert faults(tmp_path) == {}
    folder.rename(tmp_path / run["suite"] / "unknown" / f"20261130T220458Z-{new_id()}")
    assert list(faults(tmp_path).values()) == [[""]]


def test_an_id_is_used_once(tmp_path: Path) -> None:
    folder, _measurement = write_result(tmp_path)
    (tmp_path / "copy").mkdir()
    shutil.copy(folder / "measurement.json", tmp_path / "copy")
    shutil.copy(folder / "run.json", tmp_path / "copy")
    found = list(faults(tmp_path).values())
    assert found == [["/id"], ["/id"]]


def test_a_file_that_is_named_twice_is_one_file(tmp_path: Path) -> None:
    folder, _ = write_result(tmp_path)
    assert faults(tmp_path, folder, folder / "run.json") == {}
    assert len(list(validate_paths([tmp_path, folder, folder / "run.json"]))) == 2


def test_a_measurement_under_the_name_of_a_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes(render_document(example("measurement", "smoke-on-cpu")))
    assert "" in faults(tmp_path)["run.json"]


def test_what_is_no_document_is_passed_over(tmp_path: Path) -> None:
    write_result(tmp_path)
    (tmp_path / "package.json").write_text('{"name": "x"}')
    (tmp_path / "notes.txt").write_text("{")
    (tmp_path / ".hidden.json").write_text("{")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "measurement.json").write_text("{")
    (tmp_path / "linked").symlink_to(tmp_path)
    assert faults(tmp_path) == {}
    assert len(list(validate_paths([tmp_path]))) == 2


def test_what_should_be_a_document_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "measurement.json").write_text('{"name": "x"}')
    (tmp_path / "run.json").symlink_to("measurement.json")
    (tmp_path / "cut.json").write_text('{"document": "run", ')
    (tmp_path / "other.json").write_text('{"document": "invoice"}')
    found = faults(tmp_path)
    assert set(found) == {"measurement.json", "run.json", "cut.json", "other.json"}
    assert "symbolic link" in found["run.json"][0]
    assert "ends too early" in found["cut.json"][0]


def test_an_empty_folder_is_said(tmp_path: Path) -> None:
    assert faults(tmp_path) == {".": [f"{tmp_path} holds no documents"]}


def test_a_folder_that_may_not_be_read_is_said(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    folder, _ = write_result(tmp_path)
    folder.chmod(0)
    try:
        assert any("cannot be searched" in why for found in faults(tmp_path).values() for why in found)
    finally:
        folder.chmod(0o755)


def test_manifests_are_found_and_held_to_their_folders(tmp_path: Path) -> None:
    root = write_root(tmp_path / "root")
    assert faults(root / "suites", root / "images") == {}
    (root / "suites" / "example").rename(root / "suites" / "sample")
    assert faults(root / "suites") == {"sample/suite.toml": ["/name"]}


def test_a_broken_manifest_does_not_hide_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_root(tmp_path / "root")
    (root / "suites" / "example" / "suite.toml").write_text("x")
    monkeypatch.setenv("RENTBENCH_ROOT", str(root))
    write_result(tmp_path / "results")
    assert faults(tmp_path / "results") == {}


def test_a_document_with_artifacts_of_any_shape_is_answered(tmp_path: Path) -> None:
    for artifacts in (3, [3], [{"name": 3}], [{"name": ["x"]}], [{"name": "run.json"}], None):
        path = tmp_path / "measurement.json"
        path.write_text(json.dumps({"document": "measurement", "artifacts": artifacts}))
        assert "measurement.json" in faults(tmp_path)
