"""The host under a local engine: its GPUs, and whether Docker can hand them out."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rentbench.driver.programs import ProgramError, capture

if TYPE_CHECKING:
    from rentbench.driver.engine import Engine

__all__ = ["LocalGpus", "find_local_gpus"]

_DRIVER = Path("/proc/driver/nvidia")
_TOOLKIT = ("nvidia-container-runtime-hook", "nvidia-container-toolkit", "nvidia-ctk")
_CAPABILITY = re.compile(r"[0-9]+\.[0-9]+")
_PATIENCE = 30.0  # seconds; without persistence mode, nvidia-smi first wakes every GPU


@dataclass(frozen=True, kw_only=True)
class LocalGpus:
    """What a local host has.

    Attributes:
        count: NVIDIA GPUs that the driver has found.
        driver_version: Of the loaded kernel module; None where there is none.
        toolkit: Whether Docker has what it needs to hand them to containers.
        compute_capabilities: Of the GPUs, such as `9.0`, each once; empty where nvidia-smi does not tell.
    """

    count: int
    driver_version: str | None
    toolkit: bool
    compute_capabilities: tuple[str, ...] = ()

    @property
    def usable(self) -> bool:
        """Whether a container can have a GPU."""
        return self.count > 0 and self.toolkit


def find_local_gpus(engine: Engine, *, driver: Path = _DRIVER) -> LocalGpus:
    """Return the GPUs of this host, without starting a container.

    Args:
        engine: The local engine.
        driver: Where the kernel module shows itself.
    """
    version = None
    try:
        found = re.search(r"Kernel Module\s+(?:for \S+\s+)?(\d+(?:\.\d+)+)", (driver / "version").read_text())
        version = found[1] if found else None
        count = sum(1 for _ in (driver / "gpus").iterdir())
    except OSError:
        count = 0
    runtimes = engine.information.get("Runtimes") or {}
    toolkit = "nvidia" in runtimes or any(shutil.which(program) for program in _TOOLKIT)
    return LocalGpus(
        count=count,
        driver_version=version,
        toolkit=toolkit,
        compute_capabilities=_compute_capabilities() if count else (),
    )


def _compute_capabilities() -> tuple[str, ...]:
    try:
        text = capture(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"], timeout=_PATIENCE)
    except ProgramError:  # none here, or one from before it could tell
        return ()
    return tuple(sorted({line.strip() for line in text.splitlines() if _CAPABILITY.fullmatch(line.strip())}))
