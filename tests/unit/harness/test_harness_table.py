from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rentbench.core.selection import case_label
from rentbench.core.statistics import summarize
from rentbench.harness.labels import significant
from rentbench.harness.table import WIDTH, render_table


def measurement(*values: float, metric: str = "speed", unit: str = "TFLOPS") -> dict[str, Any]:
    return {"metric": metric, "unit": unit, **summarize(values)}


def case(*measurements: dict[str, Any], status: str = "ok", **more: Any) -> dict[str, Any]:
    parameters = {"dtype": "bf16", "size": 8192, "cold": True}
    return {
        "parameters": parameters,
        "status": status,
        "error": None,
        "reason": None,
        "measurements": list(measurements),
        **more,
    }


def document(*cases: dict[str, Any], repeats: int = 3, **more: Any) -> dict[str, Any]:
    return {
        "suite": {"name": "gemm", "version": "1.0.0"},
        "preset": "standard",
        "parameters": {"repeats": repeats},
        "host": {"gpus": [{"name": "NVIDIA H200"}] * 2, "cpu": {"model": None}},
        "cases": list(cases),
        "validity": [],
        "error": None,
        "status": "ok",
        **more,
    }


def test_median_unit_and_interval_stand_in_a_row() -> None:
    lines = render_table(document(case(measurement(700.0, 710.0, 720.0)))).splitlines()
    assert lines[:2] == ["gemm 1.0.0, preset standard, 3 repeats", "2 × NVIDIA H200"]
    assert lines[3] == "dtype=bf16,size=8192,cold=true"
    assert lines[4].split() == ["speed", "710.0", "TFLOPS", "95", "%:", "685–735"]


def test_two_values_show_both_and_one_says_single_run() -> None:
    assert "both: 1.00–2.00" in render_table(document(case(measurement(1.0, 2.0)), repeats=2))
    single = render_table(document(case(measurement(1.0)), repeats=1))
    assert "preset standard, single run" in single
    assert single.count("single run") == 2


def test_what_is_missing_is_a_dash_with_the_reason() -> None:
    skipped = case(status="skipped", reason="bf16 is emulated on this card")
    failed = case(status="failed", error={"kind": "oom", "message": "too large"})
    text = render_table(document(skipped, failed))
    assert "  — skipped: bf16 is emulated on this card\n" in text
    assert "  — failed: oom: too large\n" in text


def test_values_of_a_failed_case_are_shown_with_the_failure() -> None:
    text = render_table(
        document(case(measurement(1.0), status="failed", error={"kind": "oom", "message": "too large"}))
    )
    assert "1.000" in text
    assert "  failed: oom: too large\n" in text


def test_checks_error_and_status_follow() -> None:
    checks = [
        {"name": "finite", "severity": "hard", "outcome": "failed", "detail": "a NaN"},
        {"name": "alone", "severity": "soft", "outcome": "failed", "detail": "2 others"},
        {"name": "fine", "severity": "soft", "outcome": "passed", "detail": "all well"},
    ]
    error = {"kind": "timeout", "message": "too slow", "hint": "take less"}
    lines = render_table(document(case(), validity=checks, error=error, status="invalid")).splitlines()
    assert lines[-5:] == [
        "INVALID: finite: a NaN",
        "warning: alone: 2 others",
        "error: timeout: too slow",
        "hint: take less",
        "status: invalid",
    ]


@given(
    st.text(max_size=300),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.text(alphabet="abcdef_", min_size=1, max_size=64),
)
def test_no_line_is_wider_than_a_terminal(reason: str, value: float, metric: str) -> None:
    cases = [
        case(measurement(value, value + 1, value + 2, metric=metric, unit="percentage points")),
        case(status="skipped", reason=reason),
        case(parameters={"name": "x" * 70, "other": "y" * 70}),
    ]
    text = render_table(document(*cases))
    assert max(map(len, text.splitlines())) <= WIDTH


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (718.4612, "718.5"),
        (0.00123456, "0.001235"),
        (41234.5, "41234"),
        (0.0, "0"),
        (-3.14159, "-3.142"),
        (999.96, "1000.0"),
        (1e-12, "1e-12"),
        (2.5e15, "2.5e+15"),
    ],
)
def test_significant_digits(value: float, text: str) -> None:
    assert significant(value) == text


def test_a_label_is_what_the_command_line_takes() -> None:
    assert case_label({"a": 1, "b": True, "c": 0.5, "d": "x"}) == "a=1,b=true,c=0.5,d=x"


def test_nothing_in_a_document_acts_on_the_terminal() -> None:
    evil = "\x1b]0;owned\x07 \x1b[2J \u202e done"
    error = {"kind": "crashed", "message": evil, "hint": evil}
    check = {"name": "told", "outcome": "failed", "severity": "soft", "detail": evil}
    one = {**case(status="failed"), "error": error, "parameters": {"name": evil}}
    whole = document(one, error=error, validity=[check])
    whole["host"]["gpus"] = [{"name": evil}]
    text = render_table(whole)
    assert all(line.isprintable() for line in text.splitlines())
    assert text.count("done") == 6
