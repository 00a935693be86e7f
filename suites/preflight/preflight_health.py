"""Is the machine in good health, and ours alone? Judges what the harness read before the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from preflight_findings import NO_GPU, Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rentbench.harness.context import Scalar

__all__ = ["health"]

_MIB = 2**20
_POWER_LIMIT_SHARE = 0.99  # a limit is read in milliwatts, and rounded by some drivers


def health(host: Mapping[str, Any], settings: Mapping[str, Scalar]) -> list[Finding]:
    """Return the checks of the cards' health and of the host's set-up.

    Args:
        host: As in the measurement schema.
        settings: Of the suite.
    """
    gpus: list[Mapping[str, Any]] = list(host["gpus"])
    percent = float(settings["busy_memory_percent"])
    return [
        _over_cards("whole_gpu", gpus, _part, "every card is whole: no MIG, no vGPU"),
        _over_cards(
            "gpu_unused",
            gpus,
            lambda gpu: _used(gpu, percent),
            f"at most {percent:g} % of the memory was in use before the run",
            severity="hard",
        ),
        _over_cards("ecc_enabled", gpus, _ecc, "ECC is on"),
        _over_cards("ecc_errors", gpus, _errors, "no uncorrected memory errors"),
        _over_cards("remapped_rows", gpus, _lost_rows, "every bad row is remapped", severity="hard"),
        _over_cards("remapping_pending", gpus, _pending_rows, "no row waits for a reset to be remapped"),
        _over_cards("power_limit", gpus, _power, "the power limit is not below its default"),
        _shared_memory(host["limits"]["shm_bytes"], int(settings["minimum_shm_mebibytes"])),
        _topology(gpus, host["topology"], str(settings["expect_topology"])),
    ]


def _over_cards(
    name: str,
    gpus: Sequence[Mapping[str, Any]],
    fault_of: Callable[[Mapping[str, Any]], str | None],
    right: str,
    *,
    severity: Literal["soft", "hard"] = "soft",
) -> Finding:
    """Judge every card.

    Args:
        name: Of the check.
        gpus: As in the measurement schema.
        fault_of: Returns what is wrong with a card, "" where nothing is, None where that cannot be read.
        right: The sentence when nothing is wrong.
        severity: Of the check.
    """
    faults = [fault_of(gpu) for gpu in gpus]
    wrong = [f"GPU {index}: {fault}" for index, fault in enumerate(faults) if fault]
    passed: bool | None
    if wrong:
        passed, detail = False, "; ".join(wrong)
    elif not faults:
        passed, detail = None, NO_GPU
    elif None in faults:
        passed, detail = None, "the driver does not say, or the card has no such thing"
    else:
        passed, detail = True, right
    return Finding(name=name, passed=passed, detail=detail, severity=severity)


def _part(gpu: Mapping[str, Any]) -> str:
    # A card without MIG says nothing about it: one that is not known to be a part is whole.
    if gpu["mig_mode"] or gpu["mig_profile"]:
        return f"MIG is on ({gpu['mig_profile'] or 'no profile named'}): not the whole card"
    return "a vGPU: not the whole card" if gpu["vgpu"] else ""


def _used(gpu: Mapping[str, Any], percent: float) -> str | None:
    used, total = gpu["memory_used_before_bytes"], gpu["memory_total_bytes"]
    if used is None or not total:
        return None
    if used <= total * percent / 100:
        return ""
    return f"{used // _MIB} of {total // _MIB} MiB were in use by others before the run"


def _ecc(gpu: Mapping[str, Any]) -> str | None:
    on = gpu["ecc_enabled"]
    return None if on is None else "" if on else "ECC is off"


def _errors(gpu: Mapping[str, Any]) -> str | None:
    errors = gpu["ecc_uncorrected_errors"]
    return None if errors is None else f"{errors} uncorrected memory errors" if errors else ""


def _lost_rows(gpu: Mapping[str, Any]) -> str | None:
    rows = gpu["remapped_rows"]
    if rows is None:
        return None
    return "a memory row could not be remapped: the card is due for replacement" if rows["failed"] else ""


def _pending_rows(gpu: Mapping[str, Any]) -> str | None:
    rows = gpu["remapped_rows"]
    if rows is None:
        return None
    return "a memory row waits for a reset to be remapped" if rows["pending"] else ""


def _power(gpu: Mapping[str, Any]) -> str | None:
    limit, default = gpu["power_limit_watts"], gpu["power_limit_default_watts"]
    if limit is None or default is None:
        return None
    below = limit < default * _POWER_LIMIT_SHARE
    return f"the power limit is {limit:g} W, its default {default:g} W" if below else ""


def _shared_memory(shm_bytes: int | None, minimum: int) -> Finding:
    if shm_bytes is None:
        return Finding(name="shared_memory", passed=None, detail="the size of /dev/shm could not be read")
    return Finding(
        name="shared_memory",
        passed=shm_bytes >= minimum * _MIB,
        detail=f"{shm_bytes // _MIB} MiB in /dev/shm; data loaders and NCCL want at least {minimum} MiB",
        value=shm_bytes,
        limit=minimum * _MIB,
        unit="bytes",
    )


def _topology(
    gpus: Sequence[Mapping[str, Any]], topology: Mapping[str, Any] | None, expected: str
) -> Finding:
    if len(gpus) < 2:
        return Finding(name="topology", passed=None, detail=f"needs 2 GPUs, found {len(gpus)}")
    if topology is None:
        return Finding(name="topology", passed=None, detail="the topology could not be read")
    found = topology["summary"]
    if not expected:
        detail = f"the cards are joined by {found}; expect_topology was not given"
        return Finding(name="topology", passed=None, detail=detail, value=found)
    return Finding(
        name="topology",
        passed=found.lower() == expected.lower(),
        detail=f"ordered {expected}, found {found}",
        value=found,
        limit=expected,
    )
