"""Charts: tidy frames in, Vega-Lite specifications out; `rentbench.report.draw` makes SVG of them.

Colours are fixed here and exchanged by the style sheet for the dark theme, so that one SVG serves both.
Fields are named by letters, digits and underscores only: Vega-Lite reads `.` and `[` in names as paths. Every
chart exists twice, for wide and for narrow screens: a wide one scaled down is not readable on a phone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import altair as alt
import pandas as pd

from rentbench.report.format import quantity, unit_text
from rentbench.report.tables import Part, named
from rentbench.report.text import shorten

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rentbench.core.manifests import Metric, SuiteManifest
    from rentbench.report.headline import Standing

__all__ = ["PALETTE", "Chart", "part_chart", "ranking_chart"]

Width = Literal["wide", "narrow"]
PIXELS: Mapping[Width, int] = {"wide": 860, "narrow": 340}

# Eight series that keep apart in both themes and under the common colour deficiencies (after Okabe and Ito,
# adjusted).
PALETTE = ("#0b6bcb", "#d9730d", "#0f8a5f", "#b4348f", "#7a5af5", "#8a6d00", "#c0392b", "#4d6475")
TEXT, MUTED, GRID, AXIS = "#1c2733", "#5b6875", "#e3e8ed", "#b8c2cc"

LOG_FROM = 8  # places that lie further apart than this, largest to smallest, stand on a logarithmic axis
_LONGEST_LABEL = 80
_AXIS_PIXELS, _GAP_PIXELS = 42, 16
_MOST_PANELS = 12
_MOST_BARS = 40


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One chart, in both widths.

    Attributes:
        label: What it shows, as a text alternative; the figures themselves are in the table beside it.
        caption: What the axis is, what the marks mean, and what was left out.
        marks: How many data marks each drawing must have.
        specs: Vega-Lite specifications by width.
    """

    label: str
    caption: str
    marks: int
    specs: Mapping[Width, dict[str, Any]]


def ranking_chart(standings: Sequence[Standing], metric: Metric, case: str) -> Chart | None:
    """Return a suite's headline by device as bars; None where there are fewer than two.

    Args:
        standings: Best first.
        metric: The headline's.
        case: The headline's case in words.
    """
    rows = [
        {
            "label": _device(standing.result.device.title if standing.result.device else "?"),
            "place": position,
            "series": "",
            **_bounds(standing.figure.median, standing.figure.ci95),
            "text": quantity(standing.figure.median, standing.figure.unit),
        }
        for position, standing in enumerate(standings[:_MOST_BARS])
    ]
    if len(rows) < 2:
        return None
    frame = pd.DataFrame(rows)
    listed = "; ".join(f"{row['label']} {row['text']}" for row in rows)
    return Chart(
        label=f"{metric.title} at {case}, by device: {listed}.",
        caption=_caption(metric, rows, "", len(standings) - len(rows)),
        marks=len(rows),
        specs={width: _bars(frame, pixels) for width, pixels in PIXELS.items()},
    )


def part_chart(part: Part, manifest: SuiteManifest) -> Chart | None:
    """Return the leading metric of a part by device; None where fewer than two figures are there.

    Lines over the numeric parameter with the most values, one panel for each combination of the others; bars
    where no series has two places. Figures are on a linear axis from zero, so that none of them can fall off
    a logarithmic one.
    """
    metric = part.leading
    if metric is None:
        return None
    axis = _axis_parameter(part, metric.name)
    rows = _tidy(part, metric.name, axis)
    devices = list(dict.fromkeys(row["series"] for row in rows))[: len(PALETTE)]
    panels = list(dict.fromkeys(row["label"] for row in rows))[: _MOST_PANELS if axis else _MOST_BARS]
    kept = [row for row in rows if row["series"] in devices and row["label"] in panels]
    if len(kept) < 2:
        return None
    frame = pd.DataFrame(kept)
    low, high = (quantity(value, metric.unit) for value in (frame["value"].min(), frame["value"].max()))
    over = f" over {axis.replace('_', ' ')}" if axis else ""
    specs: dict[Width, dict[str, Any]] = {}
    for width, pixels in PIXELS.items():
        if axis:
            specs[width] = _lines(
                frame, _parameter_title(axis, manifest), pixels, columns=3 if width == "wide" else 2
            )
        else:
            specs[width] = _bars(frame, pixels)
    return Chart(
        label=f"{part.title}{over}, by device: {len(kept)} figures, {low} to {high}, all in the table.",
        caption=_caption(metric, kept, over, len(rows) - len(kept)),
        marks=len(kept),
        specs=specs,
    )


def _tidy(part: Part, metric: str, axis: str | None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for row in part.rows:
        figure = row.case.figures.get(metric)
        if row.case.status != "ok" or figure is None or row.result.device is None:
            continue
        place = row.case.parameters.get(axis) if axis else len(rows)
        if place is None:
            continue
        others = [named(name, row.case.parameters.get(name)) for name in part.varying if name != axis]
        rows.append(
            {
                "label": shorten(", ".join(others), _LONGEST_LABEL) or part.title,
                "place": place,
                "series": _device(row.result.device.title),
                **_bounds(figure.median, figure.ci95),
                "text": quantity(figure.median, figure.unit),
            }
        )
    return rows


def _axis_parameter(part: Part, metric: str) -> str | None:
    """Return the numeric parameter with the longest series: figures of one device that differ in it alone."""
    best, most = None, 1
    for name in part.varying:
        places: dict[tuple[object, ...], set[float]] = {}
        for row in part.rows:
            value = row.case.parameters.get(name)
            if (
                metric not in row.case.figures
                or not isinstance(value, int | float)
                or isinstance(value, bool)
            ):
                continue
            others = tuple(row.case.parameters.get(other) for other in part.varying if other != name)
            places.setdefault((row.result.id, *others), set()).add(float(value))
        longest = max((len(found) for found in places.values()), default=0)
        if longest > most:
            best, most = name, longest
    return best


def _lines(frame: pd.DataFrame, x_title: str, pixels: int, *, columns: int) -> dict[str, Any]:
    panels = list(dict.fromkeys(frame["label"]))
    columns = min(columns, len(panels))
    width = (pixels - 10) // columns - _AXIS_PIXELS - _GAP_PIXELS
    places = sorted({float(place) for place in frame["place"]})
    axis = alt.Axis(format=",~r", tickCount=5, labelOverlap="greedy", labelSeparation=6)
    scale = alt.Scale(zero=False, nice=True)
    if places[0] > 0 and places[-1] / places[0] >= LOG_FROM:
        axis.values = places
        scale = alt.Scale(type="log", base=2, nice=False, padding=8)
    base = alt.Chart().encode(
        x=alt.X("place:Q", title=x_title, scale=scale, axis=axis), color=_colour(frame, pixels)
    )
    y = alt.Y(
        "value:Q",
        title=None,
        scale=alt.Scale(zero=True, nice=True),
        axis=alt.Axis(minExtent=_AXIS_PIXELS - 6),
    )
    layers = alt.layer(
        base.mark_line(strokeWidth=2).encode(y=y),
        base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.5).encode(y="low:Q", y2="high:Q"),
        base.mark_point(filled=True, size=34, opacity=1).encode(y=y),
    ).properties(width=width, height=170 if pixels == PIXELS["wide"] else 130)
    if len(panels) == 1:
        return _finished(layers.properties(data=frame))
    header = alt.Header(
        title=None,
        labelFontSize=12,
        labelFontWeight=600,
        labelAnchor="start",
        labelColor=TEXT,
        labelLimit=width,
    )
    facet = alt.Facet("label:N", sort=panels, header=header)
    faceted = layers.facet(facet=facet, columns=columns, spacing=_GAP_PIXELS, data=frame)
    # Panels are unlike each other, so each has a scale of its own; all of them start at zero.
    return _finished(faceted.resolve_scale(y="independent").resolve_axis(x="independent", y="independent"))


def _bars(frame: pd.DataFrame, pixels: int) -> dict[str, Any]:
    """Bars with name and figure above them: names are long, and a phone has no room beside a bar."""
    many = frame["series"].nunique() > 1
    frame = frame.assign(
        place=range(len(frame)), name=frame["label"] + (" · " + frame["series"] if many else "")
    )
    y = alt.Y("place:O", title=None, axis=None)
    base = alt.Chart(frame)
    x = alt.X("value:Q", title=None, axis=None, scale=alt.Scale(zero=True, nice=False))
    colour = _colour(frame, pixels) if many else alt.value(PALETTE[0])
    above: dict[str, Any] = {"baseline": "bottom", "dy": -10, "fontSize": 12, "color": TEXT}
    layers = alt.layer(
        base.mark_bar(height=12, cornerRadiusEnd=2).encode(x=x, y=y, color=colour),
        base.transform_filter("isValid(datum.low)")
        .mark_rule(color=TEXT, strokeWidth=1.5)
        .encode(x="low:Q", x2="high:Q", y=y),
        base.mark_text(align="left", limit=pixels - 120, **above).encode(x=alt.value(0), y=y, text="name:N"),
        base.mark_text(align="right", fontWeight=600, **above).encode(
            x=alt.value(pixels - 12), y=y, text="text:N"
        ),
    )
    return _finished(layers.properties(width=pixels - 12, height=alt.Step(40)))


def _colour(frame: pd.DataFrame, pixels: int) -> alt.Color:
    devices = list(dict.fromkeys(frame["series"]))
    legend = None
    if len(devices) > 1:
        legend = alt.Legend(title=None, orient="top", columns=3 if pixels == PIXELS["wide"] else 1)
    return alt.Color(
        "series:N", scale=alt.Scale(domain=devices, range=list(PALETTE[: len(devices)])), legend=legend
    )


def _finished(chart: alt.LayerChart | alt.FacetChart) -> dict[str, Any]:
    axis = alt.AxisConfig(
        gridColor=GRID,
        domainColor=AXIS,
        tickColor=AXIS,
        labelColor=MUTED,
        titleColor=MUTED,
        labelFontSize=11,
        titleFontSize=11,
        titleFontWeight="normal",
        titlePadding=8,
        tickSize=4,
    )
    configured = chart.configure(
        background="transparent",
        font="sans-serif",
        padding=4,
        view=alt.ViewConfig(stroke=None),
        axis=axis,
        axisX=alt.AxisConfig(grid=False),
        axisY=alt.AxisConfig(domain=False, ticks=False, tickCount=5),
        legend=alt.LegendConfig(
            labelColor=TEXT, labelFontSize=12, symbolType="circle", labelLimit=260, offset=14
        ),
    )
    # Inline data only: an address that cannot be reached would give an empty chart without a word.
    with alt.data_transformers.enable("default", max_rows=None):
        spec: dict[str, Any] = configured.to_dict()
    return spec


def _bounds(value: float, interval: tuple[float, float] | None) -> dict[str, float | None]:
    low, high = interval or (None, None)
    return {"value": value, "low": low, "high": high}


def _device(title: str) -> str:
    return shorten(title, _LONGEST_LABEL)


def _caption(metric: Metric, rows: Sequence[dict[str, Any]], over: str, left_out: int) -> str:
    unit = unit_text(metric.unit)
    intervals = (
        " Thin lines are 95 % intervals of the mean." if any(row["low"] is not None for row in rows) else ""
    )
    rest = f" {left_out} more figures are in the table only: the chart would be too full." if left_out else ""
    return f"{metric.title}{f' in {unit}' if unit else ''}{over}, medians.{intervals}{rest}"


def _parameter_title(name: str, manifest: SuiteManifest) -> str:
    parameter = manifest.parameters.get(name)
    title = name.replace("_", " ")
    return f"{title} ({parameter.unit})" if parameter and parameter.unit else title
