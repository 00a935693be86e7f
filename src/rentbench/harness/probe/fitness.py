"""What is told before time is spent: that a GPU is taken, or that it is not the whole GPU of its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["IDLE_PERCENT", "TAKEN_PERCENT", "memory_in_use_percent", "notes", "taken"]

# More than a driver and a display take; and so much that a run cannot have the GPU for itself.
IDLE_PERCENT = 5.0
TAKEN_PERCENT = 50.0


def memory_in_use_percent(gpus: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the share of its memory that was in use before the run, of the GPU where it was highest.

    Args:
        gpus: As in the measurement schema.

    Returns:
        Per cent; None where no GPU tells.
    """
    shares = [
        100 * gpu["memory_used_before_bytes"] / gpu["memory_total_bytes"]
        for gpu in gpus
        if gpu["memory_used_before_bytes"] is not None and gpu["memory_total_bytes"]
    ]
    return max(shares, default=None)


def taken(gpus: Sequence[Mapping[str, Any]]) -> str | None:
    """Return why a run would not have its GPUs for itself; None where nothing speaks against it."""
    share = memory_in_use_percent(gpus)
    if share is None or share <= TAKEN_PERCENT:
        return None
    return f"{share:.0f} % of a GPU's memory are in use by others"


def notes(gpus: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what somebody should know who is about to wait and pay for a run on these GPUs."""
    told: list[str] = []
    for index, gpu in enumerate(gpus):
        name = f"GPU {index}, {gpu['name'] or 'of unknown name'},"
        if gpu["mig_mode"]:
            profile = gpu["mig_profile"] or "profile unknown"
            told.append(f"{name} is a MIG slice ({profile}): its figures are not those of the whole GPU")
        if gpu["vgpu"]:
            told.append(f"{name} is a virtual GPU: others may share the card, unseen")
    share = memory_in_use_percent(gpus)
    if share is not None and share > IDLE_PERCENT:
        told.append(f"{share:.0f} % of a GPU's memory are in use by others")
    return told
