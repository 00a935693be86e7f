from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest

from rentbench.core.errors import ErrorKind
from rentbench.core.manifests import read_suite
from rentbench.core.validation import check
from rentbench.harness.arguments import Request, build_parser, build_request
from rentbench.harness.delivery import deliver
from rentbench.harness.document import Findings, build_document
from rentbench.harness.failures.documents import error_document
from rentbench.harness.probe.choice import UNKNOWN
from rentbench.harness.progress import Progress
from rentbench.harness.results import ResultFolder
from rentbench.harness.workers.collector import CaseOutcome, Collector, Recorded
from support.harness_runs import REPOSITORY, SUITES

if TYPE_CHECKING:
    from pathlib import Path


def request(*arguments: str) -> Request:
    command = ["well", "--preset", "smoke", "--device", "cpu", *arguments]
    return build_request(
        build_parser().parse_args(command), read_suite(SUITES / "well" / "suite.toml"), command
    )


def good(value: float = 1.0, **more: Any) -> CaseOutcome:
    recorded = Recorded(value=value, samples=[value], samples_unit=None)
    return CaseOutcome(status="ok", records={"speed": recorded}, peak_memory_reason="not counted", **more)


def findings(**changes: Any) -> Findings:
    values: dict[str, Any] = {
        "identifier": "01a22ed0-b70f-7078-8d84-44f8731df2d2",
        "started": "2026-11-30T23:59:59.500Z",
        "seconds": 90.25,
        "host": UNKNOWN.host,
        "telemetry": None,
        "outcomes": [[good()], [good()]],
        "repeats": [Collector(lambda *_: None)],
        "error": None,
        "checks": [],
        "unavailable": UNKNOWN.unavailable,
        "environment": {"CUDA_VISIBLE_DEVICES": "", "HOME": "/home/somebody", "HF_TOKEN": "x"},
        "artifacts": [],
    }
    return Findings(**{**values, **changes})


def test_the_document_is_valid_and_its_end_follows_from_the_monotonic_clock() -> None:
    document = build_document(request(), findings())
    assert check(document, "measurement") == []
    assert document["status"] == "ok"
    assert document["finished"] == "2026-12-01T00:01:29.750Z"
    assert document["environment_variables"] == {"CUDA_VISIBLE_DEVICES": ""}
    assert document["command"][:4] == ["python", "-m", "rentbench.harness", "well"]


def test_an_error_of_the_run_makes_good_cases_partial() -> None:
    error = error_document(ErrorKind.INTERRUPTED, "ended by SIGTERM")
    document = build_document(request(), findings(error=error))
    assert check(document, "measurement") == []
    assert document["status"] == "partial"


def test_one_reason_for_all_cases_and_several_where_they_differ() -> None:
    same = build_document(request(), findings())["unavailable"]
    assert [entry["path"] for entry in same if "cases" in entry["path"]] == ["/cases"]
    known = [[good(peak_memory_bytes=5)], [good()]]
    differ = build_document(request(), findings(outcomes=known))["unavailable"]
    assert [entry["path"] for entry in differ if "cases" in entry["path"]] == ["/cases/1/peak_memory_bytes"]


@pytest.mark.parametrize("recipe", ["", "sha256:short", "latest"])
def test_what_is_no_recipe_is_none(monkeypatch: pytest.MonkeyPatch, recipe: str) -> None:
    monkeypatch.setenv("RENTBENCH_RECIPE_ID", recipe)
    assert build_document(request(), findings())["recipe_id"] is None


@pytest.mark.parametrize(
    "spoil", [{"status": "fine"}, {"weights": {"kind": "heavy"}}, {"software": {"torch": float("nan")}}]
)
def test_a_document_that_breaks_its_own_schema_is_kept_and_told_loudly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: dict[str, Any]
) -> None:
    monkeypatch.setenv("RENTBENCH_ROOT", str(REPOSITORY))
    document = {**build_document(request(), findings()), **spoil}
    out, err = io.StringIO(), io.StringIO()
    results = ResultFolder(tmp_path, "x")
    code = deliver(document, request("--json"), results, Progress(err, 2, {}), out)
    assert code == 3
    assert "THE DOCUMENT IS NOT VALID" in err.getvalue()
    assert json.loads(out.getvalue())["cases"] == document["cases"]
    assert not list(tmp_path.glob("**/measurement.json"))
    kept = list(tmp_path.glob("*/*/*/measurement.invalid.json"))
    assert len(kept) == (0 if "software" in spoil else 1)  # NaN is no JSON: standard output is all there is
