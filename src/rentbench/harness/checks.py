"""The validity checks that every GPU run gets, from the host, the telemetry and the warm-ups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rentbench.harness.probe.fitness import IDLE_PERCENT, TAKEN_PERCENT, memory_in_use_percent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rentbench.harness.telemetry.summary import TelemetrySummary

__all__ = ["check", "software_checks", "standard_checks"]

# A power limit is how a data-centre GPU runs at full load; these reasons are faults of cooling or supply.
_FAULTS = ("thermal_software", "thermal_hardware", "power_brake", "hardware_slowdown")
_MIN_SAMPLES = 3


def check(
    name: str,
    passed: bool | None,
    detail: str,
    *,
    severity: str = "soft",
    value: float | str | None = None,
    limit: float | str | None = None,
    unit: str | None = None,
) -> dict[str, Any]:
    """Return a check as the schema holds it; `passed` is None where it could not be checked."""
    outcome = "not_checked" if passed is None else "passed" if passed else "failed"
    return {
        "name": name,
        "severity": severity,
        "outcome": outcome,
        "detail": detail,
        "value": value,
        "limit": limit,
        "unit": unit,
    }


def standard_checks(
    host: Mapping[str, Any],
    gpu_problem: str | None,
    summary: TelemetrySummary,
    *,
    peak_memory_bytes: int | None,
    warm_ups: Sequence[bool],
) -> list[dict[str, Any]]:
    """Return the checks of a run that used GPUs.

    Args:
        host: As in the measurement schema.
        gpu_problem: What is wrong with its list of GPUs, such as one that fell off the bus.
        summary: What the sampling process saw.
        peak_memory_bytes: The most that any case allocated on a GPU; None where no case told.
        warm_ups: Of each warm-up, whether it became steady.
    """
    gpus = summary.telemetry["gpus"] if summary.telemetry else []
    return [
        check("gpus_complete", gpu_problem is None, gpu_problem or f"{len(host['gpus'])} GPUs answer"),
        _idle_before(host["gpus"]),
        _used(gpus, sum(summary.utilization_samples), peak_memory_bytes),
        _ours_alone(gpus),
        _not_throttled(gpus, summary.throttle_samples),
        _power_readings(summary.power_kinds),
        *_steady(warm_ups),
    ]


def software_checks(packages: Sequence[str], missing: Sequence[Sequence[str] | None]) -> list[dict[str, Any]]:
    """Return the check of a suite's packages; none where it names none, or no worker told.

    A missing one is told and is no failure: a manifest also names packages of which one replaces the other.

    Args:
        packages: Whose versions the suite wants in its results.
        missing: Of each repeat, those that are not installed; None where no worker told.
    """
    told = [names for names in missing if names is not None]
    if not packages or not told:
        return []
    absent = [name for name in packages if any(name in names for names in told)]
    if absent:
        return [check("packages_found", None, f"not installed, so without a version: {', '.join(absent)}")]
    return [check("packages_found", True, f"all {len(packages)} packages of the suite have a version")]


def _idle_before(gpus: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    share = memory_in_use_percent(gpus)
    if share is None:
        return check("gpu_idle_before", None, "the memory in use before the run could not be read")
    detail = f"before the run {share:.1f} % of a GPU's memory were in use"
    return check(
        "gpu_idle_before",
        share <= IDLE_PERCENT,
        detail,
        severity="hard" if share > TAKEN_PERCENT else "soft",
        value=round(share, 2),
        limit=IDLE_PERCENT,
        unit="%",
    )


def _used(gpus: Sequence[Mapping[str, Any]], measuring: int, peak_memory_bytes: int | None) -> dict[str, Any]:
    """Tell whether the GPU worked.

    Allocated bytes are no work: they decide only where fewer than three readings were taken while measuring,
    since an idle GPU before and after a short measurement says nothing about it.
    """
    readings = [
        reading for gpu in gpus for reading in gpu["series"]["utilization_percent"] if reading is not None
    ]
    if measuring >= _MIN_SAMPLES or (not peak_memory_bytes and len(readings) >= _MIN_SAMPLES):
        detail = f"the utilisation reached {max(readings):.0f} % in {len(readings)} readings"
        return check("gpu_used", max(readings) > 0, detail, severity="hard", value=max(readings), unit="%")
    if peak_memory_bytes:
        gibibytes = peak_memory_bytes / 2**30
        detail = f"up to {gibibytes:.2f} GiB of GPU memory were allocated"
        return check("gpu_used", True, detail, severity="hard", value=peak_memory_bytes, unit="bytes")
    return check("gpu_used", None, "too few readings of the GPU's utilisation", severity="hard")


def _ours_alone(gpus: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    counts = [gpu["foreign_processes"] for gpu in gpus]
    if not counts or None in counts:
        return check("gpu_ours_alone", None, "other processes on the GPU could not be listed")
    detail = f"at most {max(counts)} processes of others were seen on a GPU during the run"
    return check("gpu_ours_alone", max(counts) == 0, detail, value=max(counts), limit=0)


def _not_throttled(gpus: Sequence[Mapping[str, Any]], samples: Sequence[int]) -> dict[str, Any]:
    if not samples or min(samples) == 0:
        return check("not_throttled", None, "no reading of the throttle reasons while measuring")
    seen: dict[str, int] = {}
    for gpu in gpus:
        for reason, count in gpu["throttle"].items():
            seen[reason] = seen.get(reason, 0) + count
    faults = [reason for reason in _FAULTS if reason in seen]
    told = ", ".join(f"{reason} in {count}" for reason, count in seen.items()) or "no reason seen"
    return check("not_throttled", not faults, f"of {sum(samples)} samples while measuring: {told}")


def _power_readings(kinds: Sequence[str | None]) -> dict[str, Any]:
    """Tell what a power reading is: two kinds of it differ where the load changes quickly."""
    kind = kinds[0] if kinds and len(set(kinds)) == 1 else None
    detail = f"power readings are {kind}" if kind else "the driver does not say what its power readings are"
    return check("power_readings", True if kind else None, detail, value=kind)


def _steady(warm_ups: Sequence[bool]) -> list[dict[str, Any]]:
    if not warm_ups:  # the suite warms up by itself, and reports what it saw under a name of its own
        return []
    unsteady = warm_ups.count(False)
    detail = f"{len(warm_ups) - unsteady} of {len(warm_ups)} warm-ups became steady before their limit"
    return [check("steady_state", unsteady == 0, detail, value=unsteady, limit=0)]
