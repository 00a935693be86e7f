"""The cases of a group of results, laid out in parts that each make one table and at most one chart."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, cast

from rentbench.core.ids import slug
from rentbench.core.manifests import Direction, Metric, Scalar, SuiteManifest
from rentbench.report.format import scalar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rentbench.report.compare import Group
    from rentbench.report.model import Case, Result

__all__ = ["Part", "Row", "apart_text", "case_text", "metric_of", "named", "parts"]

_Apart: TypeAlias = tuple[tuple[str, Scalar], ...]

_IDENTIFIER = re.compile(r"[a-z]+(_[a-z]+)*")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One case of one result."""

    result: Result
    case: Case


@dataclass(frozen=True, kw_only=True)
class Part:
    """Cases that share their metrics and what is kept apart: comparable where all parameters are equal.

    What is kept apart are the parameters that the suite declares so, such as heat: a short burst on a cool
    device and steady work under its own heat never share a table, a chart or a ranking.

    Attributes:
        key: For anchors; unique within the group.
        title: The leading metric and what is kept apart, in words.
        apart: The parameters that are kept apart, and their values here.
        fixed: Parameters that every row shares.
        varying: Parameters that differ between rows, in the manifest's order.
        metrics: What was measured, in the manifest's order.
        rows: By varying parameters, then by device.
    """

    key: str
    title: str
    apart: Mapping[str, Scalar]
    fixed: Mapping[str, Scalar]
    varying: tuple[str, ...]
    metrics: tuple[Metric, ...]
    rows: tuple[Row, ...]

    @property
    def leading(self) -> Metric | None:
        """The first metric that ranks, which the chart shows."""
        return next((metric for metric in self.metrics if metric.direction != "none"), None)

    @property
    def has_peak_memory(self) -> bool:
        """Whether any row says how much memory it took."""
        return any(row.case.peak_memory_bytes is not None for row in self.rows)


def parts(group: Group, manifest: SuiteManifest) -> list[Part]:
    """Return the parts of a group: the headline's first, then by metric, those without figures last."""
    results = (*group.current, *group.without_figures)
    rows = [Row(result=result, case=case) for result in results for case in result.cases]
    found: dict[tuple[_Apart, tuple[str, ...]], list[Row]] = {}
    for key, row in _keyed(rows, manifest.apart):
        found.setdefault(key, []).append(row)
    made = [_part(dict(apart), members, manifest) for (apart, _), members in found.items()]
    return _with_own_keys(sorted(made, key=lambda part: _place_of_part(part, manifest)))


def case_text(parameters: Mapping[str, Scalar], manifest: SuiteManifest | None) -> str:
    """Return a case's parameters for a line of text: `matmul, bf16, size 8,192, steady`."""
    return ", ".join(
        named(name, parameters[name])
        for name in _in_order(parameters, manifest)
        if parameters[name] is not None
    )


def apart_text(apart: Mapping[str, Scalar]) -> str:
    """Return what is kept apart as the end of a title: `, steady`, or nothing."""
    return "".join(f", {named(name, value)}" for name, value in apart.items())


def named(name: str, value: Scalar) -> str:
    """Return a parameter's value in words; text stands for itself, all else carries its name."""
    if isinstance(value, str):
        # `device_copy` reads better with a space; a model's or a file's name is left as it is.
        return value.replace("_", " ") if _IDENTIFIER.fullmatch(value) else value
    return f"{name.replace('_', ' ')} {scalar(value)}"


def metric_of(name: str, manifest: SuiteManifest | None, unit: str, direction: str) -> Metric:
    """Return a metric as the manifest declares it, or else as the document has it."""
    declared = manifest.metrics.get(name) if manifest else None
    if declared and declared.unit == unit:
        return declared
    return Metric(name=name, title=name.replace("_", " "), unit=unit, direction=cast("Direction", direction))


def _keyed(rows: Sequence[Row], apart: frozenset[str]) -> list[tuple[tuple[_Apart, tuple[str, ...]], Row]]:
    """Give each row its part: what is apart, and ranking metrics; one without figures goes with its like."""
    measured: dict[tuple[tuple[str, str], ...], tuple[str, ...]] = {}
    for row in rows:
        metrics = tuple(sorted(item.metric for item in row.case.figures.values() if item.direction != "none"))
        if metrics:
            measured.setdefault(_identity(row.case), metrics)
    keyed = []
    for row in rows:
        identity = _identity(row.case)
        metrics = measured.get(identity) or _metrics_of_like(identity, measured, apart)
        values = tuple((name, value) for name, value in row.case.parameters.items() if name in apart)
        keyed.append(((tuple(sorted(values)), metrics), row))
    return keyed


def _metrics_of_like(
    identity: tuple[tuple[str, str], ...],
    measured: Mapping[tuple[tuple[str, str], ...], tuple[str, ...]],
    apart: frozenset[str],
) -> tuple[str, ...]:
    """Return the metrics of the measured case that shares most parameters, beyond those apart; or none."""
    state = {item for item in identity if item[0] in apart}
    wanted = set(identity) - state
    best: tuple[str, ...] = ()
    most = 0
    for other, metrics in measured.items():
        shared = len(wanted.intersection(other))
        if shared > most and state.issubset(other):
            best, most = metrics, shared
    return best


def _identity(case: Case) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, repr(value)) for name, value in case.parameters.items()))


def _holds_headline(part: Part, manifest: SuiteManifest) -> bool:
    if manifest.headline is None:
        return False
    metric, wanted = manifest.headline.metric, manifest.headline.case
    return any(metric == item.name for item in part.metrics) and any(
        all(row.case.parameters.get(name) == value for name, value in wanted.items()) for row in part.rows
    )


def _place_of_part(part: Part, manifest: SuiteManifest) -> tuple[object, ...]:
    metrics = list(manifest.metrics)
    leading = part.leading.name if part.leading else ""
    headline = manifest.headline.case if manifest.headline else {}
    return (
        not part.metrics,
        not _holds_headline(part, manifest),
        metrics.index(leading) if leading in metrics else len(metrics),
        any(headline.get(name, value) != value for name, value in part.apart.items()),
    )


def _part(apart: Mapping[str, Scalar], rows: Sequence[Row], manifest: SuiteManifest) -> Part:
    names: dict[str, None] = {}
    metrics: dict[str, Metric] = {}
    for row in rows:
        names.update(dict.fromkeys(row.case.parameters))
        for figure in row.case.figures.values():
            metrics.setdefault(
                figure.metric, metric_of(figure.metric, manifest, figure.unit, figure.direction)
            )
    ordered = _in_order(names, manifest)
    values = {name: {row.case.parameters.get(name) for row in rows} for name in ordered}
    varying = tuple(name for name in ordered if len(values[name]) > 1)
    position = {name: index for index, name in enumerate(manifest.metrics)}
    measured = tuple(sorted(metrics.values(), key=lambda metric: position.get(metric.name, len(position))))
    leading = next((metric.title for metric in measured if metric.direction != "none"), "Without figures")
    return Part(
        key="",
        title=f"{leading}{apart_text(apart)}",
        apart=apart,
        fixed={name: next(iter(values[name])) for name in ordered if name not in varying},
        varying=varying,
        metrics=measured,
        rows=tuple(sorted(rows, key=lambda row: _place(row, varying, manifest))),
    )


def _with_own_keys(made: Sequence[Part]) -> list[Part]:
    taken: set[str] = set()
    keyed = []
    for part in made:
        key, number = slug(part.title), 2
        while key in taken:
            key, number = f"{slug(part.title)}-{number}", number + 1
        taken.add(key)
        keyed.append(replace(part, key=key))
    return keyed


def _in_order(names: Mapping[str, object], manifest: SuiteManifest | None) -> list[str]:
    declared = list(manifest.parameters) if manifest else []
    known = [name for name in declared if name in names]
    return known + sorted(name for name in names if name not in known)


def _place(row: Row, varying: Sequence[str], manifest: SuiteManifest) -> tuple[object, ...]:
    choices = {
        name: manifest.parameters[name].choices if name in manifest.parameters else None for name in varying
    }
    keys = [_rank(row.case.parameters.get(name), choices[name]) for name in varying]
    device = row.result.device.title if row.result.device else ""
    return (*keys, device, row.result.id)


def _rank(value: Scalar, choices: Sequence[Scalar] | None) -> tuple[int, float, str]:
    """Order values: by the manifest's choices, then numbers by size, then text; missing ones last."""
    if value is None:
        return (3, 0.0, "")
    if isinstance(value, str):
        return (0, float(choices.index(value)), "") if choices and value in choices else (2, 0.0, value)
    return (1, float(value), "")
