"""Everything that a build of the site knows: the results, the suites, and the moment it was asked for."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING

from rentbench.core.errors import RentbenchError, UsageError
from rentbench.core.ids import parse_time
from rentbench.report.compare import Group, group
from rentbench.report.headline import Standing, ranking

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rentbench.core.manifests import SuiteManifest
    from rentbench.report.model import Collection, Result

__all__ = ["CATEGORIES", "Site", "Suite", "build_time", "make_site"]

CATEGORIES = {
    "training": (
        "Training",
        "How fast models learn, on one GPU and on many, and what a unit of training costs.",
    ),
    "inference": (
        "Inference",
        "Serving and batch work with trained models: throughput, latency and cost per unit.",
    ),
    "hardware": ("Hardware", "What the devices and the links between them do, without a model in the way."),
    "machines": (
        "Machines",
        "Whether a rented machine is what was ordered, how soon it works, what a stop costs.",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Suite:
    """One suite with everything that was measured by it.

    Attributes:
        manifest: What it measures.
        results: All of its results, newest first.
        groups: Its results in groups of like with like, the one that speaks for the suite first.
    """

    manifest: SuiteManifest
    results: tuple[Result, ...]
    groups: tuple[Group, ...]

    @cached_property
    def leading(self) -> Group | None:
        """The group that the headline is taken from: published, not smoke; None where there is none."""
        first = self.groups[0] if self.groups else None
        return None if first is None or first.likeness.is_demo else first

    @cached_property
    def standings(self) -> list[Standing]:
        """The headline figures of the leading group, best first."""
        return ranking(self.manifest, self.leading) if self.leading else []

    @property
    def only_demo(self) -> bool:
        """Whether smoke runs are all there is."""
        return bool(self.results) and all(result.is_demo for result in self.results)


@dataclass(frozen=True, kw_only=True)
class Site:
    """The whole site's content.

    Attributes:
        collection: Results and refused files.
        suites: By name.
        built: The moment of the build, RFC 3339 in UTC.
        version: Of rentbench.
    """

    collection: Collection
    suites: Mapping[str, Suite]
    built: str
    version: str

    @property
    def strays(self) -> list[Result]:
        """Results of suites that this installation does not know; they have pages, and no suite's page."""
        return [result for result in self.collection.results if result.suite not in self.suites]


def make_site(collection: Collection, manifests: Mapping[str, SuiteManifest], built: str) -> Site:
    """Return the site's content.

    Args:
        collection: What was loaded.
        manifests: The installation's suites, by name.
        built: See `build_time`.
    """
    suites = {}
    for name, manifest in manifests.items():
        results = tuple(result for result in collection.results if result.suite == name)
        suites[name] = Suite(manifest=manifest, results=results, groups=tuple(group(results)))
    return Site(collection=collection, suites=suites, built=built, version=version("rentbench"))


def build_time(asked: str | None = None) -> str:
    """Return the moment that a build names: as asked, else `SOURCE_DATE_EPOCH`, else now; to the second.

    Args:
        asked: RFC 3339 in UTC.

    Raises:
        UsageError: One of them is no time.
    """
    try:
        if asked is not None:
            moment = parse_time(asked)
        else:
            epoch = os.environ.get("SOURCE_DATE_EPOCH")
            moment = datetime.fromtimestamp(int(epoch), UTC) if epoch else datetime.now(UTC)
    except (RentbenchError, ValueError, OverflowError, OSError) as error:
        what = (
            f"--now {asked}"
            if asked is not None
            else f"SOURCE_DATE_EPOCH={os.environ.get('SOURCE_DATE_EPOCH')}"
        )
        msg = f"{what} is no time"
        raise UsageError(
            msg, hint="give it as 2026-11-30T22:05:00Z, SOURCE_DATE_EPOCH in seconds since 1970"
        ) from error
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
