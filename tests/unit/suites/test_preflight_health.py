"""The health of cards and host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from preflight_health import health

from support.suites import gpu, host, manifest

if TYPE_CHECKING:
    from preflight_findings import Finding


def find(name: str, machine: dict[str, Any], **settings: Any) -> Finding:
    given = {**manifest("preflight").presets["standard"].settings, **settings}
    return next(finding for finding in health(machine, given) if finding.name == name)


def test_a_healthy_machine_passes() -> None:
    settings = manifest("preflight").presets["standard"].settings
    outcomes = {one.name: one.passed for one in health(host(gpus=[gpu()]), settings)}
    assert outcomes.pop("topology") is None  # one card has none
    assert set(outcomes.values()) == {True}


def test_without_a_card_nothing_about_cards_is_checked() -> None:
    settings = manifest("preflight").presets["standard"].settings
    for finding in health(host(), settings):
        if finding.name != "shared_memory":
            assert finding.passed is None
            assert "GPU" in finding.detail


@pytest.mark.parametrize(
    ("name", "change", "severity", "detail"),
    [
        ("whole_gpu", {"mig_mode": True, "mig_profile": "3g.40gb"}, "soft", "MIG is on (3g.40gb)"),
        ("whole_gpu", {"vgpu": True}, "soft", "vGPU"),
        ("gpu_unused", {"memory_used_before_bytes": 20_000 * 2**20}, "hard", "20000 of 143771 MiB"),
        ("ecc_enabled", {"ecc_enabled": False}, "soft", "ECC is off"),
        ("ecc_errors", {"ecc_uncorrected_errors": 3}, "soft", "3 uncorrected"),
        ("remapped_rows", {"remapped_rows": {"pending": False, "failed": True}}, "hard", "replacement"),
        ("remapping_pending", {"remapped_rows": {"pending": True, "failed": False}}, "soft", "reset"),
        ("power_limit", {"power_limit_watts": 500.0}, "soft", "500 W, its default 700 W"),
    ],
)
def test_a_fault_is_found_on_the_card_that_has_it(
    name: str, change: dict[str, Any], severity: str, detail: str
) -> None:
    finding = find(name, host(gpus=[gpu(), gpu(**change)]))
    assert (finding.passed, finding.severity) == (False, severity)
    assert finding.detail.startswith("GPU 1: ")
    assert detail in finding.detail


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("gpu_unused", "memory_used_before_bytes"),
        ("ecc_enabled", "ecc_enabled"),
        ("ecc_errors", "ecc_uncorrected_errors"),
        ("remapped_rows", "remapped_rows"),
        ("remapping_pending", "remapped_rows"),
        ("power_limit", "power_limit_default_watts"),
    ],
)
def test_what_cannot_be_read_is_not_checked(name: str, field: str) -> None:
    assert find(name, host(gpus=[gpu(), gpu(**{field: None})])).passed is None


def test_a_fault_counts_also_beside_a_card_that_cannot_be_read() -> None:
    assert find("ecc_enabled", host(gpus=[gpu(ecc_enabled=None), gpu(ecc_enabled=False)])).passed is False


def test_rounding_of_the_power_limit_is_no_fault() -> None:
    assert find("power_limit", host(gpus=[gpu(power_limit_watts=699.99)])).passed is True


def test_dockers_default_shared_memory_is_a_warning() -> None:
    finding = find("shared_memory", host(limits={"shm_bytes": 64 * 2**20}))
    assert (finding.passed, finding.severity) == (False, "soft")
    assert find("shared_memory", host(limits={"shm_bytes": None})).passed is None


def test_the_topology_is_compared_only_where_one_was_ordered() -> None:
    machine = host(gpus=[gpu(), gpu()], topology={"summary": "PHB", "matrix": []})
    assert find("topology", machine).passed is None
    assert find("topology", machine, expect_topology="NVLink").passed is False
    assert find("topology", machine, expect_topology="phb").passed is True
    assert find("topology", host(gpus=[gpu(), gpu()]), expect_topology="NVLink").passed is None
