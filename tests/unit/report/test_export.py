from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import pytest

from fixtures.report import synthetic
from fixtures.report.hostile import PAYLOAD
from fixtures.report.sites import NOW, REPOSITORY
from rentbench.core.manifests import load_suites
from rentbench.report.export import MAX_ARTIFACT_BYTES, write_data, write_result_files
from rentbench.report.load import load, read_again
from rentbench.report.site import make_site

NUMERIC = {"median", "mean", "stdev", "ci95_low", "ci95_high"}
GOLDEN = REPOSITORY / "tests" / "golden" / "report" / "results.csv"


@pytest.fixture(scope="module")
def data(_resources, tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    synthetic.write_collection(folder / "results")
    write_data(make_site(load(folder / "results"), load_suites(), NOW), folder / "data")
    return folder / "data"


def test_the_rows_are_those_of_the_golden_file(tmp_path):
    """Rewrite the golden file with RENTBENCH_GOLDEN=write, and read the difference before it is committed."""
    oom = synthetic.error(
        "oom", "CUDA out of memory", phase="warm_up", memory_allocated_bytes=79 * synthetic.GIB
    )
    product = {"op": "matmul", "dtype": "bf16", "size": 8192, "state": "steady"}
    cases = [
        synthetic.case(
            product,
            [synthetic.measured("tflops", "TFLOPS", "higher", [678.0, 680.0, 679.0])],
            peak_memory_bytes=1024,
        ),
        synthetic.case(
            product | {"state": "burst"}, [synthetic.measured("tflops", "TFLOPS", "higher", [785.0])]
        ),
        synthetic.case(product | {"dtype": "fp8"}, [], status="skipped", reason="no fp8 on this device"),
        synthetic.case(product | {"size": 65536}, [], status="failed", error=oom),
    ]
    gpus = [synthetic.gpu(synthetic.H200), synthetic.gpu(synthetic.A100)]
    topology = {"matrix": [["X", "SYS"], ["SYS", "X"]], "summary": "SYS"}
    document = synthetic.measurement(1, "gemm", gpus, cases)
    document["host"]["topology"] = topology
    synthetic.put(tmp_path / "results", document)
    no_gpu = synthetic.error("no_gpu", "no CUDA device is visible")
    synthetic.put(
        tmp_path / "results", synthetic.measurement(2, "gemm", [], [], error=no_gpu, status="failed")
    )
    collection = load(tmp_path / "results")
    assert collection.rejected == ()
    write_data(make_site(collection, load_suites(), NOW), tmp_path / "data")
    written = (tmp_path / "data" / "results.csv").read_bytes()
    if os.environ.get("RENTBENCH_GOLDEN") == "write":
        GOLDEN.write_bytes(written)
    assert _rounded(written) == _rounded(GOLDEN.read_bytes())


def _rounded(content):
    """Return the rows of a CSV file; intervals differ in their last digit from one C library to another."""
    return [
        {name: f"{float(cell):.9g}" if name in NUMERIC and cell else cell for name, cell in row.items()}
        for row in csv.DictReader(io.StringIO(content.decode(), newline=""))
    ]


def test_failures_are_rows_without_figures(data):
    rows = json.loads((data / "results.json").read_text())["rows"]
    without = [row for row in rows if row["median"] is None]
    assert {row["case_status"] for row in without} == {"skipped", "failed", None}
    assert all(row["reason"] for row in without)
    assert not [row for row in rows if row["median"] == 0]


def test_json_and_csv_hold_the_same_rows(data):
    rows = json.loads((data / "results.json").read_text())["rows"]
    table = list(csv.DictReader(io.StringIO((data / "results.csv").read_text(), newline="")))
    assert len(table) == len(rows)
    assert [row["median"] for row in table] == [
        "" if row["median"] is None else repr(row["median"]) for row in rows
    ]
    per_suite = [json.loads(path.read_text())["rows"] for path in sorted((data / "suites").iterdir())]
    assert sum(map(len, per_suite)) == len(rows)


def test_the_index_names_every_result_and_the_headline(data):
    index = json.loads((data / "index.json").read_text())
    assert index["built"] == NOW
    assert len(index["results"]) == 7
    (gemm,) = [suite for suite in index["suites"] if suite["name"] == "gemm"]
    assert [standing["device"] for standing in gemm["headline"]] == ["H200 SXM 141 GB", "A100 SXM 80 GB"]
    assert all(standing["case"]["state"] == "steady" for standing in gemm["headline"])


def test_no_cell_of_hostile_results_is_a_formula(tmp_path):
    gpu = synthetic.gpu(synthetic.H200) | {"name": PAYLOAD[:256]}
    error = synthetic.error("oom", PAYLOAD)
    cases = [synthetic.case({"op": PAYLOAD}, [], status="failed", error=error)]
    synthetic.put(tmp_path, synthetic.measurement(1, "unknown-suite", [gpu], cases))
    collection = load(tmp_path)
    assert collection.rejected == ()
    write_data(make_site(collection, load_suites(), NOW), tmp_path / "data")
    (row,) = csv.DictReader(io.StringIO((tmp_path / "data" / "results.csv").read_text(), newline=""))
    assert not [cell for cell in row.values() if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
    assert row["reason"].startswith("'=1+1|")


def test_files_that_a_browser_could_run_are_shown_as_text(tmp_path):
    page = b"<script>window.pwned=1</script>"
    artifacts = {
        "page.html": page,
        "smi.xml": page,
        "log.txt": b"log",
        "large.jsonl": b"x" * (MAX_ARTIFACT_BYTES + 1),
    }
    cases = [synthetic.case({"op": "copy"}, [synthetic.measured("bandwidth", "GB/s", "higher", [1.0])])]
    synthetic.put(tmp_path / "results", synthetic.measurement(1, "gemm", [], cases), artifacts)
    (result,) = load(tmp_path / "results").results
    copied = write_result_files(result, read_again(result)[0]["artifacts"], tmp_path / "out")
    assert copied.files == {"page.html": "page.html.txt", "smi.xml": "smi.xml.txt", "log.txt": "log.txt"}
    assert copied.reasons == {"large.jsonl": "too large for the site"}
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"measurement.json", *copied.files.values()}
    source = Path(result.sources.path) / "measurement.json"
    assert (tmp_path / "out" / "measurement.json").read_bytes() == source.read_bytes()


def published(tmp_path, artifacts, *, without=()):
    cases = [synthetic.case({"op": "copy"}, [synthetic.measured("bandwidth", "GB/s", "higher", [1.0])])]
    folder = synthetic.put(tmp_path / "results", synthetic.measurement(1, "gemm", [], cases), artifacts)
    for name in without:
        (folder / name).unlink()
    (result,) = load(tmp_path / "results").results
    return write_result_files(result, read_again(result)[0]["artifacts"], tmp_path / "out")


def test_an_artifact_that_is_not_beside_its_result_is_skipped(tmp_path):
    large = {"log.txt": b"log", "raw.txt": b"raw", "large.bin": b"x" * (MAX_ARTIFACT_BYTES + 1)}
    copied = published(tmp_path, large, without=("raw.txt", "large.bin"))
    assert copied.files == {"log.txt": "log.txt"}
    assert copied.reasons == dict.fromkeys(("raw.txt", "large.bin"), "not beside the result")


def test_no_artifact_is_written_over_another(tmp_path):
    artifacts = {"a.html": b"page", "a.html.txt": b"text", "a.html.txt.txt": b"more"}
    copied = published(tmp_path, artifacts)
    assert len(set(copied.files.values())) == 3
    for name, content in artifacts.items():
        assert (tmp_path / "out" / copied.files[name]).read_bytes() == content
