"""Which of the machine's GPUs a CUDA program sees: the run is about those, and no others.

Rules: CUDA programming guide, "CUDA Environment Variables"; MIG user guide, "CUDA Device Enumeration".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Identity", "Visible", "visible_gpus"]


@dataclass(frozen=True, kw_only=True)
class Identity:
    """What selects a GPU.

    Attributes:
        mig_mode: It is cut into MIG devices; CUDA then sees those, not the GPU.
        mig_uuids: Its MIG devices' UUIDs, in order.
    """

    uuid: str | None
    mig_mode: bool = False
    mig_uuids: Sequence[str | None] = ()


@dataclass(frozen=True, kw_only=True)
class Visible:
    """A GPU that CUDA sees: its number in PCI order, and that of its MIG device where it is cut up."""

    index: int
    mig: int | None = None


def visible_gpus(gpus: Sequence[Identity], environment: Mapping[str, str]) -> list[Visible]:
    """Return the GPUs that a CUDA program sees, in its order with `CUDA_DEVICE_ORDER=PCI_BUS_ID`.

    `CUDA_VISIBLE_DEVICES` lists numbers, UUIDs or beginnings of UUIDs; CUDA stops at the first entry that
    names no GPU. It sees one MIG device at most, and no whole GPU beside it.

    Args:
        gpus: All GPUs of the machine (of the container) in PCI order.
        environment: The program's.
    """
    chosen = environment.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        candidates = [seen for index in range(len(gpus)) if (seen := _whole(gpus, index))]
    else:
        candidates = []
        for entry in chosen.split(","):
            found = _find(gpus, entry.strip())
            if found is None:
                break
            candidates.append(found)
        if len(set(candidates)) < len(candidates):
            return []  # CUDA refuses a list that names a GPU twice
    slices = [candidate for candidate in candidates if candidate.mig is not None]
    return slices[:1] or candidates


def _find(gpus: Sequence[Identity], entry: str) -> Visible | None:
    if entry.isdecimal():
        return _whole(gpus, int(entry)) if int(entry) < len(gpus) else None
    if entry.startswith("MIG-"):
        slices = [
            Visible(index=index, mig=mig)
            for index, gpu in enumerate(gpus)
            for mig, uuid in enumerate(gpu.mig_uuids)
            if uuid and uuid.startswith(entry)
        ]
        return slices[0] if len(slices) == 1 else None
    if entry.startswith("GPU-"):
        named = [index for index, gpu in enumerate(gpus) if gpu.uuid and gpu.uuid.startswith(entry)]
        return _whole(gpus, named[0]) if len(named) == 1 else None
    return None


def _whole(gpus: Sequence[Identity], index: int) -> Visible | None:
    if not gpus[index].mig_mode:
        return Visible(index=index)
    return Visible(index=index, mig=0) if gpus[index].mig_uuids else None
