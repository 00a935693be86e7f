"""The gemm workload as the harness calls it, on the CPU."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

import pytest

from support.suites import Recorded, load_workload, manifest

pytest.importorskip("torch")

from rentbench.core.errors import ErrorKind
from rentbench.harness.context import CaseFailed, CaseSkipped

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

MATMUL = {"op": "matmul", "dtype": "fp32", "size": 128, "state": "burst"}


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    return Recorded("gemm", tmp_path)


@pytest.fixture
def workload(recorded: Recorded) -> ModuleType:
    module = load_workload("gemm")
    module.prepare(recorded.context)
    recorded.context.enter(0)
    return module


@pytest.mark.parametrize("state", ["burst", "steady"])
def test_rates_follow_from_the_times(workload: ModuleType, recorded: Recorded, state: str) -> None:
    workload.run(MATMUL | {"state": state}, recorded.context)
    seconds, values = recorded.samples["tflops"], recorded.values
    assert len(seconds) == recorded.context.settings["iterations"]
    work = 2 * 128**3 / 1e12
    assert values["tflops"] == pytest.approx(work / statistics.median(seconds))
    assert values["tflops_mean"] == pytest.approx(work / statistics.fmean(seconds))
    assert values["tflops_best"] == pytest.approx(work / min(seconds))
    assert 0 <= values["relative_error"] < 1e-5
    assert "power_watts" not in values  # a CPU has no such reading, and missing is not 0


def test_bandwidth_counts_reading_and_writing(workload: ModuleType, recorded: Recorded) -> None:
    workload.run({"op": "device_copy", "mebibytes": 2, "state": "burst"}, recorded.context)
    seconds = recorded.samples["bandwidth"]
    assert recorded.values["bandwidth"] == pytest.approx(2 * 2 * 2**20 / statistics.median(seconds) / 1e9)


def test_integers_are_not_called_floating_point(workload: ModuleType, recorded: Recorded) -> None:
    workload.run(MATMUL | {"dtype": "int8"}, recorded.context)
    assert {"tops", "tops_mean", "tops_best"} <= set(recorded.values)
    assert "tflops" not in recorded.values


def test_slow_calls_are_timed_less_often(tmp_path: Path) -> None:
    recorded = Recorded("gemm", tmp_path, burst_limit_seconds=0.01, burst_iterations=1000)
    module = load_workload("gemm")
    module.prepare(recorded.context)
    recorded.context.enter(0)
    module.run(MATMUL | {"size": 512}, recorded.context)
    assert 5 <= len(recorded.samples["tflops"]) < 100


@pytest.mark.parametrize("operation", ["host_to_device", "device_to_host"])
def test_a_cpu_has_no_link_to_a_device(workload: ModuleType, recorded: Recorded, operation: str) -> None:
    with pytest.raises(CaseSkipped, match="same memory"):
        workload.run({"op": operation, "mebibytes": 2, "state": "burst"}, recorded.context)


def test_a_type_without_hardware_is_skipped_with_its_reason(workload: ModuleType, recorded: Recorded) -> None:
    with pytest.raises(CaseSkipped, match="tensor cores"):
        workload.run(MATMUL | {"dtype": "tf32"}, recorded.context)


@pytest.mark.parametrize(
    "case",
    [
        {"op": "matmul", "dtype": "fp32", "state": "burst"},
        MATMUL | {"mebibytes": 2},
        {"op": "device_copy", "size": 128, "state": "burst"},
        MATMUL | {"size": 100},
    ],
)
def test_a_case_with_other_parameters_is_refused(
    workload: ModuleType, recorded: Recorded, case: dict[str, Any]
) -> None:
    with pytest.raises(CaseFailed) as failure:
        workload.run(case, recorded.context)
    assert failure.value.kind == ErrorKind.USAGE


def test_a_wrong_product_fails_the_case_and_the_run(workload: ModuleType, recorded: Recorded) -> None:
    class Broken(workload.Product):  # type: ignore[misc, name-defined]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.multiply = lambda: self._c.zero_()

    workload.Product = Broken  # type: ignore[attr-defined]
    with pytest.raises(CaseFailed) as failure:
        workload.run(MATMUL, recorded.context)
    assert failure.value.kind == ErrorKind.WRONG_RESULT
    assert recorded.values == {}
    workload.finish(recorded.context)
    check = recorded.checks["results_right"]
    assert (check["severity"], check["outcome"], check["value"]) == ("hard", "failed", 1)
    assert check["detail"].endswith(": repeat 1: fp32 128 burst")


def test_a_good_run_has_its_checks(workload: ModuleType, recorded: Recorded) -> None:
    workload.run(MATMUL, recorded.context)
    workload.finish(recorded.context)
    outcomes = {name: check["outcome"] for name, check in recorded.checks.items()}
    assert outcomes == {
        "results_right": "passed",
        "started_cool": "not_checked",
        "clocks_settled": "not_checked",
    }


def test_a_run_without_a_case_checks_nothing(workload: ModuleType, recorded: Recorded) -> None:
    workload.finish(recorded.context)
    assert {check["outcome"] for check in recorded.checks.values()} == {"not_checked"}


@pytest.mark.parametrize(
    ("call_seconds", "timed"),
    [
        (1e-5, 1000),  # never more
        (1.6e-3, 468),  # as many as fit into 0.75 s
        (1.2e-2, 100),  # 100 at least
        (0.1, 30),  # but no longer than 3 s
        (2.0, 5),
    ],
)
def test_how_many_steady_calls_are_timed(tmp_path: Path, call_seconds: float, timed: int) -> None:
    recorded = Recorded("gemm", tmp_path, preset="standard")
    assert load_workload("gemm")._steady_iterations(call_seconds, recorded.context) == timed


def test_a_burst_of_the_headline_ends_before_a_power_limit_takes_hold() -> None:
    """On an H200 it took hold 20 ms after full load began; a product of the headline size takes 1.4 ms."""
    settings = manifest("gemm").presets["standard"].settings
    product = 1.4e-3
    timed = max(5, int(settings["burst_limit_seconds"] / product))
    assert (settings["burst_warm_up_iterations"] + timed) * product < 0.02
