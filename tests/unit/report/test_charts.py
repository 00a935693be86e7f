from __future__ import annotations

import random
import re
import xml.etree.ElementTree as ET

import pytest

from fixtures.report import synthetic
from fixtures.report.hostile import PAYLOAD
from rentbench.core.errors import RentbenchError
from rentbench.report.charts import PALETTE, part_chart, ranking_chart
from rentbench.report.compare import group
from rentbench.report.draw import ChartCache, chart_svgs
from rentbench.report.flatten import flatten
from rentbench.report.headline import ranking
from rentbench.report.model import Sources
from rentbench.report.tables import parts

SOURCES = Sources(root=None, folder="x", measurement="measurement.json", run=None, run_note=None)


def flat(number, gpus, cases):
    return flatten(synthetic.measurement(number, "gemm", gpus, cases), None, SOURCES)


def products(places, value=100.0):
    return [
        synthetic.case(
            {"op": "matmul", "dtype": "bf16", "size": size, "state": "steady"},
            [synthetic.measured("tflops", "TFLOPS", "higher", [value + size])],
        )
        for size in places
    ]


@pytest.fixture
def cache(tmp_path):
    return ChartCache(tmp_path / "charts")


@pytest.fixture
def both():
    noise = random.Random(1)
    pairs = ((2, synthetic.A100), (1, synthetic.H200))
    (only,) = group([flat(n, [synthetic.gpu(kind)], synthetic.gemm_cases(kind, noise)) for n, kind in pairs])
    return only


def only_part(gemm, *results):
    (only,) = group(results)
    (part,) = parts(only, gemm)
    return part


def test_every_figure_is_a_mark_in_both_widths(both, gemm, cache):
    made = parts(both, gemm)
    charts = [part_chart(part, gemm) for part in made]
    assert [chart.marks for chart in charts] == [44, 44, 4]
    for chart in charts:
        assert set(chart_svgs(chart, cache)) == {"wide", "narrow"}  # which counts the marks


def test_drawings_are_labelled_and_their_identifiers_differ(both, gemm, cache):
    drawings = [
        svg for part in parts(both, gemm) for svg in chart_svgs(part_chart(part, gemm), cache).values()
    ]
    identifiers = [set(re.findall(r'\bid="([^"]+)"', svg)) for svg in drawings]
    assert sum(map(len, identifiers)) == len(set().union(*identifiers))
    for svg in drawings:
        root = ET.fromstring(svg)
        assert root.get("role") == "img"
        assert root.get("aria-label").startswith(("Matrix multiplication", "Memory bandwidth"))
        assert "aria-roledescription" not in svg
        assert "http" not in svg.replace("http://www.w3.org/", "")


def test_fields_have_plain_names_and_data_is_inline(both, gemm):
    for part in parts(both, gemm):
        for spec in part_chart(part, gemm).specs.values():
            assert "url" not in str(spec)
            rows = [row for rows in spec["datasets"].values() for row in rows]
            assert {name for row in rows for name in row} <= set(re.findall("[a-z0-9_]+", " ".join(rows[0])))


def test_specifications_are_the_same_every_time(both, gemm):
    first, second = (part_chart(parts(both, gemm)[0], gemm) for _ in range(2))
    assert first == second


def test_one_figure_is_no_chart(gemm):
    assert (
        part_chart(only_part(gemm, flat(1, [synthetic.gpu(synthetic.H200)], products([1024]))), gemm) is None
    )
    (only,) = group([flat(1, [synthetic.gpu(synthetic.H200)], products([8192]))])
    assert ranking_chart(ranking(gemm, only), gemm.metrics["tflops"], "bf16") is None


@pytest.mark.parametrize("places", [[1024, 2048], [1, 1024], [0, 1024], [0, 1, 65536]])
def test_no_place_meets_a_logarithmic_axis_at_zero(gemm, cache, places):
    part = only_part(gemm, flat(1, [synthetic.gpu(synthetic.H200)], products(places)))
    chart = part_chart(part, gemm)
    logarithmic = '"log"' in str(chart.specs["wide"]).replace("'", '"')
    assert logarithmic == (places == [1, 1024])
    chart_svgs(chart, cache)


def test_zero_figures_are_drawn_on_the_linear_axis(gemm, cache):
    part = only_part(gemm, flat(1, [synthetic.gpu(synthetic.H200)], products([1024, 2048], value=-1024.0)))
    chart_svgs(part_chart(part, gemm), cache)


def test_hostile_names_stay_text_in_drawings(gemm, cache):
    results = [
        flat(n, [synthetic.gpu(synthetic.H200) | {"name": f"{n} {PAYLOAD}"[:256]}], products([1024, 8192]))
        for n in (1, 2)
    ]
    (only,) = group(results)
    charts = [
        part_chart(parts(only, gemm)[0], gemm),
        ranking_chart(ranking(gemm, only), gemm.metrics["tflops"], PAYLOAD),
    ]
    for chart in charts:
        for svg in chart_svgs(chart, cache).values():
            elements = list(ET.fromstring(svg).iter())
            assert {element.tag.rpartition("}")[2] for element in elements} <= {
                "svg", "g", "path", "rect", "line", "text", "tspan", "defs", "clipPath", "title",
            }  # fmt: skip
            assert not [name for element in elements for name in element.attrib if name.startswith("on")]
            assert any("<script>" in (element.text or "") for element in elements)


def test_more_devices_than_colours_are_said_to_be_in_the_table(gemm, cache):
    names = [f"Device {letter}" for letter in "ABCDEFGHIJ"]
    results = [
        flat(n, [synthetic.gpu(synthetic.H200) | {"name": name}], products([1024, 8192]))
        for n, name in enumerate(names)
    ]
    chart = part_chart(only_part(gemm, *results), gemm)
    assert chart.marks == 2 * len(PALETTE)
    assert "4 more figures are in the table only" in chart.caption
    chart_svgs(chart, cache)


def test_a_drawing_is_made_once(both, gemm, cache, tmp_path):
    chart = part_chart(parts(both, gemm)[2], gemm)
    first = chart_svgs(chart, cache)
    kept = sorted((tmp_path / "charts").iterdir())
    assert len(kept) == 2
    stamp = [path.stat().st_mtime_ns for path in kept]
    assert chart_svgs(chart, cache) == first
    assert [path.stat().st_mtime_ns for path in kept] == stamp


def test_drawings_of_another_form_are_made_anew(both, gemm, cache, tmp_path, monkeypatch):
    chart = part_chart(parts(both, gemm)[2], gemm)
    chart_svgs(chart, cache)
    monkeypatch.setattr("rentbench.report.draw._FORM", 2)
    chart_svgs(chart, ChartCache(tmp_path / "charts"))
    assert len(list((tmp_path / "charts").iterdir())) == 4


def test_a_cache_that_cannot_be_written_is_done_without(both, gemm, tmp_path):
    (tmp_path / "file").write_text("in the way")
    chart_svgs(part_chart(parts(both, gemm)[2], gemm), ChartCache(tmp_path / "file" / "charts"))


def test_a_drawing_without_its_marks_is_refused(both, gemm, cache, tmp_path):
    chart = part_chart(parts(both, gemm)[2], gemm)
    chart_svgs(chart, cache)
    for path in (tmp_path / "charts").iterdir():
        path.write_text('<svg width="1" height="1" viewBox="0 0 1 1"></svg>')
    with pytest.raises(RentbenchError, match="0 marks instead of 4"):
        chart_svgs(chart, cache)
