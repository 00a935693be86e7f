"""The Docker engine: connecting to it, and what it says of itself."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import docker
from docker.errors import APIError, DockerException, ImageNotFound
from requests.exceptions import RequestException
from urllib3.exceptions import HTTPError

from rentbench.core.errors import ErrorKind
from rentbench.driver.failures import Failure, RunFailedError, engine_failure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docker.models.images import Image

__all__ = ["API_TIMEOUT", "Engine", "connect", "connect_to", "engine_errors", "engine_time", "find_image"]

API_TIMEOUT = 60.0  # seconds that one answer of the engine may take

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A connection to an engine, and what the engine said when it was made.

    Attributes:
        client: The connection.
        information: The answer to `docker info`.
        version: The answer to `docker version`.
        kind: How its host is reached.
    """

    client: docker.DockerClient
    information: dict[str, Any]
    version: dict[str, Any]
    kind: Literal["local", "ssh"] = "local"

    @property
    def platform(self) -> str:
        """What images must be built for, such as `linux/amd64`."""
        machine = self.information["Architecture"]
        return f"{self.information['OSType']}/{_ARCHITECTURES.get(machine, machine)}"

    @property
    def memory_bytes(self) -> int:
        """The host's memory."""
        return int(self.information["MemTotal"])

    def document(self) -> dict[str, Any]:
        """Return the host as a run document names it."""
        return {
            "kind": self.kind,
            "engine_version": self.version.get("Version"),
            "engine_api_version": self.version.get("ApiVersion"),
            "runtime": self.information.get("DefaultRuntime"),
            "storage_driver": self.information.get("Driver"),
            "cgroup_version": self.information.get("CgroupVersion"),
        }


def connect() -> Engine:
    """Connect to the engine that `DOCKER_HOST` names, else to the local one.

    Raises:
        RunFailedError: None answers, or it may not be used.
    """
    try:
        client = docker.from_env(timeout=int(API_TIMEOUT))
        return Engine(client=client, information=client.info(), version=client.version())
    except (DockerException, RequestException) as error:
        raise RunFailedError(
            _unreachable(error, os.environ.get("DOCKER_HOST", "the local socket"))
        ) from error


def connect_to(address: str, *, name: str, kind: Literal["local", "ssh"]) -> Engine:
    """Connect to an engine at an address of its own.

    Args:
        address: As the Docker SDK takes it.
        name: What messages call it.
        kind: How its host is reached.

    Raises:
        RunFailedError: None answers, or it may not be used.
    """
    try:
        client = docker.DockerClient(base_url=address, timeout=int(API_TIMEOUT))
        return Engine(client=client, information=client.info(), version=client.version(), kind=kind)
    except (DockerException, RequestException) as error:
        raise RunFailedError(_unreachable(error, name)) from error


@contextlib.contextmanager
def engine_errors(during: str) -> Iterator[None]:
    """Turn what the Docker SDK raises into `RunFailedError`.

    Args:
        during: What is being done, for the message.
    """
    try:
        yield
    except (DockerException, RequestException, HTTPError) as error:
        text = error.explanation if isinstance(error, APIError) and error.explanation else str(error)
        raise RunFailedError(engine_failure(str(text), during=during)) from error


def find_image(engine: Engine, reference: str) -> Image | None:
    """Return an image that the engine has, or None.

    Raises:
        RunFailedError: The engine does not answer.
    """
    with engine_errors(f"looking for the image {reference}"):
        try:
            return engine.client.images.get(reference)
        except ImageNotFound:
            return None
        except APIError as error:
            if error.status_code == 400:  # no valid reference
                return None
            raise


def engine_time(text: str) -> str:
    """Return one of the engine's times, which go to the nanosecond, as documents have them."""
    seconds, _, fraction = text.removesuffix("Z").partition(".")
    return f"{seconds}.{fraction[:3]:0<3}Z"


def _unreachable(error: Exception, address: str) -> Failure:
    text = str(error)
    if "Permission denied" in text:
        message = f"you may not use the Docker engine at {address}"
        hint = (
            'add yourself to the group docker (sudo usermod -aG docker "$USER") and log in again, or use sudo'
        )
    elif any(sign in text for sign in ("FileNotFoundError", "No such file", "Connection refused")):
        message = f"no Docker engine answers at {address}"
        hint = "start it (sudo systemctl start docker), or name another one in DOCKER_HOST"
    else:
        message = f"the Docker engine at {address} cannot be used: {' '.join(text.split())[:500]}"
        hint = "does `docker version` work?"
    return Failure(kind=ErrorKind.ENGINE_ERROR, message=message, hint=hint)
