"""How much of `/dev/shm` NCCL may need, and whether it is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["needed_bytes", "shortage"]

# As NCCL's own message names it ("Error while creating shared memory segment … (size 9637888)"). Without peer
# access a rank has one a channel towards each of its two neighbours in the ring; two channels are the fewest.
_SEGMENT_BYTES: Final = 9_637_888
_SEGMENTS_A_RANK: Final = 4


def needed_bytes(ranks: int) -> int:
    """Return what NCCL takes of `/dev/shm` at least where GPUs do not reach each other directly."""
    return ranks * _SEGMENTS_A_RANK * _SEGMENT_BYTES


def shortage(host: Mapping[str, Any], ranks: int) -> str | None:
    """Return in what way `/dev/shm` is too small; None where it is not, or its size is not known.

    No reason to refuse a run: over NVLink, and in newer releases of NCCL, it may not be needed at all.

    Args:
        host: As in the measurement schema.
        ranks: How many processes, each with a GPU.
    """
    size = host["limits"]["shm_bytes"]
    if size is None or size >= needed_bytes(ranks):
        return None
    return (
        f"/dev/shm has {size / 2**20:.0f} MiB; without direct access between GPUs NCCL takes at least "  # noqa: S108
        f"{needed_bytes(ranks) / 2**20:.0f} MiB for {ranks} ranks (--shm-size=16g)"
    )
