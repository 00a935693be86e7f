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
from rentbench.core.manifests import load_suites
from rentbench.report.compare import Group, group
from rentbench.report.headline import Standing, ranking
from rentbench.report.load import load
from rentbench.report.model import Collection
from rentbench.report.references import load_references

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rentbench.core.manifests import SuiteManifest
    from rentbench.report.model import Rejected, Result
    from rentbench.report.references import Reference

__all__ = ["CATEGORIES", "Site", "Suite", "build_time", "make_site", "read_site"]

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
        references: Figures from elsewhere that are of its kind.
        groups: Its results in groups of like with like, the one that speaks for the suite first.
    """

    manifest: SuiteManifest
    results: tuple[Result, ...]
    groups: tuple[Group, ...]
    references: tuple[Reference, ...] = ()

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
        references: Figures from elsewhere.
        suites: By name.
        built: The moment of the build, RFC 3339 in UTC.
        version: Of rentbench.
    """

    collection: Collection
    suites: Mapping[str, Suite]
    built: str
    version: str
    references: tuple[Reference, ...] = ()

    @property
    def strays(self) -> list[Result]:
        """Results of suites that this installation does not know; they have pages, and no suite's page."""
        return [result for result in self.collection.results if result.suite not in self.suites]


def read_site(results: Path, built: str) -> Site:
    """Return the content of a site made from a folder of results.

    Args:
        results: The folder; one that is not there is an empty collection.
        built: See `build_time`.
    """
    refused: list[Rejected] = []
    references = load_references(results, refused)
    collection = load(results)
    everything = sorted((*collection.rejected, *refused), key=lambda item: item.path)
    return make_site(
        Collection(results=collection.results, rejected=tuple(everything)),
        load_suites(),
        built,
        references=references,
    )


def make_site(
    collection: Collection,
    manifests: Mapping[str, SuiteManifest],
    built: str,
    references: Sequence[Reference] = (),
) -> Site:
    """Return the site's content.

    Args:
        collection: What was loaded.
        manifests: The installation's suites, by name.
        built: See `build_time`.
        references: Figures from elsewhere.
    """
    suites = {}
    for name, manifest in manifests.items():
        results = tuple(result for result in collection.results if result.suite == name)
        suites[name] = Suite(
            manifest=manifest,
            results=results,
            groups=tuple(group(results)),
            references=tuple(reference for reference in references if reference.suite == name),
        )
    return Site(
        collection=collection,
        suites=suites,
        built=built,
        version=version("rentbench"),
        references=tuple(references),
    )


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
