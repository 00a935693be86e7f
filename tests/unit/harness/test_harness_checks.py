from __future__ import annotations

from typing import Any

import pytest

from rentbench.harness.checks import software_checks, standard_checks
from rentbench.harness.telemetry.summary import TelemetrySummary

GIB = 2**30


def gpu(**changes: Any) -> dict[str, Any]:
    series = {"utilization_percent": changes.pop("utilization", [90, 95, 99])}
    return {"series": series, "throttle": {}, "foreign_processes": 0, **changes}


def checks(
    *gpus: dict[str, Any],
    used: int | None = 0,
    samples: list[int] | None = None,
    utilization_samples: list[int] | None = None,
    kinds: list[str | None] | None = None,
    peak: int | None = GIB,
    warm_ups: list[bool] | None = None,
    problem: str | None = None,
) -> dict[str, dict[str, Any]]:
    """Return the checks of a run on a GPU of 100 GiB, by name."""
    summary = TelemetrySummary(
        telemetry={"gpus": list(gpus)} if gpus else None,
        unavailable=[],
        link_under_load=[],
        throttle_samples=[30] * len(gpus) if samples is None else samples,
        utilization_samples=([3] * len(gpus) if utilization_samples is None else utilization_samples),
        power_kinds=["average"] * len(gpus) if kinds is None else kinds,
    )
    host = {"gpus": [{"memory_total_bytes": 100 * GIB, "memory_used_before_bytes": used}]}
    found = standard_checks(
        host, problem, summary, peak_memory_bytes=peak, warm_ups=[True] if warm_ups is None else warm_ups
    )
    return {check["name"]: check for check in found}


def test_a_good_run_passes_all() -> None:
    assert {check["outcome"] for check in checks(gpu()).values()} == {"passed"}


def test_without_telemetry_most_is_not_checked_and_nothing_fails() -> None:
    found = checks(used=None, peak=None, warm_ups=[])
    assert {name for name, check in found.items() if check["outcome"] == "passed"} == {"gpus_complete"}
    assert {check["outcome"] for check in found.values()} == {"passed", "not_checked"}


@pytest.mark.parametrize(
    ("used", "outcome", "severity"),
    [
        (5 * GIB, "passed", "soft"),
        (6 * GIB, "failed", "soft"),
        (50 * GIB, "failed", "soft"),
        (51 * GIB, "failed", "hard"),
    ],
)
def test_memory_in_use_before(used: int, outcome: str, severity: str) -> None:
    found = checks(gpu(), used=used)["gpu_idle_before"]
    assert (found["outcome"], found["severity"]) == (outcome, severity)


@pytest.mark.parametrize(
    ("peak", "utilization", "measuring", "outcome"),
    [
        (0, [0, 0, 0], 0, "failed"),
        (0, [0, 0, 40], 0, "passed"),
        (0, [0, 0], 2, "not_checked"),
        (0, [None, None, None], 0, "not_checked"),
        (512, [0, 0, 0], 3, "failed"),
        (512, [0, 60, 0], 3, "passed"),
        (GIB, [0, 0, 0, 0], 2, "passed"),
        (GIB, [None, None, None], 0, "passed"),
    ],
)
def test_a_gpu_that_was_not_used_makes_the_run_invalid(
    peak: int, utilization: list[int | None], measuring: int, outcome: str
) -> None:
    found = checks(gpu(utilization=utilization), utilization_samples=[measuring], peak=peak)["gpu_used"]
    assert (found["outcome"], found["severity"]) == (outcome, "hard")


@pytest.mark.parametrize(("foreign", "outcome"), [(0, "passed"), (2, "failed"), (None, "not_checked")])
def test_other_processes(foreign: int | None, outcome: str) -> None:
    assert checks(gpu(foreign_processes=foreign))["gpu_ours_alone"]["outcome"] == outcome


@pytest.mark.parametrize(
    ("throttle", "outcome"),
    [
        ({}, "passed"),
        ({"power_cap": 30, "application_clocks": 1}, "passed"),
        ({"thermal_software": 1}, "failed"),
        ({"thermal_hardware": 1}, "failed"),
        ({"power_brake": 1}, "failed"),
        ({"hardware_slowdown": 1}, "failed"),
    ],
)
def test_a_power_limit_is_no_fault_and_heat_is(throttle: dict[str, int], outcome: str) -> None:
    found = checks(gpu(throttle=throttle))["not_throttled"]
    assert found["outcome"] == outcome
    assert all(reason in found["detail"] for reason in throttle)


def test_throttling_that_was_never_read_is_not_called_absent() -> None:
    assert checks(gpu(), samples=[0])["not_throttled"]["outcome"] == "not_checked"


@pytest.mark.parametrize(("warm_ups", "outcome"), [([True, True], "passed"), ([True, False], "failed")])
def test_steady_state(warm_ups: list[bool], outcome: str) -> None:
    assert checks(gpu(), warm_ups=warm_ups)["steady_state"]["outcome"] == outcome


def test_a_suite_that_warms_up_by_itself_gets_no_check_of_warm_ups() -> None:
    assert "steady_state" not in checks(gpu(), warm_ups=[])


def test_packages_that_are_not_installed_are_named_once() -> None:
    (found,) = software_checks(["torch", "cublas", "numpy"], [["cublas"], ["cublas", "numpy"], None])
    assert (found["severity"], found["outcome"]) == ("soft", "not_checked")
    assert found["detail"].endswith(": cublas, numpy")


def test_packages_that_are_all_there_pass() -> None:
    (found,) = software_checks(["torch"], [[]])
    assert found["outcome"] == "passed"


@pytest.mark.parametrize(("packages", "missing"), [([], [[]]), (["torch"], []), (["torch"], [None])])
def test_where_nothing_was_looked_for_there_is_no_check(
    packages: list[str], missing: list[list[str] | None]
) -> None:
    assert software_checks(packages, missing) == []


def test_a_gpu_that_is_missing_is_a_warning() -> None:
    found = checks(gpu(), problem="GPU 3 is lost")["gpus_complete"]
    assert (found["outcome"], found["detail"]) == ("failed", "GPU 3 is lost")


def test_two_kinds_of_power_readings_are_no_kind() -> None:
    assert checks(gpu(), gpu(), kinds=["average", "instant"])["power_readings"]["value"] is None
