"""Is the machine the one that was ordered? Compares the probed host with what the user stated.

What was not stated is not checked, and says so.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

from preflight_findings import Finding

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rentbench.harness.context import Scalar

__all__ = ["is_model", "ordered"]

_GIB = 2**30
# Words that say who made a card, not which one it is.
_MAKERS = frozenset({"nvidia", "geforce", "tesla", "quadro", "gpu", "graphics", "generation"})
# Words that make another card out of the one named before them.
_VARIANTS = frozenset({"ti", "super", "d", "laptop", "max", "mobile", "pro", "ada", "mig", "nvl"})
_SIZE = re.compile(r"(\d+)gb?")


def ordered(host: Mapping[str, Any], settings: Mapping[str, Scalar]) -> list[Finding]:
    """Return the checks of GPU count, model, memory and driver, of processor cores and of RAM.

    Args:
        host: As in the measurement schema.
        settings: Of the suite.
    """
    gpus: list[Mapping[str, Any]] = list(host["gpus"])
    return [
        _count(gpus, int(settings["expect_gpus"])),
        _model(gpus, str(settings["expect_gpu"])),
        _memory(gpus, float(settings["expect_memory_gib"]), float(settings["memory_tolerance_percent"])),
        _driver(host["driver_version"], str(settings["minimum_driver"])),
        _cores(host["cpu"], int(settings["expect_cpu_cores"])),
        _ram(host["memory"], float(settings["expect_ram_gib"]), float(settings["memory_tolerance_percent"])),
    ]


def is_model(expected: str, found: str) -> bool:
    """Say whether a card is of the model that was ordered.

    Every word of the order must be a word of the card's name, and the card's name may not add a word that
    makes it another model (`RTX 4070` is no `RTX 4070 Ti`). Makers' names, case and punctuation do not count.
    A memory size in the order counts only where the card's name has one too.

    Args:
        expected: As providers and users write it: `H200`, `RTX4090`, `A100-80GB`.
        found: As the driver says it: `NVIDIA A100-SXM4-80GB`.
    """
    wanted, wanted_sizes = _words(expected)
    has, sizes = _words(found)
    if sizes and not wanted_sizes <= sizes:
        return False
    return bool(wanted) and wanted <= has and not (has - wanted) & _VARIANTS


def _words(name: str) -> tuple[set[str], set[int]]:
    """Return the words of a card's name, and the memory sizes among them in GB."""
    words: set[str] = set()
    sizes: set[int] = set()
    for word in re.split(r"[^a-z0-9]+", name.lower()):
        if size := _SIZE.fullmatch(word):
            sizes.add(int(size[1]))
        elif parts := re.fullmatch(r"(rtx|gtx)?(\d{3,4})(ti|super|d)?", word):
            # RTX4090 and GTX1080Ti are written in one word as often as in several.
            words.update(part for part in parts.groups() if part)
        elif word:
            words.add("sxm" if word.startswith("sxm") else word)
    return words - _MAKERS, sizes


def _not_stated(name: str, what: str, setting: str, severity: Literal["soft", "hard"] = "soft") -> Finding:
    return Finding(name=name, passed=None, detail=f"{what}; {setting} was not given", severity=severity)


def _count(gpus: list[Mapping[str, Any]], expected: int) -> Finding:
    if not expected:
        return _not_stated("gpu_count", f"found {len(gpus)}", "expect_gpus", "hard")
    return Finding(
        name="gpu_count",
        passed=len(gpus) == expected,
        detail=f"ordered {expected}, found {len(gpus)}",
        severity="hard",
        value=len(gpus),
        limit=expected,
        unit="GPUs",
    )


def _model(gpus: list[Mapping[str, Any]], expected: str) -> Finding:
    names = sorted({str(gpu["name"]) for gpu in gpus})
    found = ", ".join(names) or "no GPU"
    if not expected:
        return _not_stated("gpu_model", f"found {found}", "expect_gpu", "hard")
    return Finding(
        name="gpu_model",
        passed=bool(names) and all(is_model(expected, name) for name in names),
        detail=f"ordered {expected}, found {found}",
        severity="hard",
        value=found,
        limit=expected,
    )


def _memory(gpus: list[Mapping[str, Any]], expected: float, tolerance_percent: float) -> Finding:
    sizes = [gpu["memory_total_bytes"] for gpu in gpus]
    if not gpus or None in sizes:
        detail = "the memory could not be read" if gpus else "no GPU found"
        return Finding(
            name="gpu_memory",
            passed=False if expected and not gpus else None,
            detail=f"ordered {expected:g} GiB; {detail}" if expected else detail,
            severity="hard",
        )
    least = min(sizes)
    found = f"found {least / _GIB:.1f} GiB" + (" on the smallest" if len(set(sizes)) > 1 else "")
    if not expected:
        return _not_stated("gpu_memory", found, "expect_memory_gib", "hard")
    # Vendors count in powers of ten, and ECC takes its part: a card of 48 GB shows 44.99 GiB.
    limit = expected * (1 - tolerance_percent / 100)
    return Finding(
        name="gpu_memory",
        passed=least >= limit * _GIB,
        detail=f"ordered {expected:g} GiB (at least {limit:.1f} counts as that), {found}",
        severity="hard",
        value=least,
        limit=int(limit * _GIB),
        unit="bytes",
    )


def _driver(found: str | None, minimum: str) -> Finding:
    if found is None:
        return Finding(name="driver_version", passed=None, detail="the driver's version could not be read")
    if not minimum:
        return _not_stated("driver_version", f"found {found}", "minimum_driver")
    return Finding(
        name="driver_version",
        passed=_numbers(found) >= _numbers(minimum),
        detail=f"at least {minimum} is wanted, found {found}",
        value=found,
        limit=minimum,
    )


def _cores(cpu: Mapping[str, Any], expected: int) -> Finding:
    counts = [cpu[key] for key in ("usable_cores", "quota_cores") if cpu[key] is not None]
    if not counts:
        return Finding(name="cpu_count", passed=None, detail="the processor's cores could not be counted")
    usable = min(counts)
    if not expected:
        return _not_stated("cpu_count", f"found {usable:g} usable", "expect_cpu_cores")
    return Finding(
        name="cpu_count",
        passed=usable >= expected,
        detail=f"ordered {expected}, found {usable:g} usable",
        value=usable,
        limit=expected,
        unit="cores",
    )


def _ram(memory: Mapping[str, Any], expected: float, tolerance_percent: float) -> Finding:
    sizes = [memory[key] for key in ("total_bytes", "limit_bytes") if memory[key] is not None]
    if not sizes:
        return Finding(name="ram", passed=None, detail="the main memory could not be read")
    usable = min(sizes)
    if not expected:
        return _not_stated("ram", f"found {usable / _GIB:.1f} GiB usable", "expect_ram_gib")
    limit = expected * (1 - tolerance_percent / 100)
    return Finding(
        name="ram",
        passed=usable >= limit * _GIB,
        detail=f"ordered {expected:g} GiB, found {usable / _GIB:.1f} GiB usable",
        value=usable,
        limit=int(limit * _GIB),
        unit="bytes",
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))
