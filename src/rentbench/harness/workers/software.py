"""Versions of everything that can change a number, as the worker sees them."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["installed_software"]

_ALWAYS = ("numpy", "torch", "triton")
_CUDA_WHEELS = "nvidia-"


def installed_software(packages: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return versions by package or component, and the named packages that are not installed.

    Python, numpy, torch and triton; the CUDA libraries that came as wheels; and, where torch is loaded,
    what torch was built with and what it found.

    Args:
        packages: Those that suite.toml names beyond these.
    """
    versions = {"python": f"{platform.python_implementation()} {platform.python_version()}"}
    installed: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        if name:  # of two versions on the path, the first is imported
            installed.setdefault(name.lower().replace("_", "-"), distribution.version)
    wanted = [name.lower().replace("_", "-") for name in (*_ALWAYS, *packages)]
    cuda_wheels = [name for name in installed if name.startswith(_CUDA_WHEELS)]
    versions |= {name: installed[name] for name in sorted({*wanted, *cuda_wheels}) if name in installed}
    if "torch" in sys.modules:
        versions |= _inside_torch(sys.modules["torch"])
    missing = [name for name in packages if name.lower().replace("_", "-") not in installed]
    return versions, missing


def _inside_torch(torch: Any) -> dict[str, str]:  # noqa: ANN401 - torch may be absent
    found = {"torch_build": torch.__version__, "torch_cuda": torch.version.cuda}
    if torch.cuda.is_available():
        found["cudnn"] = torch.backends.cudnn.version()
        if torch.distributed.is_available() and torch.distributed.is_nccl_available():
            found["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    return {name: str(version) for name, version in found.items() if version is not None}
