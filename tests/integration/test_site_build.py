"""The site as it is built: complete, offline, the same every time, and unmoved by hostile results."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from urllib.parse import unquote

import pytest
from mkdocs.commands.build import build as mkdocs_build
from mkdocs.config import load_config

from fixtures.report import synthetic
from fixtures.report.hostile import PAYLOAD, hostile
from fixtures.report.pages import read_page
from fixtures.report.sites import NOW, REPOSITORY, resources
from rentbench.core.documents import sha256_bytes, write_document
from rentbench.core.errors import InvalidDocumentError, RentbenchError, UsageError
from rentbench.core.gpus import gpu_folder
from rentbench.core.ids import folder_name
from rentbench.core.manifests import load_suites
from rentbench.report.build import build
from rentbench.report.hooks import SETTINGS
from rentbench.report.load import load
from rentbench.report.site import make_site

MOMENT = "1796040000"  # NOW, in seconds since 1970


@pytest.fixture(scope="module", autouse=True)
def root(tmp_path_factory):
    with resources(tmp_path_factory.mktemp("resources")) as folder:
        yield folder


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made-up") / "results"
    synthetic.write_collection(folder)
    return folder


@pytest.fixture(scope="module")
def site(results, tmp_path_factory):
    return build(results, tmp_path_factory.mktemp("built") / "site", strict=True, now=NOW).output


def pages(site):
    return sorted(site.rglob("*.html"))


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_every_page_is_there(site):
    names = {path.relative_to(site).as_posix() for path in pages(site)}
    assert {
        "index.html", "404.html", "method.html", "data.html", "contribute.html", "categories/hardware.html",
        "categories/machines.html", "suites/gemm.html", "suites/preflight.html",
    } <= names  # fmt: skip
    assert len([name for name in names if name.startswith("results/")]) == 7
    assert "results/shell.html" not in names


def test_the_hub_shows_the_headline_with_unit_device_case_confidence_and_date(site):
    text = " ".join(read_page(site / "index.html").text.split()).replace("\u2060", "")
    assert re.search(
        r"6[78]\d\.\d TFLOPS H200 SXM 141 GB · Matrix multiplication \(matmul, bf16, size 8,192, steady\)",
        text,
    )
    assert re.search(
        r"3 repeats on one host, 95 % interval of the mean [\d.]+–[\d.]+ TFLOPS · 2026-11-20", text
    )
    assert "Demo run" in text
    assert "no container toolkit" in text


def test_every_case_is_on_the_suite_page_with_its_reason(site):
    page = read_page(site / "suites" / "gemm.html")
    linked = {value for _, name, value in page.references if name == "href" and "#case-" in value}
    assert len([link for link in linked if synthetic.identifier(1) in link]) == 52
    assert len([link for link in linked if synthetic.identifier(2) in link]) == 52
    assert "fp8 needs compute capability 8.9, this device has 8.0" in page.text
    assert "out of GPU memory: CUDA out of memory while the result was allocated" in page.text


def test_charts_are_drawings_with_a_label_beside_a_table(site):
    page = read_page(site / "suites" / "gemm.html")
    drawings = [
        attributes for tag, attributes in page.elements if tag == "svg" and attributes.get("role") == "img"
    ]
    assert len(drawings) == 8  # the ranking and three parts, each wide and narrow
    assert all(len(attributes["aria-label"]) > 40 for attributes in drawings)
    assert sum(tag == "table" for tag, _ in page.elements) >= 5
    assert not re.search(r"95 % intervals?\b(?! of the mean)", page.text)


def test_a_result_page_holds_everything_of_its_documents(site, results):
    for path in results.rglob("*.json"):
        document = json.loads(path.read_text())
        identifier = (document.get("measurement") or document)["id"]
        text = read_page(site / "results" / f"{identifier}.html").text
        assert path.read_text() in text
    page = read_page(site / "results" / f"{synthetic.identifier(1)}.html")
    assert sum(tag == "svg" and attributes.get("role") == "img" for tag, attributes in page.elements) == 6
    for expected in (
        "power cap (31 samples)",
        "Energy of the whole run, waiting and cooling included",
        "not readable in a container",
        "6.8.0-60-generic",
        "gemm: 52 cases",
    ):
        assert expected in page.text


def test_nothing_on_any_page_comes_from_outside(site):
    for path in pages(site):
        page = read_page(path)
        for tag, name, value in page.references:
            assert not re.match(r"(?i)\s*(https?:)?//|javascript:", value), (path.name, tag, name, value)
        policies = [
            a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy"
        ]
        assert len(policies) == 1
        assert policies[0].startswith("default-src 'self'")
    for path in [*site.rglob("*.css"), *site.rglob("*.svg")]:
        assert not re.search(r"(?:@import|url\()\s*['\"]?(?:https?:)?//", path.read_text(encoding="utf-8")), (
            path.name
        )
    assert "//" not in re.sub(r"//.*", "", (site / "assets" / "site.js").read_text())


def test_every_link_and_anchor_leads_somewhere(site):
    read = {path: read_page(path) for path in pages(site)}
    for path, page in read.items():
        base = site if path.name == "404.html" else path.parent
        for tag, _, value in page.references:
            place, _, anchor = value.partition("#")
            target = path if not place else (base / unquote(place).lstrip("/")).resolve()
            target = target / "index.html" if target.is_dir() else target
            assert target.is_file(), (path.name, tag, value)
            if anchor and target.suffix == ".html":
                assert anchor in read[target].anchors or anchor == "__skip", (path.name, value)


def test_results_are_neither_in_navigation_nor_search(site):
    index = (site / "search" / "search_index.json").read_text()
    assert synthetic.identifier(1) not in index
    assert "results/" not in {place["location"].split("#")[0] for place in json.loads(index)["docs"]}
    links = [value for _, name, value in read_page(site / "method.html").references if name == "href"]
    assert not [link for link in links if "results/" in link]


def test_the_same_inputs_give_the_same_bytes(site, results, tmp_path):
    again = build(results, tmp_path / "somewhere else" / "site", now=NOW).output
    assert contents(again) == contents(site)


def test_plain_mkdocs_builds_the_same_site(root, site, results, tmp_path):
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in ("schema", "report", "mkdocs.yml", "suites"):
        (folder / name).symlink_to((root / name).resolve())
    (folder / "results").symlink_to(results)
    environment = os.environ | {
        "RENTBENCH_ROOT": str(folder), "SOURCE_DATE_EPOCH": MOMENT, "NO_MKDOCS_2_WARNING": "1",
    }  # fmt: skip
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", "mkdocs.yml"]
    command += ["--site-dir", str(tmp_path / "plain")]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    assert contents(tmp_path / "plain") == contents(site)


def test_the_command_builds_it_and_names_what_it_left_out(results, tmp_path):
    shutil.copytree(results, tmp_path / "results")
    bad = next((tmp_path / "results").rglob("measurement.json"))
    bad.write_text("{")
    command = [
        sys.executable,
        "-c",
        "from rentbench.cli.main import main; main()",
        "report",
        "build",
        "--now",
        NOW,
    ]
    loose = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (loose.returncode, loose.stdout) == (0, "site: " + str(tmp_path / "site" / "index.html") + "\n")
    name = bad.relative_to(tmp_path / "results").as_posix()
    assert f"left out: {name}: " in loose.stderr
    hub = read_page(tmp_path / "site" / "index.html").text
    assert name in hub
    assert "1 file could not be used and is left out" in hub
    before = contents(tmp_path / "site")
    strict = subprocess.run([*command, "--strict"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert strict.returncode == 1
    assert name in strict.stderr
    assert contents(tmp_path / "site") == before  # the old site stays


def test_the_repositorys_own_suites_and_results_build_strictly(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "RENTBENCH_ROOT"}
    command = [
        sys.executable,
        "-c",
        "from rentbench.cli.main import main; main()",
        "report",
        "build",
        "--strict",
    ]
    command += ["--output", str(tmp_path / "site")]
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "index.html").is_file()


def test_strict_refuses_a_collection_with_a_bad_file(results, tmp_path):
    shutil.copytree(results, tmp_path / "results")
    next((tmp_path / "results").rglob("run.json")).write_text("[]")
    with pytest.raises(InvalidDocumentError, match=r"run\.json"):
        build(tmp_path / "results", tmp_path / "site", strict=True, now=NOW)
    assert not (tmp_path / "site").exists()
    assert list(tmp_path.glob(".site*")) == []


def test_a_folder_with_something_else_in_it_is_never_cleared(results, tmp_path):
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(UsageError, match="building would delete it"):
        build(results, tmp_path, now=NOW)
    assert (tmp_path / "precious.txt").read_text() == "mine"


@pytest.mark.parametrize("content", ["{}", '{"generator": "another"}', "[]", "no JSON"])
def test_a_folder_whose_index_is_not_ours_is_never_cleared(content, results, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "index.json").write_text(content)
    with pytest.raises(UsageError, match="building would delete it"):
        build(results, tmp_path, now=NOW)
    assert (tmp_path / "data" / "index.json").read_text() == content


def test_no_results_make_a_site_that_says_so(tmp_path):
    site = build(tmp_path / "none", tmp_path / "site", strict=True, now=NOW).output
    assert "No results yet" in read_page(site / "index.html").text
    assert "Not run yet" in read_page(site / "suites" / "gemm.html").text
    assert json.loads((site / "data" / "results.json").read_text())["rows"] == []


def test_one_case_makes_a_site(tmp_path):
    case = synthetic.case(
        {"op": "matmul", "dtype": "bf16", "size": 8192, "state": "steady"},
        [synthetic.measured("tflops", "TFLOPS", "higher", [678.0])],
    )
    synthetic.put(
        tmp_path / "results", synthetic.measurement(1, "gemm", [synthetic.gpu(synthetic.H200)], [case])
    )
    site = build(tmp_path / "results", tmp_path / "site", strict=True, now=NOW).output
    text = read_page(site / "index.html").text
    assert "678.0" in text
    assert "single run" in text


def test_smoke_alone_is_called_a_demo_and_ranks_nothing(tmp_path):
    case = synthetic.case(
        {"op": "matmul", "dtype": "bf16", "size": 8192, "state": "steady"},
        [synthetic.measured("tflops", "TFLOPS", "higher", [4321.0])],
    )
    document = synthetic.measurement(1, "gemm", [synthetic.gpu(synthetic.H200)], [case], preset="smoke")
    synthetic.put(tmp_path / "results", document)
    site = build(tmp_path / "results", tmp_path / "site", strict=True, now=NOW).output
    hub, suite = (read_page(site / place).text for place in ("index.html", "suites/gemm.html"))
    assert "Demo run, proves the path" in hub
    assert "4,321" not in hub
    assert "4,321" in suite.partition("Demo runs")[2]
    assert json.loads((site / "data" / "index.json").read_text())["suites"][0]["headline"] == []


def test_hostile_text_stays_text_everywhere(tmp_path):
    make_hostile(tmp_path / "results")
    built = build(tmp_path / "results", tmp_path / "site", strict=True, now=NOW)
    assert built.results == 3
    for path in pages(built.output):
        page = read_page(path)
        assert not [script for script in page.scripts if "pwned" in script], path.name
        for tag, attributes in page.elements:
            assert tag not in {"b", "i", "iframe", "object", "embed", "base"}, path.name
            assert attributes.get("src") != "x", path.name
            assert not [name for name in attributes if name.startswith("on")], (path.name, attributes)
            assert "javascript:" not in attributes.get("href", ""), path.name
        assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\u202e]", path.read_text(encoding="utf-8")), (
            path.name
        )
        assert "49" not in re.findall(r"`c` (\S+)", page.text)
    result = read_page(built.output / "results" / f"{synthetic.identifier(1)}.html").text
    assert result.count("<script>window.pwned=1</script>") > 20
    assert "[a](javascript:window.pwned=1) **b**" in read_page(built.output / "suites" / "gemm.html").text


def make_hostile(results):
    """Write three results with the payload wherever a document takes it."""
    tail = synthetic.error("oom", "out", hint="h", phase="p", log_tail="t")
    cases = [
        synthetic.case(
            {"op": "matmul", "dtype": "bf16", "size": 8192, "state": "steady"},
            [synthetic.measured("tflops", "TFLOPS", "higher", [678.0, 679.0, 680.0])],
        ),
        synthetic.case({"op": "copy", "note": "text", "size": 1}, [], status="failed", error=tail),
        synthetic.case({"op": "copy", "note": "text", "size": 2}, [], status="skipped", reason="because"),
    ]
    document = synthetic.measurement(
        1, "gemm", [synthetic.gpu(synthetic.H200)], cases,
        weights={"kind": "random", "repository": "r", "revision": "v"},
        environment_variables={"CUDA_VISIBLE_DEVICES": "0"}, software={"torch": "2", PAYLOAD[:128]: "1"},
        validity=[synthetic.check("sane", "failed", "detail", value="v", limit="l", unit="W")],
    )  # fmt: skip
    document, places = hostile(synthetic.explained(document, "measurement"), "measurement")
    assert places > 25
    folder = (
        results
        / "gemm"
        / gpu_folder(document["host"]["gpus"])
        / folder_name(document["started"], document["id"])
    )
    folder.mkdir(parents=True)
    (folder / "log.txt").write_text(PAYLOAD)
    raw = (folder / "log.txt").read_bytes()
    document["artifacts"] = [
        {"name": "log.txt", "sha256": sha256_bytes(raw), "bytes": len(raw), "description": PAYLOAD}
    ]
    digest = write_document(folder / "measurement.json", document)
    attempt = {"offer": "o", "at": "2026-11-20T07:00:00Z", "error": synthetic.error("network", "m", hint="h")}
    run = synthetic.run(101, document, digest, offer="o", region="r", plan="p", attempts=[attempt])
    run, places = hostile(synthetic.explained(run, "run"), "run")
    assert places > 8
    write_document(folder / "run.json", run)
    lost, _ = hostile(synthetic.explained(synthetic.run(102, None, None, error=tail), "run"), "run")
    lost_folder = results / "gemm" / "unknown" / folder_name("2026-11-21T07:59:40.000Z", lost["id"])
    lost_folder.mkdir(parents=True)
    write_document(lost_folder / "run.json", lost)
    other = synthetic.measurement(2, "other-suite", [], cases[1:], day="2026-11-22")
    other, _ = hostile(synthetic.explained(other, "measurement"), "measurement")
    synthetic.put(results, other)


def test_files_that_are_missing_or_change_meanwhile_end_no_build(root, tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", MOMENT)  # the build sets it; put it back afterwards
    synthetic.write_collection(tmp_path / "results")
    removed = next((tmp_path / "results").rglob("samples.jsonl"))
    removed.unlink()
    collection = load(tmp_path / "results")
    config = load_config(str(root / "mkdocs.yml"), site_dir=str(tmp_path / "site"))
    config.extra[SETTINGS] = {"site": make_site(collection, load_suites(), NOW)}
    for result in collection.results:
        if result.sources.measurement and result.sources.path != removed.parent:
            (result.sources.path / "measurement.json").write_text("{}")
    mkdocs_build(config)
    for result in collection.results:
        text = read_page(tmp_path / "site" / "results" / f"{result.id}.html").text
        same = result.sources.path == removed.parent or result.sources.measurement is None
        assert ("changed while the site was built" not in text) == same
        if result.sources.path == removed.parent:
            assert "not beside the result" in text


def test_eight_gpus_are_no_other_type_than_one(tmp_path):
    case = synthetic.case({"op": "copy"}, [synthetic.measured("bandwidth", "GB/s", "higher", [1.0])])
    for number, count in ((1, 1), (2, 8)):
        gpus = [
            synthetic.gpu(synthetic.H200) | {"uuid_hash": sha256_bytes(bytes([index]))}
            for index in range(count)
        ]
        document = synthetic.measurement(number, "gemm", gpus, [case])
        synthetic.put(tmp_path / "results", document)
    site = build(tmp_path / "results", tmp_path / "site", strict=True, now=NOW).output
    assert "1 GPU type " in " ".join(read_page(site / "index.html").text.split())


def test_what_mkdocs_warns_of_is_told(root, results, tmp_path, monkeypatch):
    broken = tmp_path / "resources"
    broken.mkdir()
    for name in ("schema", "suites", "mkdocs.yml"):
        (broken / name).symlink_to((root / name).resolve())
    shutil.copytree(root / "report", broken / "report")
    with (broken / "report" / "pages" / "method.md").open("a") as page:
        page.write("\n[nowhere](no-such-page.md)\n")
    monkeypatch.setenv("RENTBENCH_ROOT", str(broken))
    (warning,) = build(results, tmp_path / "site", now=NOW).warnings
    assert "no-such-page.md" in warning
    with pytest.raises(RentbenchError, match=r"no-such-page\.md") as raised:
        build(results, tmp_path / "strict", strict=True, now=NOW)
    assert raised.value.hint == "the warnings name the page"


def test_why_something_is_missing_is_told_in_the_documents_words_or_not_at_all(tmp_path):
    case = synthetic.case({"op": "copy"}, [synthetic.measured("bandwidth", "GB/s", "higher", [1.0])])
    told = {
        "/host/topology": "the run used the CPU alone",
        "/recipe_id": "the image names no recipe",
    }
    document = synthetic.measurement(
        1, "gemm", [], [case], data=None, recipe_id=None,
        unavailable=[{"path": path, "reason": reason} for path, reason in told.items()],
    )  # fmt: skip
    synthetic.put(tmp_path / "results", document, run_number=101)
    site = build(tmp_path / "results", tmp_path / "site", strict=True, now=NOW).output
    text = " ".join(read_page(site / "results" / f"{document['id']}.html").text.replace("—", " — ").split())
    text = text.partition("What could not be known")[0]
    assert f"GPU — {told['/host/topology']}" in text
    assert f"Recipe id — {told['/recipe_id']}" in text
    for label in ("Weights", "Data", "07:59:40 UTC"):
        assert f"{label} — not recorded" in text
    for claim in ("no model", "reads no data", "No GPU was found", "outside an image"):
        assert claim not in text


def test_whole_readings_have_no_decimals_and_equal_ones_no_interval(tmp_path):
    figures = [
        synthetic.measured("tflops", "TFLOPS", "higher", [678.25, 679.5, 680.0]),
        synthetic.measured("clock_sm", "MHz", "none", [59.0, 59.0, 59.0]),
        synthetic.measured("power", "W", "none", [61.0, 62.0, 65.0]),
    ]
    case = synthetic.case({"op": "matmul", "dtype": "bf16", "size": 8192, "state": "steady"}, figures)
    synthetic.put(
        tmp_path / "results", synthetic.measurement(1, "gemm", [synthetic.gpu(synthetic.H200)], [case])
    )
    site = build(tmp_path / "results", tmp_path / "site", strict=True, now=NOW).output
    text = " ".join(read_page(site / "suites" / "gemm.html").text.split())
    assert "59all 3 equal" in text
    assert "59.00" not in text
    assert "62.00" not in text
