"""What a schema cannot say about measurements and runs: times, statuses, counts and statistics agree.

Pure functions over documents that fit their schemas; each yields the problems that it finds.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from rentbench.core.case_rules import case_problems
from rentbench.core.errors import UnusableInputError, UsageError
from rentbench.core.host_rules import host_problems, telemetry_problems, unavailable_problems
from rentbench.core.ids import parse_time
from rentbench.core.manifest_rules import unit_problem
from rentbench.core.problems import Problem, pointer, show
from rentbench.core.status import document_status

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rentbench.core.manifests import SuiteManifest

__all__ = ["measurement_problems", "run_problems"]

_OWN_FILES = {"measurement.json", "run.json"}

_Place = tuple[str | int, ...]


def measurement_problems(
    document: Mapping[str, Any], suites: Mapping[str, SuiteManifest]
) -> Iterator[Problem]:
    """Yield what is wrong with a measurement document that fits its schema.

    Args:
        document: The document.
        suites: The suites known here. Metrics, units and parameters are held against the manifest where its
            version is the document's; another may have had others.
    """
    known = suites.get(document["suite"]["name"])
    suite = known if known is not None and known.version == document["suite"]["version"] else None
    yield from _order_problems([(("started",), document["started"]), (("finished",), document["finished"])])
    if document["telemetry"] is not None:
        begin = document["telemetry"]["started"]
        yield from _order_problems([(("telemetry", "started"), begin), (("finished",), document["finished"])])
    yield from _status_problems(document)
    yield from case_problems(document, suite)
    yield from _check_problems(document["validity"])
    yield from _artifact_problems(document["artifacts"])
    if suite is not None:
        try:
            suite.check_parameters(document["parameters"]["settings"], "setting")
        except UsageError as error:
            yield Problem(pointer="/parameters/settings", message=f"do not fit: {error}", allowed=error.hint)
    yield from chain(host_problems(document), telemetry_problems(document), unavailable_problems(document))


def run_problems(document: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what is wrong with a run document that fits its schema."""
    if document["measurement"] is None:
        if document["status"] != "failed":
            yield Problem(
                pointer="/status",
                message=f"is {show(document['status'])}, but there is no measurement",
                allowed='"failed"',
            )
        if document["error"] is None:
            yield Problem(pointer="/error", message="is null, but there is no measurement to tell why")
    yield from _order_problems(
        [(("timeline", index, "at"), entry["at"]) for index, entry in enumerate(document["timeline"])]
    )
    for index, attempt in enumerate(document["attempts"]):
        yield from _order_problems([(("attempts", index, "at"), attempt["at"])])
    if document["price"] is not None:
        yield from _order_problems([(("price", "retrieved_at"), document["price"]["retrieved_at"])])
    share = document["gpu_share"]
    if share is not None and share["used"] > share["machine"]:
        yield Problem(
            pointer="/gpu_share/used", message=f"is {share['used']}", allowed=f"at most {share['machine']}"
        )
    named = document["image"]["reference"].partition("@")[2]
    if named and document["image"]["digest"] not in (None, named):
        yield Problem(pointer="/image/digest", message="is not the one in the reference", allowed=show(named))
    yield from unavailable_problems(document)


def _order_problems(times: Sequence[tuple[_Place, str]]) -> Iterator[Problem]:
    """Yield the times that do not exist, and those that come before the one that is named before them."""
    before = None
    for place, text in times:
        try:
            moment = parse_time(text)
        except UnusableInputError as error:
            yield Problem(pointer=pointer(*place), message=f"is no real time: {error}")
            continue
        if before is not None and moment < before[1]:
            yield Problem(
                pointer=pointer(*place), message=f"is {text}", allowed=f"not before {pointer(*before[0])}"
            )
        before = (place, moment)


def _status_problems(document: Mapping[str, Any]) -> Iterator[Problem]:
    error, cases = document["error"], document["cases"]
    expected = document_status(cases, document["validity"], error)
    if document["status"] != expected:
        yield Problem(
            pointer="/status",
            message=f"is {show(document['status'])}, which does not follow from cases, checks and error",
            allowed=show(expected),
        )
    if expected == "failed" and error is None and not cases:
        yield Problem(pointer="/error", message="is null, but nothing was measured")


def _check_problems(validity: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    for index, check in enumerate(validity):
        if check["unit"] is not None:
            yield from unit_problem(check["unit"], "validity", index, "unit")


def _artifact_problems(artifacts: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    names = set(_OWN_FILES)
    for index, artifact in enumerate(artifacts):
        name = artifact["name"].lower()  # some file systems tell no case apart
        if name in names:
            yield Problem(
                pointer=pointer("artifacts", index, "name"),
                message=f"is {show(artifact['name'])}, which is taken",
            )
        names.add(name)
