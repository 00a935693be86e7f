"""Rules of cases and their measurements: statuses are explained, statistics follow from the values."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from rentbench.core.errors import UsageError
from rentbench.core.manifest_rules import unit_problem
from rentbench.core.problems import Problem, listing, pointer, show
from rentbench.core.statistics import summarize

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rentbench.core.manifests import SuiteManifest

__all__ = ["case_problems"]

_TOLERANCE = 1e-9  # relative; other libraries add up in another order


def case_problems(document: Mapping[str, Any], suite: SuiteManifest | None) -> Iterator[Problem]:
    """Yield what is wrong with a measurement document's cases.

    Args:
        document: One that fits its schema.
        suite: The manifest of the same suite in the same version; None where it is not known here.
    """
    seen: dict[str, int] = {}
    for index, case in enumerate(document["cases"]):
        identity = json.dumps(case["parameters"], sort_keys=True)
        first = seen.setdefault(identity, index)
        if first != index:
            yield Problem(
                pointer=pointer("cases", index, "parameters"), message=f"are those of case {first} again"
            )
        yield from _status_problems(case, index)
        yield from _measurement_problems(case, index, document["parameters"]["repeats"])
        if suite is not None:
            yield from _suite_problems(case, index, suite)


def _status_problems(case: Mapping[str, Any], index: int) -> Iterator[Problem]:
    status = case["status"]
    if status == "failed" and case["error"] is None:
        yield Problem(pointer=pointer("cases", index, "error"), message="is null, but the case failed")
    if status == "ok" and case["error"] is not None:
        yield Problem(
            pointer=pointer("cases", index, "error"), message="is set, but the case is ok", allowed="null"
        )
    if status == "skipped":
        if not case["reason"]:
            yield Problem(
                pointer=pointer("cases", index, "reason"), message="is missing: a skipped case says why"
            )
        if case["measurements"]:
            yield Problem(
                pointer=pointer("cases", index, "measurements"),
                message="hold values of a case that was skipped",
                allowed="none",
            )
    if status == "invalid" and not case["reason"] and case["error"] is None:
        yield Problem(
            pointer=pointer("cases", index, "reason"), message="is missing: an invalid case says why"
        )


def _measurement_problems(case: Mapping[str, Any], index: int, repeats: int) -> Iterator[Problem]:
    metrics: set[str] = set()
    for position, measurement in enumerate(case["measurements"]):
        place = ("cases", index, "measurements", position)
        if measurement["metric"] in metrics:
            yield Problem(
                pointer=pointer(*place, "metric"), message=f"has {show(measurement['metric'])} a second time"
            )
        metrics.add(measurement["metric"])
        yield from unit_problem(measurement["unit"], *place, "unit")
        yield from _statistics_problems(measurement, place)
        if len(measurement["values"]) > repeats:
            yield Problem(
                pointer=pointer(*place, "values"),
                message=f"are {len(measurement['values'])} of {repeats} repeats",
                allowed="one of each repeat",
            )
        if measurement["samples"] is not None:
            yield from _sample_problems(measurement["samples"], (*place, "samples"))


def _statistics_problems(measurement: Mapping[str, Any], place: Sequence[str | int]) -> Iterator[Problem]:
    values = measurement["values"]
    try:
        expected = summarize(values)
    except OverflowError:
        yield Problem(pointer=pointer(*place, "values"), message="are too large to add up")
        return
    scale = max(map(abs, values))
    for name in ("n", "median", "mean", "stdev", "ci95"):
        if not _agree(measurement[name], expected[name], scale):
            yield Problem(
                pointer=pointer(*place, name),
                message=f"is {_number(measurement[name])}, which does not follow from the values",
                allowed=_number(expected[name]),
            )


def _agree(found: Any, expected: Any, scale: float) -> bool:  # noqa: ANN401 - number, pair or null
    if found is None or expected is None:
        return found is expected
    if isinstance(expected, list):
        return all(_agree(one, other, scale) for one, other in zip(found, expected, strict=True))
    return math.isclose(found, expected, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE * scale)


def _number(value: object) -> str:
    return json.dumps(value)


def _sample_problems(samples: Mapping[str, Any], place: Sequence[str | int]) -> Iterator[Problem]:
    yield from unit_problem(samples["unit"], *place, "unit")
    percentiles = samples["percentiles"]
    slack = _TOLERANCE * max(abs(samples["min"]), abs(samples["max"]))
    ascending = [
        samples["min"],
        *(percentiles[name] for name in ("p10", "p50", "p90", "p99")),
        samples["max"],
    ]
    if any(low > high + slack for low, high in pairwise(ascending)):
        yield Problem(
            pointer=pointer(*place),
            message="are out of order",
            allowed="min ≤ p10 ≤ p50 ≤ p90 ≤ p99 ≤ max",
        )
    if not samples["min"] - slack <= samples["mean"] <= samples["max"] + slack:
        yield Problem(
            pointer=pointer(*place, "mean"),
            message=f"is {_number(samples['mean'])}",
            allowed=f"from {_number(samples['min'])} to {_number(samples['max'])}",
        )


def _suite_problems(case: Mapping[str, Any], index: int, suite: SuiteManifest) -> Iterator[Problem]:
    try:
        suite.check_parameters(case["parameters"])
    except UsageError as error:
        yield Problem(
            pointer=pointer("cases", index, "parameters"), message=f"do not fit: {error}", allowed=error.hint
        )
    for position, measurement in enumerate(case["measurements"]):
        place = ("cases", index, "measurements", position)
        metric = suite.metrics.get(measurement["metric"])
        if metric is None:
            yield Problem(
                pointer=pointer(*place, "metric"),
                message=f"is {show(measurement['metric'])}, not a metric of {suite.name} {suite.version}",
                allowed=listing(suite.metrics, limit=40),
            )
            continue
        for name, expected in (("unit", metric.unit), ("direction", metric.direction)):
            if measurement[name] != expected:
                yield Problem(
                    pointer=pointer(*place, name),
                    message=f"is {show(measurement[name])}, and differs from the suite's manifest",
                    allowed=show(expected),
                )
