"""The base that an image stands on: the pinned one, or a stand-in made from Debian's packages.

The stand-in is for hosts that reach no registry. It is made the same twice while the mirror stands still, and
its id enters the recipe, so that an image on it never passes for one on the pinned base.
"""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rentbench.core.documents import sha256_file
from rentbench.core.errors import RentbenchError
from rentbench.driver.engine import engine_errors, find_image
from rentbench.driver.failures import RunFailedError
from rentbench.driver.programs import ProgramError, find_program, stream
from rentbench.driver.pulls import pull

if TYPE_CHECKING:
    from collections.abc import Callable

    from rentbench.core.manifests import ImageManifest
    from rentbench.driver.engine import Engine

__all__ = ["Base", "debian_codename", "find_base", "make_stand_in", "stand_in_reference"]

_PATIENCE = 10.0  # seconds until a registry must answer
_BOOTSTRAP_TIMEOUT = 900.0

# What `debian:*-slim` leaves out, and what would differ from one making to the next, or tell of this machine.
_LEFT_OUT = ("doc/*", "man/*", "locale/*", "info/*", "lintian/*")
_REMOVED = (
    "etc/hostname etc/resolv.conf etc/apt/apt.conf.d/99mmdebstrap var/log/* var/lib/apt/lists/*"
    " var/cache/apt/* var/cache/ldconfig/* var/cache/debconf/*-old"
)


@dataclass(frozen=True, kw_only=True)
class Base:
    """An image that the local engine has and another one is built on.

    Attributes:
        reference: What a builder is told.
        id: What enters the recipe: the manifest digest where one is pinned, else the image id.
        image_id: The engine's id of it.
    """

    reference: str
    id: str
    image_id: str


def find_base(
    engine: Engine,
    manifest: ImageManifest,
    *,
    wanted: str | None = None,
    mirror: str | None = None,
    renew: bool = False,
    say: Callable[[str], None],
) -> Base:
    """Return the base to build an image on, with the local engine holding it.

    That is the pinned one where the engine has it, else a stand-in that was made before, else the pinned one
    from its registry, else a new stand-in. So nobody waits twice for a registry that does not answer.

    Args:
        engine: The local engine.
        manifest: The image to build.
        wanted: A reference that replaces the manifest's base.
        mirror: Where the stand-in's packages come from; mmdebstrap's own choice by default.
        renew: Ask the registry for the pinned base although a stand-in is here.
        say: Gets a line for each thing that the user should know.

    Raises:
        RentbenchError: `wanted` cannot be had, or neither the pinned base nor a stand-in can.
    """
    if wanted is not None:
        found = _local(engine, wanted) or _pulled(engine, wanted, say)
        if found is None:
            msg = f"the base {wanted} is neither here nor can it be pulled"
            raise RentbenchError(msg, hint="docker images shows what is here")
        return found
    pinned = f"{manifest.base_reference}@{manifest.base_digest}"
    found = _local(engine, pinned)
    if found is not None:
        return found
    stand_in = _local(engine, stand_in_reference(manifest))
    if stand_in is None or renew:
        found = _pulled(engine, pinned, say)
        if found is not None:
            return found
    say(
        f"building on a stand-in for {manifest.base_reference} from Debian's packages: another recipe id "
        "(--pull asks the registry for the pinned base)"
    )
    return stand_in or make_stand_in(engine, manifest, mirror=mirror, say=say)


def stand_in_reference(manifest: ImageManifest) -> str:
    """Return the local name of the stand-in for an image's base."""
    return f"rentbench/base:{debian_codename(manifest)}"


def make_stand_in(
    engine: Engine, manifest: ImageManifest, *, mirror: str | None = None, say: Callable[[str], None]
) -> Base:
    """Make the stand-in for an image's base from Debian's packages, and load it into the engine.

    Args:
        engine: The local engine.
        manifest: An image that stands on the base.
        mirror: Where the packages come from; the mirror's name is then kept out of the image.
        say: Gets a line for each thing that the user should know.

    Raises:
        RentbenchError: mmdebstrap is missing or fails.
    """
    program = find_program("mmdebstrap", package="mmdebstrap")
    codename = debian_codename(manifest)
    reference = stand_in_reference(manifest)
    say(f"making {reference} with mmdebstrap")
    removed = f"{_REMOVED} etc/apt/sources.list" if mirror else _REMOVED
    with tempfile.TemporaryDirectory(prefix="rentbench-base-") as folder:
        root = Path(folder) / "layer.tar"
        command = [
            *(
                program,
                "--quiet",
                "--variant=minbase",
                f"--architectures={manifest.platform.partition('/')[2]}",
            ),
            *(f"--dpkgopt=path-exclude=/usr/share/{part}" for part in _LEFT_OUT),
            "--dpkgopt=path-include=/usr/share/doc/*/copyright",
            # Unquoted on purpose: the shell of the hook expands the patterns.
            f'--customize-hook=cd "$1" && rm -rf {removed}',
            *(codename, str(root), *([mirror] if mirror else [])),
        ]
        try:
            stream(
                command,
                timeout=_BOOTSTRAP_TIMEOUT,
                on_line=lambda _: None,
                environment={"SOURCE_DATE_EPOCH": "0"},
            )
        except ProgramError as error:
            msg = f"the stand-in base could not be made: {error.message}"
            raise RentbenchError(msg, hint=error.last_words) from error
        archive = Path(folder) / "image.tar"
        _write_archive(archive, root, reference=reference, architecture=manifest.platform.partition("/")[2])
        with engine_errors(f"loading {reference}"), archive.open("rb") as file:
            image = engine.client.images.load(file)[0]
    say(f"{reference} is {image.id}")
    return Base(reference=reference, id=str(image.id), image_id=str(image.id))


def debian_codename(manifest: ImageManifest) -> str:
    """Return the name of Debian's release in an image's base: `bookworm` of `debian:bookworm-slim`."""
    return manifest.base_reference.rpartition("/")[2].partition(":")[2].removesuffix("-slim")


def _local(engine: Engine, reference: str) -> Base | None:
    image = find_image(engine, reference)
    if image is None:
        return None
    digest = reference.partition("@")[2]
    return Base(reference=reference, id=digest or str(image.id), image_id=str(image.id))


def _pulled(engine: Engine, reference: str, say: Callable[[str], None]) -> Base | None:
    try:
        say(f"pulling {reference}")
        pull(engine, reference, patience=_PATIENCE)
    except RunFailedError as error:
        say(f"{reference} cannot be pulled: {error.message}")
        return None
    return _local(engine, reference)


def _write_archive(archive: Path, root: Path, *, reference: str, architecture: str) -> None:
    """Write a root file system as an image that `docker load` takes; its id depends on its content only.

    `docker import` would put the time of day into the image, and so into its id.
    """
    epoch = "1970-01-01T00:00:00Z"
    configuration = {
        "architecture": architecture,
        "os": "linux",
        "created": epoch,
        "config": {
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "Cmd": ["bash"],
        },
        "rootfs": {"type": "layers", "diff_ids": [sha256_file(root)]},
        "history": [{"created": epoch, "created_by": "rentbench image base"}],
    }
    entries = [{"Config": "config.json", "RepoTags": [reference], "Layers": ["layer.tar"]}]
    with tarfile.open(archive, "w") as tar:
        tar.add(root, "layer.tar")
        for name, content in (("config.json", configuration), ("manifest.json", entries)):
            raw = json.dumps(content).encode()
            member = tarfile.TarInfo(name)
            member.size = len(raw)
            tar.addfile(member, io.BytesIO(raw))
