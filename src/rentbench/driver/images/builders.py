"""The two programs that build images; both leave the image in the local Docker engine."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rentbench.core.errors import DependencyMissingError
from rentbench.driver.programs import ProgramError, capture, find_program, stream

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from rentbench.driver.images.bases import Base

__all__ = ["BuildJob", "build_with_buildah", "build_with_docker"]

_BUILD_TIMEOUT = 3 * 3600.0
_COPY_TIMEOUT = 1800.0
_QUERY_TIMEOUT = 60.0


@dataclass(frozen=True, kw_only=True)
class BuildJob:
    """One build.

    Attributes:
        context: Folder with the Dockerfile and everything that it copies.
        name: What to call the image.
        base: What it stands on; the local engine has it.
        arguments: Build arguments, besides the base.
        secrets: Files that build steps may read and no layer holds, by secret id.
        no_cache: Build every layer anew.
    """

    context: Path
    name: str
    base: Base
    arguments: Mapping[str, str]
    secrets: Mapping[str, Path]
    no_cache: bool = False

    def options(self, base: str) -> list[str]:
        """Return what both programs are told, with the name that they know the base by."""
        arguments = {"BASE": base, **self.arguments}
        return [
            *(word for key, value in arguments.items() for word in ("--build-arg", f"{key}={value}")),
            *(word for key, path in self.secrets.items() for word in ("--secret", f"id={key},src={path}")),
            *(["--no-cache"] if self.no_cache else []),
            str(self.context),
        ]


def build_with_docker(job: BuildJob, *, say: Callable[[str], None]) -> None:
    """Build with Docker's BuildKit.

    Raises:
        RentbenchError: There is no docker program with BuildKit, or the build fails.
    """
    docker = _docker_with_buildkit()
    command = [docker, "build", "--progress", "plain", "--network", "host", "--tag", job.name]
    stream(
        [*command, *job.options(job.base.reference)],
        timeout=_BUILD_TIMEOUT,
        on_line=say,
        environment={"DOCKER_BUILDKIT": "1"},
    )


def build_with_buildah(job: BuildJob, *, say: Callable[[str], None]) -> None:
    """Build with buildah, bit for bit the same when repeated.

    The base enters from the Docker engine by its id, and the result goes back with its id kept.

    Raises:
        RentbenchError: buildah or skopeo is missing, or the build fails.
    """
    buildah = find_program("buildah", package="buildah")
    skopeo = find_program("skopeo", package="skopeo")
    storage = capture([buildah, "info", "--format", "{{.store.GraphDriverName}}"], timeout=_QUERY_TIMEOUT)
    if storage.strip() != "overlay":
        say(f"buildah stores with {storage.strip()}: only overlay gives the same image id elsewhere")
    identifier = job.base.image_id.removeprefix("sha256:")
    base = f"localhost/rentbench/base:{identifier[:12]}"
    if identifier not in capture([buildah, "images", "--no-trunc"], timeout=_QUERY_TIMEOUT):
        say(f"copying {job.base.reference} to buildah")
        _copy(skopeo, f"docker-daemon:{job.base.image_id}", f"containers-storage:{base}")
    result = f"localhost/{job.name}"
    command = [
        *(buildah, "bud", "--isolation", "chroot", "--network", "host", "--pull-never"),
        *("--format", "oci", "--timestamp", "0", "--layers", "--tag", result),
    ]
    stream([*command, *job.options(base)], timeout=_BUILD_TIMEOUT, on_line=say)
    say(f"copying {job.name} to the Docker engine")
    _copy(skopeo, f"containers-storage:{result}", f"docker-daemon:{job.name}")


def _copy(skopeo: str, source: str, target: str) -> None:
    capture([skopeo, "copy", "--quiet", source, target], timeout=_COPY_TIMEOUT)


def _docker_with_buildkit() -> str:
    """Return a docker program that builds with BuildKit; the first on PATH may lack the plugin that it needs.

    Up to version 22 the program carries BuildKit's client; from 23 on, the plugin buildx is needed.
    """
    found = []
    for folder in os.get_exec_path():
        program = shutil.which("docker", path=folder)
        if program is None:
            continue
        found.append(program)
        try:
            version = capture([program, "--version"], timeout=_QUERY_TIMEOUT)  # "Docker version 20.10.24, …"
            if int(version.split()[2].partition(".")[0]) < 23:
                return program
            capture([program, "buildx", "version"], timeout=_QUERY_TIMEOUT)
        except (ProgramError, ValueError, IndexError):
            continue
        return program
    msg = f"no docker program here can build with BuildKit (looked at {', '.join(found) or 'PATH'})"
    raise DependencyMissingError(msg, hint="install docker-buildx, or build with --builder buildah")
