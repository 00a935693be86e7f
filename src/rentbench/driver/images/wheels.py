"""Folders of wheels: filled under a lock's hashes, so that it does not matter where a wheel comes from."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_cache_path

from rentbench.core.documents import sha256_file
from rentbench.core.errors import RentbenchError
from rentbench.driver.images.locks import LockedWheel, pip_target, read_lock
from rentbench.driver.programs import ProgramError, stream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rentbench.core.manifests import ImageManifest

__all__ = ["default_wheel_folder", "fill_wheel_folder", "missing_wheels"]

_DOWNLOAD_TIMEOUT = 3600.0


def default_wheel_folder(image: str) -> Path:
    """Return where an image's wheels are kept when the user names no folder."""
    return user_cache_path("rentbench") / "wheels" / image


def missing_wheels(manifest: ImageManifest, folder: Path, *, verify: bool = False) -> list[LockedWheel]:
    """Return the wheels of an image's lock that a folder lacks.

    Args:
        manifest: The image.
        folder: The folder; it need not be there.
        verify: Also compare the hashes; else a file of the right name counts, and pip finds a wrong one.
    """
    return [
        wheel
        for wheel in read_lock(manifest.folder / "requirements.lock")
        if not (folder / wheel.file).is_file()
        or (verify and sha256_file(folder / wheel.file) != wheel.sha256)
    ]


def fill_wheel_folder(
    manifest: ImageManifest, folder: Path, *, pip_options: Sequence[str] = (), say: Callable[[str], None]
) -> int:
    """Download into a folder what it lacks of an image's lock; what is there and right is kept.

    Args:
        manifest: The image.
        folder: Made where it is missing.
        pip_options: What pip is told besides, such as another index.
        say: Gets a line of progress.

    Returns:
        The number of wheels that were downloaded.

    Raises:
        RentbenchError: pip cannot get a wheel, or got one of another hash.
    """
    folder.mkdir(parents=True, exist_ok=True)
    missing = missing_wheels(manifest, folder, verify=True)
    if not missing:
        return 0
    say(f"downloading {len(missing)} wheels of {manifest.name} to {folder}")
    with tempfile.TemporaryDirectory(prefix=".incoming-", dir=folder) as incoming:
        requirements = Path(incoming) / "requirements.txt"
        requirements.write_text("".join(wheel.requirement for wheel in missing), encoding="utf-8")
        command = [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"),
            *("--dest", incoming, *pip_target(manifest), *pip_options, "--requirement", str(requirements)),
        ]
        try:
            stream(command, timeout=_DOWNLOAD_TIMEOUT, on_line=lambda _: None)
        except ProgramError as error:
            msg = f"pip could not download the wheels of {manifest.name}: {error.message}"
            raise RentbenchError(msg, hint=_hint(error)) from error
        for wheel in missing:
            (Path(incoming) / wheel.file).replace(folder / wheel.file)
    return len(missing)


def _hint(error: ProgramError) -> str | None:
    """Return what helps: builds for one kind of hardware lie on an index of their own."""
    if "+cpu" in error.output or "DO NOT MATCH THE HASHES" in error.output:
        return (
            "PyTorch publishes its CPU builds on an index of its own: pass it on with "
            "--pip-option=--extra-index-url=URL, or put the wheel into the folder by hand"
        )
    return error.last_words
