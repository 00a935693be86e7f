from __future__ import annotations

import shlex

import pytest

from fixtures.report import synthetic
from rentbench.core.errors import UsageError
from rentbench.report.draw import ChartCache
from rentbench.report.facts import Reasons, gpu_facts, host_facts, run_facts
from rentbench.report.flatten import flatten
from rentbench.report.load import load
from rentbench.report.model import Collection, Sources
from rentbench.report.pages import navigation
from rentbench.report.readme import method
from rentbench.report.reproduce import command_of
from rentbench.report.site import build_time, make_site
from rentbench.report.views import suite_view

SOURCES = Sources(root=None, folder="x", measurement="measurement.json", run="run.json", run_note=None)


def pair(
    settings=None, image=None, gpus=(synthetic.H200,), grid=({"op": "copy"},), container=None, **members
):
    figures = [synthetic.measured("bandwidth", "GB/s", "higher", [1.0])]
    cases = [synthetic.case(dict(parameters), figures) for parameters in grid]
    parameters = {"seed": 42, "repeats": 3, "settings": {"seconds": 30} | (settings or {})}
    document = synthetic.measurement(
        1, "gemm", [synthetic.gpu(kind) for kind in gpus], cases, parameters=parameters, **members
    )
    run = synthetic.run(101, document, "sha256:" + "0" * 64)
    run["image"] |= image or {}
    run["container"] |= container or {}
    return document, run


def command(gemm, **how):
    how.setdefault("grid", gemm.cases("standard"))
    document, run = pair(**how)
    return command_of(flatten(document, run, SOURCES), gemm)


def test_the_command_names_image_by_digest_and_what_was_asked_for(gemm):
    text = command(gemm).text
    words = shlex.split(text)
    assert "registry.example/rentbench/torch:1.0.0@sha256:" in text
    assert words[words.index("gemm") :] == ["gemm", "--preset", "standard", "--repeats", "3", "--seed", "42"]
    assert "--gpus" in words


def test_only_changed_settings_are_repeated(gemm):
    assert "--set seconds=5" in command(gemm, settings={"seconds": 5}).text


def test_a_run_on_a_cpu_asks_for_no_gpu(gemm):
    assert "--gpus" not in command(gemm, gpus=()).text


def test_an_image_without_digest_is_said_to_have_none(gemm):
    made = command(gemm, image={"digest": None})
    assert "@sha256" not in made.text
    assert "never pushed" in made.note


def test_a_run_outside_an_image_gets_no_invented_image(gemm):
    made = command(gemm, runner="process", recipe_id=None)
    assert shlex.split(made.text)[:4] == ["python", "-m", "rentbench.harness", "gemm"]
    assert "docker" not in made.text
    assert "rentbench image build" in made.note


def harness_cases(words):
    return [words[at + 1] for at, word in enumerate(words) if word == "--case"]


def test_a_subset_of_the_cases_is_repeated_as_such(gemm):
    planned = gemm.cases("standard")
    products = [case for case in planned if case.get("dtype") == "bf16"]
    assert 1 < len(products) < len(planned)
    assert harness_cases(shlex.split(command(gemm, grid=products).text)) == ["op=matmul,dtype=bf16"]
    ends = [products[0], next(case for case in planned if case.get("dtype") == "fp16")]
    named = harness_cases(shlex.split(command(gemm, grid=ends).text))
    assert [dict(pair.split("=") for pair in text.split(","))["dtype"] for text in named] == ["bf16", "fp16"]


def test_cases_of_another_version_of_the_suite_are_all_named(gemm):
    words = shlex.split(command(gemm, suite={"name": "gemm", "version": "0.9.0"}).text)
    assert len(harness_cases(words)) == len(gemm.cases("standard"))


def test_the_container_is_as_closed_as_it_was(gemm):
    words = shlex.split(command(gemm).text)
    for option in ("--read-only", "--init", "no-new-privileges", "ALL"):
        assert option in words
    assert words[words.index("--network") + 1] == "none"
    words = shlex.split(command(gemm, container={"network": "a b", "read_only_root": False}).text)
    assert words[words.index("--network") + 1] == "a b"
    assert "--read-only" not in words


def test_hostile_image_names_are_quoted_for_the_shell(gemm):
    words = shlex.split(command(gemm, image={"reference": "x; rm -rf ~ $(id) `id`", "digest": None}).text)
    assert "x; rm -rf ~ $(id) `id`" in words


def test_reasons_come_from_the_nearest_pointer_above():
    reasons = Reasons(
        {"unavailable": [{"path": "/host", "reason": "far"}, {"path": "/host/cpu", "reason": "near"}]}
    )
    assert [reasons.why(path) for path in ("/host/cpu/model", "/host/disk", "/run")] == ["near", "far", ""]


def test_every_missing_fact_has_a_reason():
    document, run = pair()
    document["host"]["driver_version"] = None
    document["unavailable"] = [{"path": "/host/driver_version", "reason": "no driver"}]
    facts = [*host_facts(document), *gpu_facts(document, 0), *run_facts(run)]
    missing = [fact for fact in facts if fact.value == "—"]
    assert all(fact.reason for fact in missing)
    assert "no driver" in [fact.reason for fact in missing]


def test_a_suite_page_leads_with_published_figures_and_keeps_demo_runs_apart(gemm, tmp_path):
    synthetic.write_collection(tmp_path / "results")
    site = make_site(load(tmp_path / "results"), {"gemm": gemm}, "2026-11-30T12:00:00Z")
    view = suite_view(site.suites["gemm"], ChartCache(tmp_path / "charts"))
    assert [group.group.likeness.preset for group in view.published] == ["standard"]
    assert [group.group.likeness.preset for group in view.demo] == ["smoke"]
    assert all(part.drawing is None for group in view.demo for part in group.parts)
    assert {result.preset for result in view.suite.leading.current} == {"standard"}
    cautions = {sentence: subject for subject, sentence in view.cautions}
    assert cautions["price not recorded."] == "A100 SXM 80 GB, H200 SXM 141 GB"


def test_smoke_alone_is_no_headline(gemm, tmp_path):
    cases = [synthetic.case({"op": "matmul", "dtype": "bf16", "size": 8192, "state": "steady"},
                            [synthetic.measured("tflops", "TFLOPS", "higher", [9999.0])])]  # fmt: skip
    synthetic.put(
        tmp_path, synthetic.measurement(1, "gemm", [synthetic.gpu(synthetic.H200)], cases, preset="smoke")
    )
    suite = make_site(load(tmp_path), {"gemm": gemm}, "2026-11-30T12:00:00Z").suites["gemm"]
    assert (suite.leading, suite.standings, suite.only_demo) == (None, [], True)


def test_a_readme_becomes_the_method_without_title_and_local_links(gemm):
    text = method(gemm.folder)
    assert "# gemm" not in text
    assert "\n### Limits" in text
    assert "# not a heading" in text
    assert "see the preflight suite." in text


def test_a_suite_without_readme_has_no_method(tmp_path):
    assert method(tmp_path) == ""


def test_the_navigation_is_short_and_names_no_result(gemm, preflight):
    site = make_site(
        Collection(results=(), rejected=()), {"gemm": gemm, "preflight": preflight}, "2026-11-30T12:00:00Z"
    )
    text = str(navigation(site))
    assert "suites/gemm.md" in text
    assert "results/" not in text


def test_the_build_time_is_as_asked_else_the_epoch(monkeypatch):
    assert build_time("2026-11-30T12:00:00.5Z") == "2026-11-30T12:00:00Z"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1796040000")
    assert build_time() == "2026-11-30T12:00:00Z"
    for wrong in ("yesterday", "2026-13-01T00:00:00Z"):
        with pytest.raises(UsageError, match="is no time"):
            build_time(wrong)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "soon")
    with pytest.raises(UsageError, match="SOURCE_DATE_EPOCH=soon"):
        build_time()
