from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rentbench.harness.context import PHASES, Context
from rentbench.harness.outcomes import CaseFailed, CaseSkipped, WorkloadError
from rentbench.harness.timing import CpuTimer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def events() -> list[dict[str, Any]]:
    return []


@pytest.fixture
def context(tmp_path: Path, events: list[dict[str, Any]]) -> Context:
    made = Context(
        device="cpu",
        device_count=0,
        preset="smoke",
        settings={},
        seed=42,
        repeat=0,
        scratch=tmp_path,
        host={},
        timer=CpuTimer(),
        metrics={"speed": None, "latency": None},
        emit=events.append,
    )
    made.enter(3)
    return made


def test_a_record_carries_case_value_and_readings(context: Context, events: list[dict[str, Any]]) -> None:
    context.record("latency", 2, samples=[1.5, 2.5], samples_unit="ms")
    assert events == [
        {
            "event": "record",
            "case": 3,
            "metric": "latency",
            "value": 2.0,
            "samples": [1.5, 2.5],
            "samples_unit": "ms",
        }
    ]
    assert context.recorded == {"latency"}


def test_numbers_of_numpy_become_plain_ones(context: Context, events: list[dict[str, Any]]) -> None:
    context.record("speed", np.float32(1.5), samples=np.array([1, 2], dtype=np.int64))  # type: ignore[arg-type]
    context.check("ratio", True, "fits", value=np.float32(0.5))  # type: ignore[arg-type]
    assert events[0]["value"] == 1.5
    assert type(events[0]["value"]) is type(events[0]["samples"][0]) is float
    assert type(events[1]["check"]["value"]) is float


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("as_sample", [True, False])
def test_what_is_not_finite_is_a_wrong_result(context: Context, value: float, as_sample: bool) -> None:
    with pytest.raises(CaseFailed) as caught:
        context.record("speed", 1.0 if as_sample else value, samples=[value])
    assert caught.value.kind == "wrong_result"


@pytest.mark.parametrize("value", [True, None, "1", [1.0]])
def test_what_is_no_number_is_refused(context: Context, value: Any) -> None:
    with pytest.raises(WorkloadError):
        context.record("speed", value)


def test_the_same_metric_may_come_again_in_the_next_case(context: Context) -> None:
    context.record("speed", 1.0)
    context.enter(4)
    context.record("speed", 2.0)


@pytest.mark.parametrize("use", ["record", "invalidate"])
def test_outside_a_case_there_is_nothing_to_record(context: Context, use: str) -> None:
    context.enter(None)
    act = {
        "record": lambda: context.record("speed", 1.0),
        "invalidate": lambda: context.invalidate("no reason"),
    }
    with pytest.raises(WorkloadError, match="outside a case"):
        act[use]()


def test_every_phase_is_timed(context: Context, events: list[dict[str, Any]]) -> None:
    for name in PHASES:
        with context.phase(name):  # type: ignore[arg-type]
            pass
    ended = [event for event in events if event["event"] == "phase"]
    assert [event["phase"] for event in ended] == list(PHASES)
    assert all(event["end"] >= event["begin"] for event in ended)


def test_a_phase_that_fails_is_known_until_the_next_begins(context: Context) -> None:
    with pytest.raises(KeyError), context.phase("compile"):
        raise KeyError
    assert context.failed_phase == "compile"
    with context.phase("measure"):
        pass
    assert context.failed_phase is None


def test_an_early_end_is_not_swallowed_by_the_workloads_own_except(context: Context) -> None:
    def careless(end: Callable[[], None]) -> None:
        with suppress(Exception):
            end()

    with pytest.raises(CaseSkipped):
        careless(lambda: context.skip("not here"))
    with pytest.raises(CaseFailed):
        careless(lambda: context.fail("oom", "too large"))


@pytest.mark.parametrize(("passed", "outcome"), [(True, "passed"), (False, "failed"), (None, "not_checked")])
def test_a_check_has_three_outcomes(
    context: Context, events: list[dict[str, Any]], passed: bool | None, outcome: str
) -> None:
    context.check("sane", passed, "looked at it")
    assert events[0]["check"]["outcome"] == outcome


@pytest.mark.parametrize("name", ["", "Sane", "is sane", "1st", "x" * 65])
def test_a_check_needs_a_plain_name(context: Context, name: str) -> None:
    with pytest.raises(WorkloadError):
        context.check(name, True, "detail")


def test_texts_are_cut_to_what_a_document_holds(context: Context, events: list[dict[str, Any]]) -> None:
    context.check("sane", True, "x" * 10_000, value="y" * 10_000)
    check = events[0]["check"]
    assert len(check["detail"]) < 4096
    assert len(check["value"]) < 4096


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "x" * 101, "a b"])
def test_an_artifact_needs_a_plain_file_name(context: Context, name: str) -> None:
    with pytest.raises(WorkloadError):
        context.artifact(name, b"", "nothing")


def test_readings_on_a_cpu_are_all_unknown(context: Context) -> None:
    reading = context.reading()
    assert reading.power_watts is None
    assert reading.memory_used_bytes is None
