"""The ranks of a job: all agree on what comes after a step, however the signals reached them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist

__all__ = ["Decision", "Ranks"]

_Value = TypeVar("_Value")


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What all ranks do after a step.

    Attributes:
        stop: Some rank was told to stop.
        save: A checkpoint is due.
        seconds_left: The least that any rank has left; infinite as long as none was told to stop.
    """

    stop: bool
    save: bool
    seconds_left: float


class Ranks:
    """The ranks of torch.distributed's default group; one alone where it was not initialised.

    What is agreed on goes through a gloo group of its own: it waits for no GPU, so it costs the step nothing
    but some tens of microseconds, and works whatever the state of NCCL.
    """

    def __init__(self) -> None:
        parallel = dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
        self._group = dist.new_group(backend="gloo") if parallel else None
        self.rank = dist.get_rank() if parallel else 0
        self.size = dist.get_world_size() if parallel else 1

    def agree(self, *, stop: bool, save: bool, seconds_left: float) -> Decision:
        """Return the same decision on all ranks. All must call it after the same step."""
        if self._group is None:
            return Decision(stop=stop, save=save, seconds_left=seconds_left)
        told = torch.tensor([float(stop), float(save), -seconds_left], dtype=torch.float64)
        dist.all_reduce(told, op=dist.ReduceOp.MAX, group=self._group)
        return Decision(stop=bool(told[0]), save=bool(told[1]), seconds_left=-float(told[2]))

    def gather(self, mine: _Value) -> list[_Value] | None:
        """Return what each rank gave, in order, on rank 0; None on the others."""
        if self._group is None:
            return [mine]
        everyone: Any = [None] * self.size if self.rank == 0 else None
        dist.gather_object(mine, everyone, dst=0, group=self._group)
        gathered: list[_Value] | None = everyone
        return gathered

    def from_first(self, value: _Value) -> _Value:
        """Return rank 0's value on all ranks."""
        if self._group is None:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0, group=self._group)
        return box[0]
