"""What a supervisor asks of a worker; it travels as JSON through an anonymous file."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Job", "receive_job", "send_job"]


@dataclass(frozen=True, kw_only=True)
class Job:
    """The cases of one repeat, or what is left of them after a worker had to be replaced.

    Attributes:
        suite_folder: Holds workload.py.
        metrics: Names that suite.toml declares.
        packages: Those whose versions the result must name.
        cases: Index in the whole run, and parameters.
        scratch: A folder for the workload's own files.
        host: As in the measurement schema.
    """

    suite_folder: str
    metrics: Sequence[str]
    packages: Sequence[str]
    cases: Sequence[tuple[int, dict[str, Any]]]
    device: Literal["cuda", "cpu"]
    preset: str
    settings: dict[str, Any]
    seed: int
    repeat: int
    scratch: str
    host: dict[str, Any]


def send_job(job: Job) -> int:
    """Return a descriptor from which `receive_job` reads the job; no file is made on any disk."""
    descriptor = os.memfd_create("job")
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(json.dumps(dataclasses.asdict(job)).encode())
    return descriptor


def receive_job(descriptor: int) -> Job:
    """Return the job that `send_job` wrote."""
    with os.fdopen(descriptor, "rb") as file:
        file.seek(0)
        return Job(**json.load(file))
