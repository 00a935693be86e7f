from __future__ import annotations

import random
from dataclasses import replace

import pytest

from fixtures.report import synthetic
from rentbench.report.compare import group
from rentbench.report.flatten import flatten
from rentbench.report.headline import confidence, ranking, summary
from rentbench.report.model import Sources
from rentbench.report.pivot import pivots
from rentbench.report.tables import case_text, parts

SOURCES = Sources(root=None, folder="x", measurement="measurement.json", run=None, run_note=None)
H200 = synthetic.gpu(synthetic.H200)
A100 = synthetic.gpu(synthetic.A100)
V100 = H200 | {
    "name": "Tesla V100-SXM2-32GB",
    "memory_total_bytes": 32 * 1024**3,
    "compute_capability": "7.0",
}


def flat(number, gpus, cases, **members):
    return flatten(synthetic.measurement(number, "gemm", gpus, cases, **members), None, SOURCES)


def product(dtype, size, state, *values, **members):
    figures = [synthetic.measured("tflops", "TFLOPS", "higher", list(values))] if values else []
    return synthetic.case({"op": "matmul", "dtype": dtype, "size": size, "state": state}, figures, **members)


@pytest.fixture
def both():
    noise = random.Random(1)
    made = [
        flat(number, [synthetic.gpu(kind)], synthetic.gemm_cases(kind, noise))
        for number, kind in ((2, synthetic.A100), (1, synthetic.H200))
    ]
    (only,) = group(made)
    return only


def test_burst_and_steady_never_share_a_part(both, gemm):
    for part in parts(both, gemm):
        assert len({row.case.parameters.get("state") for row in part.rows}) == 1


def test_every_case_has_exactly_one_row(both, gemm):
    rows = [(row.result.id, row.case.index) for part in parts(both, gemm) for row in part.rows]
    assert len(rows) == len(set(rows)) == sum(len(result.cases) for result in both.current)


def test_the_part_with_the_headline_comes_first(both, gemm):
    made = parts(both, gemm)
    assert [part.title for part in made] == [
        "Matrix multiplication, steady", "Matrix multiplication, burst", "Memory bandwidth",
    ]  # fmt: skip
    assert made[0].varying == ("dtype", "size")
    assert made[0].fixed == {"op": "matmul", "state": "steady"}
    assert len({part.key for part in made}) == len(made)


def test_rows_follow_the_manifest_then_size_then_device(both, gemm):
    places = [
        (row.case.parameters["dtype"], row.case.parameters["size"]) for row in parts(both, gemm)[0].rows
    ]
    assert places[:4] == [("bf16", 1024), ("bf16", 1024), ("bf16", 2048), ("bf16", 2048)]
    assert [dtype for dtype, _ in places[::10]] == ["bf16", "fp16", "tf32", "fp32", "fp8"]


def test_a_skipped_case_stands_with_its_like_on_the_only_device(gemm):
    skipped = product("bf16", 1024, "steady", status="skipped", reason="bf16 is emulated on this device")
    (only,) = group([flat(1, [V100], [skipped, product("fp16", 1024, "steady", 90.0)])])
    (part,) = parts(only, gemm)
    assert [row.case.status for row in part.rows] == ["skipped", "ok"]


def test_a_group_without_any_figure_still_shows_its_cases(gemm):
    failed = product("bf16", 1024, "steady", status="failed", error=synthetic.error("oom", "out of memory"))
    (only,) = group([flat(1, [V100], [failed])])
    (part,) = parts(only, gemm)
    assert (part.title, part.metrics, len(part.rows)) == ("Without figures, steady", (), 1)
    assert ranking(gemm, only) == []
    assert summary(gemm, only, []) == ["None of the 1 run gave a figure; the reasons are below."]


def test_single_cases_make_one_table_by_device(preflight):
    def probes(number, gpus):
        cases = [
            synthetic.case({"probe": "disk"}, [synthetic.measured("disk_write", "MB/s", "higher", [1900.0])]),
            synthetic.case({"probe": "memory"}, [], status="skipped", reason="no GPU"),
        ]
        return flatten(synthetic.measurement(number, "preflight", gpus, cases), None, SOURCES)

    (only,) = group([probes(1, [H200]), probes(2, [A100])])
    (pivot,), rest = pivots(parts(only, preflight), preflight)
    assert rest == []
    assert [(line.case, line.metric and line.metric.name) for line in pivot.lines] == [
        ("disk", "disk_write"), ("memory", None),
    ]  # fmt: skip
    assert [cell.case.reason for cell in pivot.lines[1].cells] == ["no GPU", "no GPU"]


def test_the_headline_ranks_its_case_only_and_by_direction(gemm):
    fast = flat(
        1, [H200], [product("bf16", 8192, "steady", 678, 679, 680), product("bf16", 8192, "burst", 785)]
    )
    slow = flat(2, [A100], [product("bf16", 8192, "steady", 260, 261, 262)])
    (only,) = group([slow, fast])
    standings = ranking(gemm, only)
    assert [(standing.result.device.title, standing.figure.median) for standing in standings] == [
        ("H200 SXM 141 GB", 679), ("A100 SXM 80 GB", 261),
    ]  # fmt: skip
    assert standings[0].share == 1.0
    assert standings[1].share == pytest.approx(261 / 679)
    assert not standings[1].tied
    first, second = summary(gemm, only, standings)
    assert first == (
        "Matrix multiplication (matmul, bf16, size 8,192, steady): H200 SXM 141 GB reaches "
        "679.0\u00a0TFLOPS, 2.60 times the figure of A100 SXM 80 GB."
    )
    assert second == "2 runs on 2 devices, 2026-11-20, 3 cases."


def test_figures_within_noise_are_called_so(gemm):
    one = flat(1, [H200], [product("bf16", 8192, "steady", 678, 680, 682)])
    other = flat(2, [A100], [product("bf16", 8192, "steady", 677, 679, 681)])
    (only,) = group([other, one])
    standings = ranking(gemm, only)
    assert standings[1].tied
    assert "is within noise of it" in summary(gemm, only, standings)[0]


def test_confidence_says_how_sure_a_figure_is(gemm):
    repeats = {1: [100.0], 2: [100.0, 101.0], 3: [100.0, 101.0, 102.0]}
    said = {}
    for n, values in repeats.items():
        (only,) = group([flat(1, [H200], [product("bf16", 8192, "steady", *values)])])
        said[n] = confidence(ranking(gemm, only)[0].figure)
    assert said[1] == "single run"
    assert said[2] == "2 repeats on one host, no interval"
    assert (
        said[3].replace("\u2060", "") == "3 repeats on one host, 95 % interval of the mean 98.5–103.5 TFLOPS"
    )


def test_case_text_names_numbers_and_leaves_nothing_out(gemm):
    assert case_text({"state": "steady", "size": 8192, "op": "matmul"}, gemm) == "matmul, size 8,192, steady"
    assert case_text({"b": 1, "a": "device_copy"}, None) == "device copy, b 1"
    assert case_text({"model": "org/Model-7B_v2"}, None) == "org/Model-7B_v2"


def test_what_is_kept_apart_is_for_the_suite_to_say(both, gemm):
    state = replace(gemm.parameters["state"], apart=False)
    together = replace(gemm, parameters={**gemm.parameters, "state": state})
    shared = [part for part in parts(both, together) if "state" in part.varying]
    assert shared
    assert all("state" not in part.varying for part in parts(both, gemm))


def test_parts_of_one_metric_follow_each_other(both, gemm):
    leading = [part.leading.name for part in parts(both, gemm) if part.leading]
    assert leading == sorted(leading, key=list(gemm.metrics).index)
