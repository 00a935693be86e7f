"""`rentbench compare`: verdict, exit code and document for two results."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rentbench.core.documents import write_document
from rentbench.core.statistics import summarize
from rentbench.core.validation import check_file
from support.results import changed, example, write_result

OTHER_ID = "019abf00-1111-7222-8333-444455556666"
SAME = [0.0630, 0.0641, 0.0625]


def repetition(values: list[float], **parts: Any) -> dict[str, Any]:
    """Return the example as another run would have given it; a key is a pointer with __ for /."""
    document = changed(example("measurement", "smoke-on-cpu"), "/id", OTHER_ID)
    document["cases"][0]["measurements"][0].update(summarize(values))
    for place, value in parts.items():
        document = changed(document, "/" + place.replace("__", "/"), value)
    return document


@pytest.fixture
def compare(rentbench: Callable, tmp_path: Path) -> Callable:
    def run(document: dict[str, Any], *options: object) -> Any:
        one, _ = write_result(tmp_path / "a")
        other = tmp_path / "other.json"
        write_document(other, document)
        return rentbench("compare", one, other, *options)

    return run


@pytest.mark.parametrize(
    ("values", "verdict", "code"),
    [
        (SAME, "reproduced", 0),
        ([0.0930, 0.0941, 0.0925], "differs", 6),
        ([0.02, 0.0641, 0.14], "inconclusive", 7),
        ([0.063], "inconclusive", 7),
    ],
)
def test_verdicts(compare: Callable, values: list[float], verdict: str, code: int) -> None:
    outcome = compare(repetition(values), "--json")
    document = json.loads(outcome.out)
    assert (document["verdict"], outcome.code) == (verdict, code)
    (figure,) = document["figures"]
    assert figure["finding"] == verdict
    assert figure["repetition"] == values


def test_the_margin_counts(compare: Callable) -> None:
    assert compare(repetition(SAME), "--margin", "0.5").code == 7


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("preset", "standard", 'the preset: "smoke" and "standard"'),
        ("parameters__seed", 7, "the seed: 42 and 7"),
        ("suite__version", "9.0.0", "the suite's version"),
        ("parameters__settings__flush_cache", False, "setting flush_cache: true and false"),
        ("host__cpu__usable_cores", 96, "the processor's usable_cores"),
    ],
)
def test_what_is_not_comparable_says_why(compare: Callable, place: str, value: object, said: str) -> None:
    outcome = compare(repetition(SAME, **{place: value}))
    assert outcome.code == 8, outcome
    assert f"not comparable: {said}" in outcome.out
    assert outcome.out.strip().endswith("not comparable (margin 10 %)")


def test_people_see_a_table(compare: Callable) -> None:
    outcome = compare(repetition(SAME, host__kernel="9.9"))
    assert "steady_tflops" in outcome.out
    assert "unlike: the kernel" in outcome.out
    assert "reproduced (margin 10 %)" in outcome.out


def test_cases_of_other_parameters_are_never_mixed(compare: Callable) -> None:
    outcome = compare(repetition(SAME, cases__0__parameters__dtype="tf32"), "--json")
    document = json.loads(outcome.out)
    assert (document["figures"], document["verdict"], outcome.code) == ([], "inconclusive", 7)
    assert [one["parameters"]["dtype"] for one in document["left_out"]] == ["fp32", "tf32"]


def test_the_written_document_is_valid_and_never_replaced(compare: Callable, tmp_path: Path) -> None:
    file = tmp_path / "reproduction.json"
    assert compare(repetition(SAME), "--write", file).code == 0
    report = check_file(file)
    assert (report.kind, report.problems) == ("reproduction", ())
    before = file.read_bytes()
    (tmp_path / "other.json").unlink()
    (tmp_path / "a").rename(tmp_path / "kept")
    assert compare(repetition(SAME), "--write", file).code == 3
    assert file.read_bytes() == before


def test_bad_inputs(rentbench: Callable, compare: Callable, tmp_path: Path) -> None:
    folder, _ = write_result(tmp_path / "results")
    assert rentbench("compare", folder, folder).code == 2  # one result is no repetition of itself
    assert rentbench("compare", folder, tmp_path / "absent").code == 2
    wrong = rentbench("compare", folder, folder / "run.json")
    assert (wrong.code, "is a run document" in wrong.err) == (1, True)
    assert rentbench("compare", folder, folder, "--margin", "0").code == 2
    broken = compare(repetition(SAME, status="failed"))
    assert (broken.code, "no valid measurement" in broken.err) == (1, True)
