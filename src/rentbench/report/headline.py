"""The figure that stands for a suite, how sure it is, and the two sentences above a suite's charts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rentbench.report.compare import Group, within_noise
from rentbench.report.format import day, interval, number, quantity, unit_text
from rentbench.report.tables import case_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rentbench.core.manifests import SuiteManifest
    from rentbench.report.model import Case, Figure, Result

__all__ = ["Standing", "confidence", "count", "ranking", "summary"]


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A device's figure for the headline case.

    Attributes:
        share: The figure divided by the largest of its ranking, for bars; 0 to 1.
        tied: Whether the difference to the first of the ranking is within noise.
    """

    result: Result
    case: Case
    figure: Figure
    share: float
    tied: bool


def ranking(manifest: SuiteManifest, group: Group) -> list[Standing]:
    """Return the headline figure of every device of a group, best first; empty where the suite ranks nothing.

    Parameters that the headline leaves free are chosen as each device does best, and shown with the figure.
    """
    if manifest.headline is None:
        return []
    metric = manifest.headline.metric
    lower = manifest.metrics[metric].direction == "lower"
    found: list[tuple[Result, Case, Figure]] = []
    for result in group.current:
        cases = [
            case
            for case in result.cases
            if case.status == "ok"
            and metric in case.figures
            and all(case.parameters.get(name) == value for name, value in manifest.headline.case.items())
        ]
        if cases:
            case = sorted(cases, key=lambda case: case.figures[metric].median, reverse=not lower)[0]
            found.append((result, case, case.figures[metric]))
    found.sort(key=lambda item: item[2].median, reverse=not lower)
    largest = max((figure.median for _, _, figure in found), default=0.0)
    return [
        Standing(
            result=result,
            case=case,
            figure=figure,
            share=figure.median / largest if largest > 0 else 0.0,
            tied=position > 0 and within_noise(found[0][2], figure),
        )
        for position, (result, case, figure) in enumerate(found)
    ]


def confidence(figure: Figure) -> str:
    """Return how sure a figure is, in a few words."""
    if figure.n == 1:
        return "single run"
    if figure.ci95 is None:
        return f"{figure.n} repeats on one host, no interval"
    unit = unit_text(figure.unit)
    bounds = f"{interval(figure.ci95)}{' ' if unit else ''}{unit}"
    return f"{figure.n} repeats on one host, 95 % interval of the mean {bounds}"


def summary(manifest: SuiteManifest, group: Group, standings: Sequence[Standing]) -> list[str]:
    """Return what a group of results shows, in two sentences from the data; plain text, not yet escaped."""
    if not group.current:
        return [
            f"None of the {count(len(group.without_figures), 'run')} gave a figure; the reasons are below."
        ]
    return [*_first_sentence(manifest, standings), _second_sentence(group)]


def count(amount: int, noun: str) -> str:
    """Return `1 run`, `2 runs`."""
    return f"{number(amount)} {noun if amount == 1 else noun + 's'}"


def _first_sentence(manifest: SuiteManifest, standings: Sequence[Standing]) -> list[str]:
    if not standings:
        return []
    best = standings[0]
    device = best.result.device.title if best.result.device else "?"
    metric = manifest.metrics[best.figure.metric]
    lower = metric.direction == "lower"
    figure = quantity(best.figure.median, best.figure.unit)
    case = case_text(best.case.parameters, manifest)
    start = f"{metric.title} ({case}): {device} {'needs' if lower else 'reaches'} {figure}"
    if len(standings) == 1:
        return [f"{start} ({confidence(best.figure)})."]
    second = standings[1]
    other = second.result.device.title if second.result.device else "?"
    if second.tied:
        return [f"{start}, and {other} is within noise of it."]
    smaller, larger = sorted([best.figure.median, second.figure.median])
    if smaller <= 0:
        return [f"{start}; {other} comes second."]
    times = number(larger / smaller, digits=3)
    if lower:
        return [f"{start}; {other} needs {times} times as much."]
    return [f"{start}, {times} times the figure of {other}."]


def _second_sentence(group: Group) -> str:
    results = [*group.current, *group.without_figures]
    cases = [case for result in results for case in result.cases]
    missing = sum(case.status != "ok" for case in cases)
    days = sorted({day(result.started) for result in group.current})
    span = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    without = f"; {number(missing)} of them gave no figure, and say why" if missing else ""
    devices = len({result.device.key for result in results if result.device})
    scope = f"{count(len(results), 'run')} on {count(devices, 'device')}"
    return f"{scope}, {span}, {count(len(cases), 'case')}{without}."
