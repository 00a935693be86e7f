"""The lock of an image: one hash-pinned wheel a package, for one platform, made by pip's own resolver."""

from __future__ import annotations

import json
import platform
import re
import sys
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from rentbench.core.documents import sha256_bytes
from rentbench.core.errors import InvalidDocumentError, RentbenchError
from rentbench.driver.programs import ProgramError, capture

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rentbench.core.manifests import ImageManifest

__all__ = ["PYTHON", "LockedWheel", "lock_is_current", "make_lock", "pip_target", "read_lock"]

PYTHON = (3, 11)  # Debian 12's, which the images carry
_GLIBC_MINOR = 36  # Debian 12's
_MACHINES = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}
_RESOLVE_TIMEOUT = 900.0

_INPUT = re.compile(r"^# input (sha256:[0-9a-f]{64})$", re.MULTILINE)
_ENTRY = re.compile(
    r"^(?P<name>[a-z0-9][a-z0-9._-]*)==(?P<version>[A-Za-z0-9.+!_-]+) \\\n"
    r"    --hash=(?P<sha256>sha256:[0-9a-f]{64})\n"
    r"    # (?P<file>[A-Za-z0-9][A-Za-z0-9.+_-]*\.whl)$",
    re.MULTILINE,
)


@dataclass(frozen=True, kw_only=True)
class LockedWheel:
    """One file that goes into an image's environment."""

    name: str
    version: str
    sha256: str
    file: str

    @property
    def requirement(self) -> str:
        """The entry as a requirements file has it."""
        return f"{self.name}=={self.version} \\\n    --hash={self.sha256}\n    # {self.file}\n"


def read_lock(path: Path) -> list[LockedWheel]:
    """Return the wheels that a lock names.

    Raises:
        InvalidDocumentError: A line is not as `make_lock` writes it.
    """
    text = path.read_text(encoding="utf-8")
    wheels = [LockedWheel(**match.groupdict()) for match in _ENTRY.finditer(text)]
    rest = [line for line in _ENTRY.sub("", text).splitlines() if line and not line.startswith("#")]
    if rest or not wheels:
        msg = f"{path} is no lock of ours: {rest[0]!r}" if rest else f"{path} names no wheel"
        raise InvalidDocumentError(msg, hint=f"rentbench image lock {path.parent.name}")
    return wheels


def lock_is_current(manifest: ImageManifest) -> bool:
    """Say whether an image's lock was made from its requirements.in as it is now."""
    lock = manifest.folder / "requirements.lock"
    found = _INPUT.search(lock.read_text(encoding="utf-8")) if lock.is_file() else None
    return found is not None and found[1] == _input_hash(manifest)


def make_lock(manifest: ImageManifest, *, pip_options: Sequence[str] = ()) -> str:
    """Resolve an image's requirements.in and return the text of its lock.

    Args:
        manifest: The image.
        pip_options: What pip is told besides, such as another index. None of it enters the lock.

    Raises:
        RentbenchError: This Python is not the image's, so that pip would judge conditions such as
            `python_version < "3.12"` wrongly; or pip finds no solution.
    """
    here = sys.version_info[:2]
    machine = _MACHINES[manifest.platform]
    if here != PYTHON or platform.machine() != machine or sys.platform != "linux":
        msg = f"a lock for {manifest.platform} with Python 3.11 cannot be made here"
        found = f"this is Python {here[0]}.{here[1]} on {sys.platform}/{platform.machine()}"
        raise RentbenchError(msg, hint=f"{found}; run rentbench with a Python 3.11 on Linux/{machine}")
    source = manifest.folder / "requirements.in"
    with tempfile.TemporaryDirectory(prefix="rentbench-lock-") as nowhere:
        command = [
            *(sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"),
            *("--report", "-", "--target", nowhere, *pip_target(manifest), *pip_options),
            *("--requirement", str(source)),
        ]
        try:
            report = json.loads(capture(command, timeout=_RESOLVE_TIMEOUT))
        except ProgramError as error:
            msg = f"pip could not resolve {source}: {error.message}"
            raise RentbenchError(msg, hint=error.last_words) from error
    wheels = sorted((_wheel(entry) for entry in report["install"]), key=lambda wheel: wheel.name)
    header = (
        f"# Made from requirements.in by `rentbench image lock {manifest.name}`; not edited by hand.\n"
        f"# One file a package, for {manifest.platform} and Python {PYTHON[0]}.{PYTHON[1]}.\n"
        f"# input {_input_hash(manifest)}\n"
    )
    return header + "".join(wheel.requirement for wheel in wheels)


def pip_target(manifest: ImageManifest) -> list[str]:
    """Return the options that make pip choose wheels for an image instead of for this machine."""
    machine = _MACHINES[manifest.platform]
    tags = [f"manylinux_2_{minor}_{machine}" for minor in range(_GLIBC_MINOR, 16, -1)]
    tags += [f"manylinux2014_{machine}"]
    if machine == "x86_64":
        tags += ["manylinux_2_12_x86_64", "manylinux2010_x86_64", "manylinux_2_5_x86_64", "manylinux1_x86_64"]
    options = ["--only-binary", ":all:", "--implementation", "cp", "--python-version", "3.11"]
    return options + [option for tag in tags for option in ("--platform", tag)]


def _input_hash(manifest: ImageManifest) -> str:
    return sha256_bytes((manifest.folder / "requirements.in").read_bytes())


def _wheel(entry: dict[str, Any]) -> LockedWheel:
    """Return a wheel from an entry of pip's installation report (its format is version 1)."""
    download = entry["download_info"]
    return LockedWheel(
        name=re.sub(r"[-_.]+", "-", entry["metadata"]["name"]).lower(),
        version=entry["metadata"]["version"],
        sha256=f"sha256:{download['archive_info']['hashes']['sha256']}",
        file=unquote(urlsplit(download["url"]).path.rpartition("/")[2]),
    )
