"""The UNet through torch.compile, and what that needs."""

from __future__ import annotations

import os
import shutil
import sysconfig
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

__all__ = ["compile_unet", "no_recompilation", "unsupported_reason"]

_COMPILERS = {"cuda": ("CC", ("gcc", "clang", "cc")), "cpu": ("CXX", ("g++", "clang++"))}
_OLDEST_FOR_TRITON = (7, 5)


def compile_unet(pipeline: Any, backend: str) -> None:  # noqa: ANN401
    """Let a pipeline's UNet, which is nearly all of the work, be compiled at its next call."""
    pipeline.unet = torch.compile(pipeline.unet, backend=backend)


def no_recompilation(mode: str) -> AbstractContextManager[Any]:
    """Return a context in which compiling anew is an error, so that it cannot hide in a time."""
    return torch.compiler.set_stance("fail_on_recompile") if mode == "compile" else nullcontext()


def unsupported_reason(backend: str, device: str, capability: tuple[int, int] | None) -> str | None:
    """Return why nothing can be compiled here, or None.

    Inductor has Triton compile for GPUs and a C++ compiler for CPUs; Triton needs a C compiler and Python's
    headers for what launches its kernels.

    Args:
        backend: Of torch.compile; only "inductor" needs anything.
        device: "cuda" or "cpu".
        capability: The GPU's compute capability; None for a CPU.
    """
    if backend != "inductor":
        return None
    if capability is not None and capability < _OLDEST_FOR_TRITON:
        return "Triton compiles for compute capability 7.5 or higher, found {}.{}".format(*capability)
    variable, names = _COMPILERS[device]
    named = os.environ.get(variable, "").split()
    wanted = tuple(named[:1]) or names
    if not any(shutil.which(name) for name in wanted):
        return (
            f"torch.compile needs a compiler, and none is here ({', '.join(wanted)}; {variable} can name one)"
        )
    if not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        return "torch.compile needs Python's headers (Debian's package libpython3-dev), and they are not here"
    return None
