"""The machine against the order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from preflight_order import is_model, ordered

from support.suites import gpu, host, manifest

if TYPE_CHECKING:
    from preflight_findings import Finding


def find(name: str, machine: dict[str, Any], **settings: Any) -> Finding:
    given = {**manifest("preflight").presets["standard"].settings, **settings}
    return next(finding for finding in ordered(machine, given) if finding.name == name)


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ("H200", "NVIDIA H200"),
        ("h200-141gb", "NVIDIA H200"),
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"),
        ("H100", "NVIDIA H100 80GB HBM3"),
        ("A100-80GB", "NVIDIA A100-SXM4-80GB"),
        ("A100-80G-SXM4", "NVIDIA A100-SXM4-80GB"),
        ("A100 SXM", "NVIDIA A100-SXM4-40GB"),
        ("A100", "NVIDIA A100 80GB PCIe"),
        ("RTX4090", "NVIDIA GeForce RTX 4090"),
        ("rtx 4090", "NVIDIA GeForce RTX 4090"),
        ("RTX4070Ti", "NVIDIA GeForce RTX 4070 Ti"),
        ("RTX 6000 Ada", "NVIDIA RTX 6000 Ada Generation"),
        ("RTX A6000", "NVIDIA RTX A6000"),
        ("RTX PRO 6000", "NVIDIA RTX PRO 6000 Blackwell Server Edition"),
        ("V100", "Tesla V100-SXM2-32GB"),
        ("L40S", "NVIDIA L40S"),
    ],
)
def test_the_ordered_model_is_recognised(expected: str, found: str) -> None:
    assert is_model(expected, found)


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ("H200", "NVIDIA H100 80GB HBM3"),
        ("H100", "NVIDIA H100 NVL"),
        ("A100-80GB", "NVIDIA A100-SXM4-40GB"),
        ("A100 SXM", "NVIDIA A100 80GB PCIe"),
        ("A10", "NVIDIA A100-SXM4-40GB"),
        ("A10", "NVIDIA A10G"),
        ("L40S", "NVIDIA L40"),
        ("L4", "NVIDIA L40"),
        ("RTX 4070", "NVIDIA GeForce RTX 4070 Ti"),
        ("RTX 4070", "NVIDIA GeForce RTX 4070 SUPER"),
        ("RTX 4090", "NVIDIA GeForce RTX 4090 D"),
        ("RTX 4090", "NVIDIA GeForce RTX 4090 Laptop GPU"),
        ("RTX 6000", "NVIDIA RTX 6000 Ada Generation"),
        ("RTX 6000 Ada", "Quadro RTX 6000"),
        ("H100", "NVIDIA H100 80GB HBM3 MIG 3g.40gb"),
        ("NVIDIA", "NVIDIA H200"),
        ("80GB", "NVIDIA A100-SXM4-80GB"),
    ],
)
def test_another_model_is_not(expected: str, found: str) -> None:
    assert not is_model(expected, found)


def test_what_was_not_stated_is_not_checked() -> None:
    machine = host(gpus=[gpu()], driver_version="580.159.04")
    for name in ("gpu_count", "gpu_model", "gpu_memory", "driver_version", "cpu_count", "ram"):
        finding = find(name, machine)
        assert finding.passed is None
        assert "was not given" in finding.detail


def test_a_machine_as_ordered_passes() -> None:
    machine = host(gpus=[gpu(), gpu()], driver_version="580.159.04")
    order = {
        "expect_gpu": "H200",
        "expect_gpus": 2,
        "expect_memory_gib": 141,
        "minimum_driver": "570.86",
        "expect_cpu_cores": 2,
        "expect_ram_gib": 16,
    }
    for name in ("gpu_count", "gpu_model", "gpu_memory", "driver_version", "cpu_count", "ram"):
        assert find(name, machine, **order).passed is True, name


@pytest.mark.parametrize(
    ("name", "order", "detail"),
    [
        ("gpu_count", {"expect_gpus": 8}, "ordered 8, found 1"),
        ("gpu_model", {"expect_gpu": "B200"}, "ordered B200, found NVIDIA H200"),
        ("gpu_memory", {"expect_memory_gib": 180}, "found 140.4 GiB"),
    ],
)
def test_another_machine_is_a_hard_failure(name: str, order: dict[str, Any], detail: str) -> None:
    finding = find(name, host(gpus=[gpu()]), **order)
    assert (finding.passed, finding.severity) == (False, "hard")
    assert detail in finding.detail


def test_one_wrong_card_of_several_fails() -> None:
    machine = host(gpus=[gpu(), gpu(name="NVIDIA H100 80GB HBM3", memory_total_bytes=80 * 2**30)])
    assert find("gpu_model", machine, expect_gpu="H200").passed is False
    assert find("gpu_memory", machine, expect_memory_gib=141).passed is False


def test_no_card_where_one_was_ordered_fails() -> None:
    for name, order in (("gpu_model", {"expect_gpu": "H200"}), ("gpu_memory", {"expect_memory_gib": 141})):
        assert find(name, host(), **order).passed is False


def test_a_card_of_48_gb_shows_less_and_counts_as_that() -> None:
    machine = host(gpus=[gpu(name="NVIDIA L40S", memory_total_bytes=46068 * 2**20)])
    assert find("gpu_memory", machine, expect_memory_gib=48).passed is True
    assert find("gpu_memory", machine, expect_memory_gib=80).passed is False


def test_a_memory_that_cannot_be_read_is_not_checked() -> None:
    machine = host(gpus=[gpu(memory_total_bytes=None)])
    assert find("gpu_memory", machine, expect_memory_gib=141).passed is None


@pytest.mark.parametrize(("found", "passed"), [("570.124.06", True), ("570.86", True), ("550.144.03", False)])
def test_drivers_are_compared_as_numbers(found: str, passed: bool) -> None:
    assert find("driver_version", host(driver_version=found), minimum_driver="570.86").passed is passed


def test_a_quota_counts_as_the_cores() -> None:
    machine = host(cpu={"usable_cores": 64, "quota_cores": 4.0})
    finding = find("cpu_count", machine, expect_cpu_cores=16)
    assert finding.passed is False
    assert "found 4 usable" in finding.detail
