"""The two programs that build images; both leave the image in the local Docker engine."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from rentbench.core.errors import DependencyMissingError
from rentbench.driver.engine import Engine, find_image
from rentbench.driver.images.storages import BuildahStorage, stored_name
from rentbench.driver.programs import ProgramError, capture, find_program, stream

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

__all__ = ["BuildJob", "BuildahBuilder", "Builder", "DockerBuilder", "docker_with_buildkit"]

_BUILD_TIMEOUT = 3 * 3600.0
_QUERY_TIMEOUT = 60.0
_GROUND_ARGUMENT = {"environment": "BASE", "code": "ENVIRONMENT"}


@dataclass(frozen=True, kw_only=True)
class BuildJob:
    """One stage of a Dockerfile, made into an image.

    Attributes:
        context: Folder with the Dockerfile and everything that it copies.
        stage: Which stage.
        ground: The image that the stage goes on, by a reference that the local engine knows.
        name: What to call the image.
        arguments: Build arguments, besides the one for the ground.
        secrets: Files that build steps may read and no layer holds, by secret id.
        no_cache: Build every layer anew.
    """

    context: Path
    stage: Literal["environment", "code"]
    ground: str
    name: str
    arguments: Mapping[str, str]
    secrets: Mapping[str, Path] = field(default_factory=dict)
    no_cache: bool = False

    def options(self, ground: str) -> list[str]:
        """Return what both programs are told, with the name that they know the ground by."""
        arguments = {_GROUND_ARGUMENT[self.stage]: ground, **self.arguments}
        return [
            *("--target", self.stage),
            *(word for key, value in arguments.items() for word in ("--build-arg", f"{key}={value}")),
            *(word for key, path in self.secrets.items() for word in ("--secret", f"id={key},src={path}")),
            *(["--no-cache"] if self.no_cache else []),
            str(self.context),
        ]


class Builder(Protocol):
    """A program that builds images."""

    def labels(self, name: str) -> Mapping[str, str]:
        """Return the labels of an image that it can build on; none where there is no such image."""

    def build(self, job: BuildJob) -> None:
        """Build, and leave the image in the local engine.

        Raises:
            RentbenchError: A program is missing, or the build fails.
        """


class DockerBuilder:
    """Docker's BuildKit.

    Args:
        engine: The local engine.
        say: Gets every line that the user should see.
    """

    def __init__(self, engine: Engine, *, say: Callable[[str], None]) -> None:
        self._engine = engine
        self._say = say

    def labels(self, name: str) -> Mapping[str, str]:
        """Return the labels of an image; none where the engine lacks it."""
        image = find_image(self._engine, name)
        return {} if image is None else image.labels

    def build(self, job: BuildJob) -> None:
        """Build.

        Raises:
            RentbenchError: There is no docker program with BuildKit, or the build fails.
        """
        command = [docker_with_buildkit(), "build", "--progress", "plain", "--network", "host"]
        stream(
            [*command, "--tag", job.name, *job.options(job.ground)],
            timeout=_BUILD_TIMEOUT,
            on_line=self._say,
            environment={"DOCKER_BUILDKIT": "1"},
        )


class BuildahBuilder:
    """buildah, which builds bit for bit the same when it builds again.

    What an environment goes on enters buildah's storage from the engine by its id. What is built goes to the
    engine with its id kept: an environment whole, code in the few layers above its environment.

    Args:
        engine: The local engine.
        say: Gets every line that the user should see.

    Raises:
        DependencyMissingError: buildah or skopeo is not installed.
    """

    def __init__(self, engine: Engine, *, say: Callable[[str], None]) -> None:
        self._say = say
        self._buildah = find_program("buildah", package="buildah")
        self._storage = BuildahStorage(engine, self._buildah, say=say)

    def labels(self, name: str) -> Mapping[str, str]:
        """Return the labels of an image; none where buildah's storage lacks it."""
        return self._storage.labels(name)

    def build(self, job: BuildJob) -> None:
        """Build.

        Raises:
            RentbenchError: The build fails, or an image cannot be copied.
        """
        command = [self._buildah, "info", "--format", "{{.store.GraphDriverName}}"]
        driver = capture(command, timeout=_QUERY_TIMEOUT).strip()
        if driver != "overlay":
            self._say(f"buildah stores with {driver}: only overlay gives the same image id elsewhere")
        code = job.stage == "code"
        command = [
            *(self._buildah, "bud", "--isolation", "chroot", "--network", "host", "--pull-never"),
            *("--format", "oci", "--timestamp", "0", "--layers", "--tag", stored_name(job.name)),
            *job.options(stored_name(job.ground) if code else self._storage.fetch(job.ground)),
        ]
        stream(command, timeout=_BUILD_TIMEOUT, on_line=self._say)
        if code:
            self._storage.send_layers(job.name, above=job.ground)
        else:
            self._storage.send(job.name)


def docker_with_buildkit() -> str:
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
