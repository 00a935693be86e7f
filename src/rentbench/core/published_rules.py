"""What no schema can say about figures from elsewhere: units are known, days exist, nothing is said twice."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from rentbench.core.errors import UnusableInputError
from rentbench.core.ids import parse_time
from rentbench.core.manifest_rules import unit_problem
from rentbench.core.problems import Problem, pointer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["published_problems"]


def published_problems(document: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what is wrong with a document of kind `published` that fits its schema."""
    if document["run_date"] is not None:
        try:
            datetime.date.fromisoformat(document["run_date"])
        except ValueError as error:
            yield Problem(pointer="/run_date", message=f"is no real day: {error}")
    for key in ("price", "price_today"):
        if document[key] is not None:
            try:
                parse_time(document[key]["retrieved_at"])
            except UnusableInputError as error:
                yield Problem(pointer=pointer(key, "retrieved_at"), message=f"is no real time: {error}")
    seen: dict[str, int] = {}
    for index, case in enumerate(document["cases"]):
        first = seen.setdefault(repr(sorted(case["parameters"].items())), index)
        if first != index:
            place = pointer("cases", index, "parameters")
            yield Problem(pointer=place, message=f"are those of {pointer('cases', first)} already")
        yield from _case_problems(case, index)


def _case_problems(case: Mapping[str, Any], index: int) -> Iterator[Problem]:
    measured = set()
    for number, one in enumerate(case["measurements"]):
        place = ("cases", index, "measurements", number)
        yield from unit_problem(one["unit"], *place, "unit")
        if (one["metric"], one["statistic"]) in measured:
            yield Problem(pointer=pointer(*place), message="is measured twice")
        measured.add((one["metric"], one["statistic"]))
    if case["status"] in ("failed", "out_of_memory"):
        for key in ("measurements", "costs"):
            if case[key]:
                message = f"are there, but the case is {case['status']}"
                yield Problem(pointer=pointer("cases", index, key), message=message)
