from __future__ import annotations

import json
import shutil

import pytest

from fixtures.report import synthetic
from rentbench.core.documents import write_document
from rentbench.core.errors import UnusableInputError
from rentbench.report.load import load, read_again


def document(number, **members):
    cases = [
        synthetic.case({"op": "copy"}, [synthetic.measured("bandwidth", "GB/s", "higher", [1.0, 2.0, 3.0])])
    ]
    return synthetic.measurement(number, "gemm", [synthetic.gpu(synthetic.H200)], cases, **members)


def put(root, number, **members):
    return synthetic.put(root, document(number), run_number=100 + number, **members)


def test_a_folder_that_is_not_there_is_an_empty_collection(tmp_path):
    collection = load(tmp_path / "none")
    assert (collection.results, collection.rejected) == ((), ())


def test_results_come_newest_first_with_both_documents(tmp_path):
    synthetic.put(tmp_path, document(1, day="2026-10-01"))
    synthetic.put(tmp_path, document(2, day="2026-11-01"), run_number=102)
    newest, oldest = load(tmp_path).results
    assert (newest.started[:10], oldest.started[:10]) == ("2026-11-01", "2026-10-01")
    assert newest.image_digest
    assert oldest.image_digest is None
    measurement, run = read_again(newest)
    assert run["measurement"]["id"] == measurement["id"] == newest.id
    assert read_again(oldest)[1] is None


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "ends too early"),
        (b"", "is empty"),
        (b"\xff\x00\xfe", "is binary"),
        (b'{"document": "measurement", "id": NaN}', "nan"),
        (b'{"document": "run"}', "is a run, not a measurement"),
        (b'{"document": "measurement"}', "schema_version"),
        (b'{"document": "poem"}', "names no known kind"),
        (b"[" * 100_000, ""),
    ],
)
def test_a_bad_file_is_named_with_its_reason_and_stops_no_other(tmp_path, content, reason):
    good = put(tmp_path, 1)
    bad = put(tmp_path, 2)
    (bad / "measurement.json").write_bytes(content)
    collection = load(tmp_path)
    assert [result.sources.path for result in collection.results] == [good]
    (rejected,) = collection.rejected
    assert rejected.path == f"{bad.relative_to(tmp_path).as_posix()}/measurement.json"
    assert reason.lower() in rejected.reason.lower()
    assert str(tmp_path) not in rejected.reason


def test_a_changed_artifact_is_noticed(tmp_path):
    folder = synthetic.put(tmp_path, document(1), {"log.txt": b"as it was"})
    (folder / "log.txt").write_bytes(b"as it is!")
    assert "log.txt" in load(tmp_path).rejected[0].reason


def test_links_are_not_followed(tmp_path):
    folder = put(tmp_path / "results", 1)
    (folder / "measurement.json").rename(tmp_path / "elsewhere.json")
    (folder / "measurement.json").symlink_to(tmp_path / "elsewhere.json")
    (rejected,) = load(tmp_path / "results").rejected
    assert "symbolic link" in rejected.reason
    other = put(tmp_path / "other", 2)
    (tmp_path / "results" / "linked").symlink_to(other)
    assert not load(tmp_path / "results").results


def test_one_id_stands_for_one_result(tmp_path):
    folder = put(tmp_path, 1)
    copy = tmp_path / "copies" / folder.relative_to(tmp_path)
    shutil.copytree(folder, copy)
    collection = load(tmp_path)
    assert len(collection.results) == 1
    assert "has the same id as" in collection.rejected[0].reason


def test_a_bad_run_leaves_the_measurement_and_a_note(tmp_path):
    folder = put(tmp_path, 1)
    (folder / "run.json").write_text("{}")
    collection = load(tmp_path)
    (result,) = collection.results
    assert result.sources.run is None
    assert result.sources.run_note.startswith("run.json was left out: ")
    assert collection.rejected[0].path.endswith("run.json")


def test_a_run_without_its_measurement_is_refused(tmp_path):
    folder = put(tmp_path, 1)
    (folder / "measurement.json").unlink()
    collection = load(tmp_path)
    assert not collection.results
    assert collection.rejected[0].path.endswith("run.json")


def test_the_version_of_a_run_that_none_replaces_is_taken(tmp_path):
    folder = put(tmp_path, 1)
    first = json.loads((folder / "run.json").read_text())
    digest = write_document(folder / "run-copy.json", first)
    (folder / "run-copy.json").unlink()
    completed = first | {"replaces": digest, "region": "somewhere"}
    write_document(folder / "run.2.json", completed)
    (result,) = load(tmp_path).results
    assert result.sources.run == "run.2.json"
    assert read_again(result)[1]["region"] == "somewhere"


def test_two_newest_versions_of_a_run_are_refused(tmp_path):
    folder = put(tmp_path, 1)
    first = json.loads((folder / "run.json").read_text())
    write_document(folder / "run.2.json", first | {"region": "somewhere"})
    collection = load(tmp_path)
    assert "2 versions of the run claim to be the newest" in collection.rejected[0].reason
    assert collection.results[0].sources.run is None


def test_a_run_that_never_measured_is_a_result(tmp_path):
    synthetic.write_collection(tmp_path)
    collection = load(tmp_path)
    assert collection.rejected == ()
    (lost,) = [result for result in collection.results if result.device is None]
    assert (lost.status, lost.failure.kind, lost.cases) == ("failed", "no_container_toolkit", ())


def test_a_document_that_changed_since_it_was_checked_is_not_read_again(tmp_path):
    folder = put(tmp_path, 1)
    (result,) = load(tmp_path).results
    path = folder / "measurement.json"
    path.write_text(path.read_text().replace("570.133.20", "1.0"))
    with pytest.raises(UnusableInputError, match="changed while the site was built"):
        read_again(result)
