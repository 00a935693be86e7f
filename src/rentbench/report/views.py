"""What a suite's page shows, worked out before the template: parts with their charts, cautions, commands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from rentbench.core.errors import UnusableInputError
from rentbench.report.charts import Chart, part_chart, ranking_chart
from rentbench.report.draw import ChartCache, chart_svgs
from rentbench.report.facts import Fact, gpu_facts, host_facts
from rentbench.report.format import MISSING
from rentbench.report.headline import count, summary
from rentbench.report.load import read_again
from rentbench.report.pivot import pivots
from rentbench.report.reproduce import Command, command_of
from rentbench.report.tables import case_text, parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rentbench.report.compare import Group, Likeness
    from rentbench.report.model import Result
    from rentbench.report.pivot import Pivot
    from rentbench.report.site import Suite
    from rentbench.report.tables import Part

__all__ = ["Drawing", "GroupView", "Machine", "PartView", "SuiteView", "suite_view"]


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A chart as it stands in a page."""

    wide: Markup
    narrow: Markup
    caption: str


@dataclass(frozen=True, kw_only=True)
class PartView:
    """One table, its caption, and its chart where there is one."""

    part: Part
    caption: str
    drawing: Drawing | None


@dataclass(frozen=True, kw_only=True)
class GroupView:
    """Results of like with like under one heading."""

    title: str
    group: Group
    parts: tuple[PartView, ...]
    pivots: tuple[Pivot, ...]


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What one result ran on."""

    result: Result
    gpus: tuple[list[Fact], ...]
    host: list[Fact]


@dataclass(frozen=True, kw_only=True)
class SuiteView:
    """A whole suite page.

    Attributes:
        suite: The suite and its results.
        summary: Sentences written from the data.
        ranking: The headline by device, where there are several.
        published: Groups of published presets; the first is the leading one.
        demo: Groups of smoke runs.
        cautions: What to keep in mind, as (subject, sentence).
        machines: What the leading group ran on.
        software: Component, and its version in each result of the leading group.
        commands: How to run the leading group's results again.
    """

    suite: Suite
    summary: tuple[str, ...]
    ranking: Drawing | None
    published: tuple[GroupView, ...]
    demo: tuple[GroupView, ...]
    cautions: tuple[tuple[str, str], ...]
    machines: tuple[Machine, ...]
    software: tuple[tuple[str, tuple[str, ...]], ...]
    commands: tuple[Command, ...]


def suite_view(suite: Suite, cache: ChartCache) -> SuiteView:
    """Return everything that the page of a suite shows.

    Args:
        suite: The suite and its results.
        cache: Draws the charts, or remembers them.
    """
    manifest, leading = suite.manifest, suite.leading
    ranking = None
    if suite.standings and manifest.headline:
        case = case_text(manifest.headline.case, manifest)
        ranking = _drawing(
            ranking_chart(suite.standings, manifest.metrics[manifest.headline.metric], case), cache
        )
    views = [
        view
        for view in (_group_view(group, suite, cache) for group in suite.groups)
        if view.parts or view.pivots
    ]
    current = leading.current if leading else ()
    return SuiteView(
        suite=suite,
        summary=tuple(summary(manifest, leading, suite.standings)) if leading else (),
        ranking=ranking,
        published=tuple(view for view in views if not view.group.likeness.is_demo),
        demo=tuple(view for view in views if view.group.likeness.is_demo),
        cautions=tuple(_cautions(leading)) if leading else (),
        machines=tuple(_machine(result) for result in current),
        software=_software(current),
        commands=tuple(command_of(result, manifest) for result in current),
    )


def _group_view(group: Group, suite: Suite, cache: ChartCache) -> GroupView:
    made, rest = pivots(parts(group, suite.manifest), suite.manifest)
    views = []
    for part in rest:
        chart = None if group.likeness.is_demo else part_chart(part, suite.manifest)
        fixed = case_text(part.fixed, suite.manifest)
        views.append(PartView(part=part, caption=fixed, drawing=_drawing(chart, cache)))
    return GroupView(title=_group_title(group.likeness), group=group, parts=tuple(views), pivots=tuple(made))


def _drawing(chart: Chart | None, cache: ChartCache) -> Drawing | None:
    if chart is None:
        return None
    drawn = chart_svgs(chart, cache)
    # The engine escapes what it draws, `draw` escapes the label: the only markup of the site that is taken as
    # it is.
    return Drawing(wide=Markup(drawn["wide"]), narrow=Markup(drawn["narrow"]), caption=chart.caption)  # noqa: S704


def _group_title(likeness: Likeness) -> str:
    where = {"container": "in the image", "process": "outside an image", "driver": "by the driver"}[
        likeness.runner
    ]
    gpus = count(likeness.gpus, "GPU") if likeness.gpus else "CPU"
    slices = f" (MIG {likeness.slice})" if likeness.slice else " (vGPU)" if likeness.vgpu else ""
    weights = f", {likeness.weights} weights" if likeness.weights else ""
    return (
        f"{likeness.preset} preset, {gpus}{slices}, {where}{weights}, suite version {likeness.suite_version}"
    )


def _cautions(group: Group) -> list[tuple[str, str]]:
    """Return each sentence once, with the devices that it is about."""
    subjects: dict[str, list[str]] = {}
    for result in group.current:
        for sentence in _cautions_of(result):
            subjects.setdefault(sentence, []).append(result.device.title if result.device else "?")
    cautions = [(", ".join(devices), sentence) for sentence, devices in subjects.items()]
    if group.current:
        cautions.append(
            ("Every device", "repeats on one host say nothing about other hosts of the same type.")
        )
    return cautions


def _cautions_of(result: Result) -> Iterator[str]:
    for concern in result.concerns:
        yield f"{concern.name.replace('_', ' ')}: {concern.detail}"
    repeats = [figure.n for case in result.cases for figure in case.figures.values()]
    if repeats and max(repeats) < 3:
        yield "fewer than three repeats: no interval can be given, and differences under 10 % count as noise."
    if result.runner == "process":
        yield "it ran outside an image: versions are recorded, but nothing pins them."
    if result.weights == "random":
        yield "random weights: speed is real, answers are not."
    if not result.price_recorded:
        yield "price not recorded."


def _machine(result: Result) -> Machine:
    try:
        document, _ = read_again(result)
    except UnusableInputError:
        changed = Fact(label="Documents", value=MISSING, reason="they changed while the site was built")
        return Machine(result=result, gpus=(), host=[changed])
    if document is None:
        msg = f"{result.id} has no measurement"
        raise ValueError(msg)
    gpus = tuple(gpu_facts(document, index) for index in range(len(document["host"]["gpus"])))
    return Machine(result=result, gpus=gpus, host=host_facts(document))


def _software(results: Sequence[Result]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    names = sorted({name for result in results for name in result.software}, key=str.lower)
    return tuple((name, tuple(result.software.get(name, MISSING) for result in results)) for name in names)
