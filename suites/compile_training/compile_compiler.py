"""What torch.compile needs beside PyTorch: a compiler and Python's headers."""

from __future__ import annotations

import os
import shutil
import sysconfig
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Missing", "missing_for_compile"]

_INSTALL = "on Debian or Ubuntu: apt-get install g++ libpython3-dev; or take an image that has them"


@dataclass(frozen=True, kw_only=True)
class Missing:
    """What is not there, and what to do about it."""

    message: str
    hint: str


def missing_for_compile(device: str) -> Missing | None:
    """Return what keeps torch.compile from working here, or None.

    On a GPU Triton builds its launchers in C, with CC or one of the usual compilers. On a CPU Inductor writes
    C++, for CXX or g++. Both include Python.h.
    """
    variable, names = ("CC", ("gcc", "clang", "cc")) if device == "cuda" else ("CXX", ("g++", "clang++"))
    wanted = (os.environ[variable].split()[0],) if os.environ.get(variable, "").strip() else names
    if not any(shutil.which(name) for name in wanted):
        language = "C" if device == "cuda" else "C++"
        message = f"torch.compile needs a {language} compiler, and finds none ({', '.join(wanted)})"
        return Missing(message=message, hint=f"{_INSTALL}; {variable} can name another one")
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not header.is_file():
        return Missing(
            message=f"torch.compile needs Python's headers: there is no {header.name}", hint=_INSTALL
        )
    return None
