"""What no schema can say about reproductions: the finding and every figure follow from the values."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from rentbench.core.equivalence import compare_family, overall
from rentbench.core.errors import UnusableInputError
from rentbench.core.ids import parse_time
from rentbench.core.manifest_rules import unit_problem
from rentbench.core.problems import Problem, pointer, show

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rentbench.core.equivalence import Comparison

__all__ = ["reproduction_problems"]

_TOLERANCE = 1e-6  # of figures in % and of p-values; other libraries compute in another order


def reproduction_problems(document: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what is wrong with a document of kind `reproduction` that fits its schema."""
    for place in (("created",), ("original", "started"), ("repetition", "started")):
        text = document[place[0]] if len(place) == 1 else document[place[0]][place[1]]
        try:
            parse_time(text)
        except UnusableInputError as error:
            yield Problem(pointer=pointer(*place), message=f"is no real time: {error}")
    if document["original"]["id"] == document["repetition"]["id"]:
        yield Problem(pointer="/repetition/id", message="is the original's", allowed="another result")
    figures = document["figures"]
    yield from _naming_problems(document)
    comparisons = compare_family(
        [(figure["original"], figure["repetition"]) for figure in figures],
        margin_percent=document["margin_percent"],
    )
    for index, (figure, comparison) in enumerate(zip(figures, comparisons, strict=True)):
        yield from _figure_problems(figure, comparison, index)
    expected: str = overall((one.finding for one in comparisons), complete=not document["left_out"])
    if document["reasons"]:
        expected = "not comparable"
        if figures or document["left_out"]:
            yield Problem(pointer="/reasons", message="are given, but figures are compared")
    if document["verdict"] != expected:
        yield Problem(
            pointer="/verdict",
            message=f"is {show(document['verdict'])}, which does not follow from the figures",
            allowed=show(expected),
        )


def _naming_problems(document: Mapping[str, Any]) -> Iterator[Problem]:
    seen: set[str] = set()
    for part in ("figures", "left_out"):
        for index, one in enumerate(document[part]):
            if part == "figures":
                yield from unit_problem(one["unit"], part, index, "unit")
            identity = json.dumps([one["parameters"], one["metric"]], sort_keys=True)
            if identity in seen:
                yield Problem(pointer=pointer(part, index), message="is there a second time")
            seen.add(identity)


def _figure_problems(figure: Mapping[str, Any], comparison: Comparison, index: int) -> Iterator[Problem]:
    if (figure["reason"] is None) is not (comparison.reason is None):
        yield Problem(
            pointer=pointer("figures", index, "reason"),
            message="does not follow from the values",
            allowed=show(comparison.reason),
        )
    if figure["finding"] != comparison.finding:
        yield Problem(
            pointer=pointer("figures", index, "finding"),
            message=f"is {show(figure['finding'])}, which does not follow from the values",
            allowed=show(comparison.finding),
        )
    for name in ("effect_percent", "ci95_percent", "p_equivalence", "p_difference"):
        expected = getattr(comparison, name)
        if not _agree(figure[name], expected):
            yield Problem(
                pointer=pointer("figures", index, name),
                message="does not follow from the values",
                allowed=json.dumps(expected),
            )


def _agree(found: object, expected: object) -> bool:
    if isinstance(found, list) and isinstance(expected, tuple):
        return len(found) == len(expected) and all(map(_agree, found, expected))
    if isinstance(found, int | float) and isinstance(expected, int | float):
        return math.isclose(found, expected, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
    return found is None and expected is None
