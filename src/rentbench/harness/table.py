"""A measurement as plain text of at most 80 columns."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from rentbench.core.problems import printable
from rentbench.core.selection import case_label
from rentbench.harness.labels import significant

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["render_table"]

WIDTH = 80
_METRIC, _VALUE, _UNIT = 30, 12, 12


def render_table(document: Mapping[str, Any]) -> str:
    """Return what was measured, case by case, with spread; for what is missing a dash and the reason.

    Args:
        document: A measurement document.
    """
    lines = [*_head(document), ""]
    for case in document["cases"]:
        lines += _case(case)
    lines += _notes(document)
    return "\n".join(lines) + "\n"


def _head(document: Mapping[str, Any]) -> Iterator[str]:
    suite, repeats = document["suite"], document["parameters"]["repeats"]
    gpus = [gpu["name"] for gpu in document["host"]["gpus"]]
    device = f"{len(gpus)} × {gpus[0]}" if gpus else document["host"]["cpu"]["model"] or "CPU"
    count = "single run" if repeats == 1 else f"{repeats} repeats"
    yield f"{suite['name']} {suite['version']}, preset {document['preset']}, {count}"[:WIDTH]
    yield printable(str(device))[:WIDTH]


def _case(case: Mapping[str, Any]) -> Iterator[str]:
    yield from textwrap.wrap(printable(case_label(case["parameters"])), WIDTH, break_on_hyphens=False)
    for measurement in case["measurements"]:
        value = significant(measurement["median"])
        metric = measurement["metric"]
        if len(metric) > _METRIC:  # its value goes below it
            yield f"  {metric}"
            metric = ""
        number = f"  {metric:<{_METRIC}}{value:>{_VALUE}} {measurement['unit']:<{_UNIT}} "
        spread = _spread(measurement)
        if len(number) + len(spread) <= WIDTH:
            yield f"{number}{spread}"
        else:
            yield number.rstrip()
            yield spread.rjust(WIDTH)
    if case["status"] != "ok":
        error = case["error"]
        why = case["reason"] or (f"{error['kind']}: {error['message']}" if error else "no reason given")
        dash = "" if case["measurements"] else "— "
        yield from _wrapped(f"{dash}{case['status']}: {why}", "  ")
    elif not case["measurements"]:
        yield "  — nothing was recorded"


def _spread(measurement: Mapping[str, Any]) -> str:
    """Return the spread beside the median: the 95 % interval of the mean, or the range of two."""
    values, interval = measurement["values"], measurement["ci95"]
    if len(values) == 1:
        return "single run"
    low, high = interval if interval is not None else (min(values), max(values))
    kind = "95 %" if interval is not None else "both"
    return f"{kind}: {significant(low, 3)}–{significant(high, 3)}"


def _notes(document: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    for check in document["validity"]:
        if check["outcome"] == "failed":
            word = "INVALID" if check["severity"] == "hard" else "warning"
            yield from _wrapped(f"{word}: {check['name']}: {check['detail']}", "")
    error = document["error"]
    if error is not None:
        yield from _wrapped(f"error: {error['kind']}: {error['message']}", "")
        if error["hint"]:
            yield from _wrapped(f"hint: {error['hint']}", "")
    yield f"status: {document['status']}"


def _wrapped(text: str, indent: str) -> list[str]:
    """Return lines of words that cannot act on the terminal, whoever wrote them."""
    return textwrap.wrap(
        printable(" ".join(text.split())),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        max_lines=6,
        placeholder=" […]",
        break_on_hyphens=False,
    )
