"""What an image is made from, and the id that follows from it.

A recipe is the Dockerfile, the lock, the copied files, the base and the pinned day of Debian's packages:
names and contents, never paths, times or modes of this checkout. The wheels are covered by the lock's hashes.
Debian's packages are covered where a day pins them, and only there: else two images of one recipe may differ.
The environment is the part of it that the code goes on, and has an id of its own.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import rentbench
from rentbench.core.documents import read_bytes, sha256_bytes
from rentbench.core.errors import RentbenchError, UnusableInputError
from rentbench.core.manifests import load_suites
from rentbench.core.resources import resource
from rentbench.driver.images.locks import read_lock
from rentbench.driver.programs import ProgramError, capture

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rentbench.core.manifests import ImageManifest

__all__ = ["Recipe", "describe_debian", "find_revision", "read_recipe", "stage"]

_SCHEMAS = ("measurement.schema.json", "suite.schema.json")
_CODE_STAGE = b"\nFROM ${ENVIRONMENT}"  # what a Dockerfile says from here on is not the environment's
_GIT_TIMEOUT = 30.0


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that goes into one image.

    Attributes:
        image: The image's name.
        platform: Such as `linux/amd64`.
        base: `sha256:…` of the base image.
        debian_snapshot: The day that Debian's packages are pinned to; empty where they are not.
        files: What the build context holds, by path in it. Read once: an edit during a build changes nothing.
        sources: Where those files were read.
    """

    image: str
    platform: str
    base: str
    debian_snapshot: str
    files: Mapping[str, bytes]
    sources: Mapping[str, Path]

    @property
    def id(self) -> str:
        """`sha256:…` over all of it."""
        return _hash({**self._ground, "files": {name: sha256_bytes(raw) for name, raw in self.files.items()}})

    @property
    def environment_id(self) -> str:
        """`sha256:…` over its environment alone: that part of the Dockerfile, the lock, base and day."""
        dockerfile = self.files["Dockerfile"].partition(_CODE_STAGE)[0]
        parts = {"Dockerfile": dockerfile, "requirements.lock": self.files["requirements.lock"]}
        return _hash({**self._ground, "files": {name: sha256_bytes(raw) for name, raw in parts.items()}})

    @property
    def _ground(self) -> dict[str, str]:
        return {
            "image": self.image,
            "platform": self.platform,
            "base": self.base,
            "debian_snapshot": self.debian_snapshot,
        }


def read_recipe(manifest: ImageManifest, *, base: str, debian_snapshot: str) -> Recipe:
    """Return the recipe of an image as the files here make it.

    Raises:
        UnusableInputError: A suite or a file that the image needs is not there.
    """
    sources = dict(sorted(_files(manifest)))
    return Recipe(
        image=manifest.name,
        platform=manifest.platform,
        base=base,
        debian_snapshot=debian_snapshot,
        files={name: read_bytes(path) for name, path in sources.items()},
        sources=sources,
    )


def find_revision(recipe: Recipe) -> str:
    """Return the last commit that changed the recipe's files; `-modified` after it when they differ from it.

    Empty outside a git checkout: an installed package knows no commit.
    """
    paths = [str(path) for path in recipe.sources.values()]
    git = ["git", "-C", str(recipe.sources["Dockerfile"].parent)]
    try:
        commit = capture([*git, "log", "-1", "--format=%H", "--", *paths], timeout=_GIT_TIMEOUT).strip()
        changed = capture([*git, "status", "--porcelain", "--", *paths], timeout=_GIT_TIMEOUT).strip()
    except ProgramError:
        return ""
    return f"{commit}-modified" if commit and changed else commit


def describe_debian(snapshot: str) -> str:
    """Say which of Debian's packages are in an image.

    Args:
        snapshot: The day that they are pinned to; empty where they are not.
    """
    if snapshot:
        return f"packages of {snapshot}"
    return (
        "packages NOT pinned: built without a --mirror that keeps history ({snapshot} in its URL), they are "
        "the newest of the day of the build, and the recipe id does not cover them"
    )


def stage(recipe: Recipe, folder: Path, *, wheels: Path | None) -> None:
    """Lay out a build context: the recipe's files and the lock's wheels, under fixed modes and times.

    Args:
        recipe: What to lay out.
        folder: An empty folder.
        wheels: Folder that holds the lock's wheels, among others; None leaves them out: code needs none.

    Raises:
        RentbenchError: A wheel is missing, or the folder cannot be written.
    """
    try:
        for name, content in recipe.files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        if wheels is not None:
            (folder / "wheels").mkdir()
            for wheel in read_lock(recipe.sources["requirements.lock"]):
                _link(wheels / wheel.file, folder / "wheels" / wheel.file)
        # From the bottom up: a folder's time changes when something is put into it.
        for path in sorted(folder.rglob("*"), reverse=True):
            if path.parent.name != "wheels":
                path.chmod(0o755 if path.is_dir() else 0o644)
                os.utime(path, (0, 0))
        folder.chmod(0o755)
    except FileNotFoundError as error:
        msg = f"{error.filename} is not there"
        raise RentbenchError(msg, hint=f"rentbench image wheels {recipe.image} --output {wheels}") from error
    except OSError as error:
        msg = f"the build context cannot be laid out: {error}"
        raise RentbenchError(msg) from error


def _hash(content: Mapping[str, object]) -> str:
    return sha256_bytes(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())


def _files(manifest: ImageManifest) -> Iterator[tuple[str, Path]]:
    yield "Dockerfile", manifest.folder / "Dockerfile"
    yield "requirements.lock", manifest.folder / "requirements.lock"
    package = Path(rentbench.__file__).parent
    yield "src/rentbench/__init__.py", package / "__init__.py"
    # Code only: the GPU table beside it is for readers of results, and a new spelling must change no image.
    for part in ("core", "harness"):
        for path in (package / part).rglob("*.py"):
            yield f"src/rentbench/{path.relative_to(package).as_posix()}", path
    for name in _SCHEMAS:
        yield f"schema/{name}", resource("schema", name)
    suites = load_suites()
    for name in manifest.suites:
        if name not in suites:
            msg = f"image {manifest.name} carries the suite {name}, which is not there"
            raise UnusableInputError(msg, hint=f"suites here: {', '.join(suites) or 'none'}")
        folder = suites[name].folder
        for path in (folder / "suite.toml", *folder.rglob("*.py")):
            yield f"suites/{folder.name}/{path.relative_to(folder).as_posix()}", path


def _link(source: Path, target: Path) -> None:
    """Put a large file into a context without copying it, where the file system lets us."""
    try:
        target.hardlink_to(source)
    except FileNotFoundError:
        raise
    except OSError:  # another file system, or hard links of others' files are not allowed
        shutil.copyfile(source, target)
