from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rentbench.core.errors import ErrorKind
from rentbench.core.manifests import Metric
from rentbench.harness.failures.documents import error_document
from rentbench.harness.merge import merge_case, merge_checks
from rentbench.harness.workers.collector import CaseOutcome, Collector, Recorded

METRICS = {
    "speed": Metric(name="speed", title="Speed", unit="TFLOPS", direction="higher"),
    "latency": Metric(name="latency", title="Latency", unit="s", direction="lower"),
}


def outcome(value: float | None = 1.0, status: str = "ok", **more: Any) -> CaseOutcome:
    records = {} if value is None else {"speed": Recorded(value=value, samples=None, samples_unit=None)}
    return CaseOutcome(status=status, records=records, **more)


def merged(*outcomes: CaseOutcome, repeats: int = 3) -> dict[str, Any]:
    return merge_case({"size": 1}, outcomes, METRICS, repeats)[0]


def test_values_stay_in_the_order_of_the_repeats() -> None:
    case = merged(outcome(3.0), outcome(1.0), outcome(2.0))
    assert case["status"] == "ok"
    assert case["measurements"][0]["values"] == [3.0, 1.0, 2.0]
    assert case["measurements"][0]["median"] == 2.0
    assert case["measurements"][0]["unit"] == "TFLOPS"


def test_the_first_failure_is_told_with_its_repeat() -> None:
    first = error_document(ErrorKind.OOM, "too large")
    second = error_document(ErrorKind.NETWORK, "cut")
    case = merged(outcome(1.0), outcome(None, "failed", error=first), outcome(None, "failed", error=second))
    assert case["status"] == "failed"
    assert (case["error"]["kind"], case["error"]["message"]) == ("oom", "repeat 2 of 3: too large")
    assert case["measurements"][0]["values"] == [1.0]


def test_a_single_run_needs_no_number() -> None:
    failed = outcome(None, "failed", error=error_document(ErrorKind.OOM, "too large"))
    assert merged(failed, repeats=1)["error"]["message"] == "too large"


@pytest.mark.parametrize(
    ("outcomes", "status", "reason"),
    [
        ([outcome(None, "skipped", reason="no fp8")], "skipped", "no fp8"),
        (
            [outcome(1.0), outcome(None, "skipped", reason="busy")],
            "invalid",
            "skipped in 1 of 2 repeats: busy",
        ),
        ([outcome(1.0), outcome(2.0, "invalid", reason="cache hits")], "invalid", "cache hits"),
    ],
)
def test_statuses(outcomes: list[CaseOutcome], status: str, reason: str) -> None:
    case = merged(*outcomes, repeats=2)
    assert (case["status"], case["reason"]) == (status, reason)


def test_peak_memory_is_the_maximum_and_its_lack_is_explained() -> None:
    known = outcome(peak_memory_bytes=5)
    case, why = merge_case({"size": 1}, [known, outcome(peak_memory_bytes=7)], METRICS, 2)
    assert (case["peak_memory_bytes"], why) == (7, None)
    case, why = merge_case({"size": 1}, [outcome(peak_memory_reason="not counted on CPU")], METRICS, 1)
    assert (case["peak_memory_bytes"], why) == (None, "not counted on CPU")


def test_phases_add_up() -> None:
    case = merged(outcome(phases={"load": 1.0, "measure": 2.0}), outcome(phases={"measure": 3.0}), repeats=2)
    assert case["phases"] == {"load": 1.0, "measure": 5.0}


def test_samples_are_pooled_in_their_own_unit() -> None:
    records = [
        CaseOutcome(status="ok", records={"speed": Recorded(value=v, samples=s, samples_unit="ms")})
        for v, s in ((1.0, [1.0, 2.0]), (2.0, [3.0, 4.0]))
    ]
    samples = merged(*records, repeats=2)["measurements"][0]["samples"]
    assert (samples["unit"], samples["n"], samples["min"], samples["max"]) == ("ms", 4, 1.0, 4.0)


def report(name: str, outcome: str, severity: str = "soft", detail: str = "seen") -> dict[str, Any]:
    return {
        "name": name,
        "outcome": outcome,
        "severity": severity,
        "detail": detail,
        "value": None,
        "limit": None,
        "unit": None,
    }


CHECKS = st.builds(
    report,
    st.sampled_from(["finite", "sane"]),
    st.sampled_from(["passed", "failed", "not_checked"]),
    st.sampled_from(["soft", "hard"]),
)


@given(st.lists(CHECKS))
def test_no_failure_is_lost_and_no_name_comes_twice(checks: list[dict[str, Any]]) -> None:
    merged = merge_checks(checks)
    assert [check["name"] for check in merged] == list(dict.fromkeys(check["name"] for check in checks))
    for check in merged:
        reports = [report for report in checks if report["name"] == check["name"]]
        outcomes = {report["outcome"] for report in reports}
        assert check["outcome"] == next(o for o in ("failed", "not_checked", "passed") if o in outcomes)
        failed_hard = any(r["outcome"] == "failed" and r["severity"] == "hard" for r in reports)
        assert (check["outcome"] == "failed" and check["severity"] == "hard") == failed_hard


def test_every_failure_is_told_once() -> None:
    reports = [
        report("clocks_settled", "failed", detail="repeat 1: bf16 8192 steady"),
        report("clocks_settled", "passed", detail="0 of 9"),
        report("clocks_settled", "failed", detail="repeat 3: fp16 8192 steady"),
        report("clocks_settled", "failed", detail="repeat 3: fp16 8192 steady"),
    ]
    assert merge_checks(reports)[0]["detail"] == (
        "repeat 1: bf16 8192 steady; repeat 3: fp16 8192 steady (so in 3 of 4 reports)"
    )


def test_a_detail_is_never_longer_than_the_schema_allows() -> None:
    reports = [report("told", "failed", detail=f"{number}" * 4000) for number in range(3)]
    assert len(merge_checks([*reports, report("told", "passed")])[0]["detail"]) == 4096


def test_how_often_a_check_failed_is_told() -> None:
    reports = [
        report("finite", "passed"),
        report("finite", "failed", detail="a NaN"),
        report("finite", "passed"),
    ]
    assert merge_checks(reports)[0]["detail"] == "a NaN (so in 1 of 3 reports)"


def collected(*events: dict[str, Any]) -> Collector:
    collector = Collector(lambda *_: None)
    for event in events:
        collector.take({"at": 0.0, **event})
    return collector


def test_what_prepare_took_counts_to_the_first_case() -> None:
    collector = collected(
        {"event": "phase", "case": None, "phase": "load", "begin": 1.0, "end": 3.0},
        {"event": "case_started", "case": 0},
        {"event": "phase", "case": 0, "phase": "load", "begin": 3.0, "end": 3.5},
        {"event": "case_started", "case": 1},
    )
    assert collector.cases[0].phases == {"load": 2.5}
    assert collector.cases[1].phases == {}


def test_only_measuring_phases_are_windows() -> None:
    collector = collected(
        {"event": "case_started", "case": 0},
        {"event": "phase", "case": 0, "phase": "warm_up", "begin": 1.0, "end": 2.0},
        {"event": "phase", "case": 0, "phase": "measure", "begin": 2.0, "end": 4.0},
    )
    assert collector.measure_windows == [(2.0, 4.0)]


def test_a_case_whose_worker_died_keeps_its_records_and_gets_the_error() -> None:
    collector = collected(
        {"event": "case_started", "case": 2},
        {"event": "phase_started", "case": 2, "phase": "measure"},
        {
            "event": "record",
            "case": 2,
            "metric": "speed",
            "value": 1.0,
            "samples": None,
            "samples_unit": None,
        },
    )
    assert (collector.running, collector.phase) == (2, "measure")
    error = error_document(ErrorKind.CRASHED, "gone")
    collector.end_running(error)
    assert (collector.cases[2].status, collector.cases[2].error) == ("failed", error)
    assert collector.cases[2].records["speed"].value == 1.0
    assert collector.running is None


def test_events_of_other_kinds_are_not_its_concern() -> None:
    assert collected({"event": "abandoned", "reason": "x"}, {"event": "of the future"}).cases == {}
