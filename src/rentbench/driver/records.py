"""What the driver knows of one run, gathered as it happens, and the document made from it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from rentbench.core.ids import new_id, utc_now

if TYPE_CHECKING:
    from collections.abc import Callable

    from docker.models.images import Image

    from rentbench.core.status import Status
    from rentbench.driver.failures import Failure

__all__ = ["RECORD_LABELS", "Measurement", "RunRecord"]

# What a container must carry so that a later process can conclude its run.
RECORD_LABELS = (
    "rentbench.suite",
    "rentbench.preset",
    "rentbench.reference",
    "rentbench.gpus",
    "rentbench.queued",
)

_SHA256 = re.compile(r"sha256:[0-9a-f]{64}")
_MAX_MESSAGE = 4_000
_MAX_TAIL = 60_000


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A measurement that a run left, and that is valid."""

    id: str
    sha256: str
    document: dict[str, Any]


@dataclass(kw_only=True)
class RunRecord:
    """One run, from the wish to the end.

    Attributes:
        suite: Public name of the suite.
        preset: The amount of work.
        reference: The image as it was asked for.
        gpus: `none`, `all` or a count, as it was asked for.
        host: The run document's `host`.
        machine_gpus: GPUs of the machine; None where that is not known.
        id: Of the run.
        image: The image, once it is known.
        container: The options in force, once there is a container.
        timeline: What happened when.
    """

    suite: str
    preset: str
    reference: str
    gpus: str
    host: dict[str, Any]
    machine_gpus: int | None = None
    id: str = field(default_factory=new_id)
    image: Image | None = None
    container: dict[str, Any] | None = None
    timeline: list[dict[str, Any]] = field(default_factory=list)

    def mark(self, event: str, at: str | None = None) -> None:
        """Note that something happened, now by default; nobody bills a local host."""
        self.timeline.append({"event": event, "at": at or utc_now(), "billed": None})

    @property
    def begun(self) -> str:
        """When the first thing happened."""
        return str(self.timeline[0]["at"])

    @property
    def recipe_id(self) -> str | None:
        """As the image's label says."""
        label = self.image.labels.get("rentbench.recipe", "") if self.image is not None else ""
        return label if _SHA256.fullmatch(label) else None

    def labels(self) -> dict[str, str]:
        """Return what a later process needs to conclude the run when this one has died."""
        values = (self.suite, self.preset, self.reference, self.gpus, self.begun)
        return dict(zip(RECORD_LABELS, values, strict=True))

    def document(
        self,
        *,
        status: Status,
        failure: Failure | None,
        measurement: Measurement | None,
        redact: Callable[[str], str],
    ) -> dict[str, Any]:
        """Return the run document.

        Args:
            status: The measurement's, or `failed`.
            failure: What went wrong around the workload.
            measurement: What the run left.
            redact: Removes from a text what must not leave this machine.
        """
        document: dict[str, Any] = {
            "document": "run",
            "schema_version": 1,
            "id": self.id,
            "replaces": None,
            "suite": self.suite,
            "preset": self.preset,
            "status": status,
            "error": None if failure is None else _redacted(failure, redact).document(),
            "measurement": None
            if measurement is None
            else {"id": measurement.id, "sha256": measurement.sha256},
            "image": {
                "reference": self.reference,
                "digest": self._digest(),
                "image_id": None if self.image is None else self.image.id,
                "recipe_id": self.recipe_id,
            },
            "host": self.host,
            "provider": None,
            "offer": None,
            "region": None,
            "tier": None,
            "gpu_share": self._gpu_share(measurement),
            "price": None,
            "timeline": self.timeline,
            "billed": None,
            "attempts": [],
            "plan": None,
            "budget": None,
            "container": self.container,
            "driver_version": version("rentbench"),
            "unavailable": [],
        }
        document["unavailable"] = _reasons(document)
        return document

    def _digest(self) -> str | None:
        """Return the registry's digest: the one in the reference, else that of the same repository."""
        named = self.reference.partition("@")[2]
        if named or self.image is None:
            return named or None
        repository = re.sub(r":[^/:]*$", "", self.reference)
        digests = [str(digest).partition("@") for digest in self.image.attrs.get("RepoDigests") or ()]
        return next((digest for name, _, digest in digests if name == repository), None)

    def _gpu_share(self, measurement: Measurement | None) -> dict[str, int] | None:
        if measurement is None or self.machine_gpus is None:
            return None
        used = len(measurement.document["host"]["gpus"]) if self.gpus != "none" else 0
        return {"used": used, "machine": max(used, self.machine_gpus)}


def _redacted(failure: Failure, redact: Callable[[str], str]) -> Failure:
    return replace(
        failure,
        message=redact(failure.message)[:_MAX_MESSAGE],
        hint=None if failure.hint is None else redact(failure.hint)[:_MAX_MESSAGE],
        log_tail=None if failure.log_tail is None else redact(failure.log_tail)[-_MAX_TAIL:],
    )


def _reasons(document: dict[str, Any]) -> list[dict[str, str]]:
    """Return why what is null is so."""
    reasons = {
        "/measurement": "the run left no valid measurement",
        "/image/digest": "the image has no name with a registry's digest here",
        "/image/image_id": "the image was not found",
        "/image/recipe_id": "the image does not say what it was made from",
        "/container": "no container was made",
        "/gpu_share": "the machine's or the run's number of GPUs is not known",
        "/price": "a host of one's own: nobody bills",
    }
    return [
        {"path": path, "reason": reason} for path, reason in reasons.items() if _value(document, path) is None
    ]


def _value(document: dict[str, Any], path: str) -> Any:  # noqa: ANN401 - any part of a JSON document
    value: Any = document
    for part in path.split("/")[1:]:
        value = value[part]
    return value
