"""What a training loop is made of, as one object that can be saved and put back bit by bit."""

from __future__ import annotations

import copy
import random
import sys
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import torch
from torch.nn.parallel import DistributedDataParallel

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["HostCopies", "Stateful", "TrainingState"]

_Item: TypeAlias = Any  # a state, or a part of one
_Seen: TypeAlias = "dict[tuple[Any, ...], torch.Tensor]"


class Stateful(Protocol):
    """Something with a state that torch.save can write: tensors, numbers, texts, lists and dicts of them."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state."""

    def load_state_dict(self, state: dict[str, Any], /) -> object:
        """Take a state that `state_dict` returned."""


class TrainingState:
    """All that decides how training goes on: parts with a state of their own, and the random generators.

    The generators are those of Python, numpy (where it is imported), torch, and torch on all GPUs.

    Args:
        model: A module; DistributedDataParallel and torch.compile around it are looked through, so that a
            checkpoint can be loaded with and without them.
        data: The position in the data, such as `ResumableBatches`. Each rank has its own.
        parts: Optimizer, scheduler, gradient scaler, and whatever else has a state, by name. Equal on all
            ranks; rank 0's is saved. None is left out.
    """

    def __init__(
        self, model: torch.nn.Module, *, data: Stateful | None = None, **parts: Stateful | None
    ) -> None:
        self._parts: dict[str, Stateful] = {"model": _bare(model)}
        self._parts |= {name: part for name, part in parts.items() if part is not None}
        self._data = data

    def shared(self) -> dict[str, Any]:
        """Return what is equal on all ranks."""
        return {name: part.state_dict() for name, part in self._parts.items()}

    def of_rank(self) -> dict[str, Any]:
        """Return what each rank has for itself."""
        return {"random": _random_state(), "data": None if self._data is None else self._data.state_dict()}

    def restore(self, shared: Mapping[str, Any], of_rank: Mapping[str, Any]) -> None:
        """Put a saved state back.

        Raises:
            ValueError: The checkpoint was made of other parts.
        """
        if set(shared) != set(self._parts):
            msg = f"the checkpoint holds {sorted(shared)}, this job has {sorted(self._parts)}"
            raise ValueError(msg)
        for name, part in self._parts.items():
            part.load_state_dict(shared[name])
        if self._data is not None:
            self._data.load_state_dict(of_rank["data"])
        _set_random_state(of_rank["random"])  # last: loading may draw random numbers


class HostCopies:
    """Copies of GPU tensors in page-locked host memory, which is kept from one save to the next.

    A GPU writes to page-locked memory several times faster than to ordinary memory; allocating it is slow,
    and done once. It takes as much host memory as the checkpoint is large. Tensors on the CPU are not copied.
    """

    def __init__(self) -> None:
        self._buffers: dict[str, torch.Tensor] = {}

    def of(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return the state with every GPU tensor replaced by its copy; valid until the next call."""
        seen: _Seen = {}
        copied: dict[str, Any] = self._copy(state, "", seen)
        if seen:
            torch.cuda.synchronize()
        return copied

    def _copy(self, value: _Item, path: str, seen: _Seen) -> _Item:
        if isinstance(value, torch.Tensor):
            return self._copy_tensor(value.detach(), path, seen) if value.is_cuda else value
        if isinstance(value, dict):
            result = copy.copy(value)  # a module's state has an attribute with versions, too
            for key, item in value.items():
                result[key] = self._copy(item, f"{path}/{key}", seen)
            return result
        if type(value) in {list, tuple}:
            return type(value)(self._copy(item, f"{path}/{index}", seen) for index, item in enumerate(value))
        return value

    def _copy_tensor(self, tensor: torch.Tensor, path: str, seen: _Seen) -> torch.Tensor:
        # Tied weights are one tensor under two names, and stay so.
        identity = (tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        if identity not in seen:
            buffer = self._buffers.get(path)
            if buffer is None or buffer.shape != tensor.shape or buffer.dtype != tensor.dtype:
                buffer = torch.empty_like(tensor, device="cpu", pin_memory=True)
                self._buffers[path] = buffer
            seen[identity] = buffer.copy_(tensor, non_blocking=True)
        return seen[identity]


def _bare(model: torch.nn.Module) -> torch.nn.Module:
    while isinstance(model, DistributedDataParallel) or hasattr(model, "_orig_mod"):
        model = model.module if isinstance(model, DistributedDataParallel) else model._orig_mod
    return model


def _random_state() -> dict[str, Any]:
    state: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if "numpy" in sys.modules:
        numpy_state = sys.modules["numpy"].random.get_state(legacy=False)
        key = numpy_state["state"]["key"].tolist()  # a numpy array would need more than a weights-only load
        state["numpy"] = {**numpy_state, "state": {**numpy_state["state"], "key": key}}
    if torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def _set_random_state(state: Mapping[str, Any]) -> None:
    random.setstate(state["python"])
    torch.set_rng_state(state["torch"])
    if "numpy" in state and "numpy" in sys.modules:
        numpy = sys.modules["numpy"]
        saved = state["numpy"]
        key = numpy.array(saved["state"]["key"], dtype=numpy.uint32)
        numpy.random.set_state({**saved, "state": {**saved["state"], "key": key}})
    if "cuda" in state and torch.cuda.is_available():
        for device, generator in enumerate(state["cuda"][: torch.cuda.device_count()]):
            torch.cuda.set_rng_state(generator, device)
