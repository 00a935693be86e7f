"""From Vega-Lite specifications to SVG that stands in a page; drawn once, then taken from a cache."""

from __future__ import annotations

import hashlib
import html
import json
import os
import re
import tempfile
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import platformdirs
import vl_convert

from rentbench.core.errors import RentbenchError
from rentbench.report.text import clean

if TYPE_CHECKING:
    from pathlib import Path

    from rentbench.report.charts import Chart

__all__ = ["ChartCache", "chart_svgs"]

# Raised when other drawings come of the same specification and versions, as by another call of the engine.
_FORM = 1
_DATA_MARK = re.compile(r'aria-roledescription="(?:bar|point)"')
_ROOT = re.compile(r'^<svg [^>]*?width="([0-9.]+)" height="([0-9.]+)" viewBox="([^"]+)"[^>]*>')
_TAG = re.compile(r"<[^>]*>")
# With role="img" the parts of a drawing say nothing to a screen reader, and the page has a font of its own.
_NEEDLESS = re.compile(r' (?:aria-[a-z]+|role|font-family)="[^"]*"')


class ChartCache:
    """SVG by the hash of what it was drawn from; one file a drawing, in the user's cache folder.

    Args:
        folder: Where to keep them; the user's cache folder by default. One that cannot be written is done
        without.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or platformdirs.user_cache_path("rentbench") / "charts"
        self._versions = [version("altair"), version("vl-convert-python"), _FORM]

    def svg(self, spec: dict[str, Any]) -> str:
        """Return the drawing of a specification, as the chart engine makes it."""
        content = json.dumps([spec, self._versions], sort_keys=True, ensure_ascii=True)
        path = self._folder / f"{hashlib.sha256(content.encode()).hexdigest()}.svg"
        try:
            cached = path.read_text(encoding="utf-8")
        except OSError:
            cached = ""
        if cached.endswith("</svg>"):
            return cached
        drawn: str = vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])
        self._keep(path, drawn)
        return drawn

    def _keep(self, path: Path, drawn: str) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
                file.write(drawn)
            os.replace(file.name, path)  # noqa: PTH105 - atomic, and readers see the old or the new file
        except OSError:
            return


def chart_svgs(chart: Chart, cache: ChartCache) -> dict[str, str]:
    """Return a chart's drawings by width, fit for a page: labelled, scalable, identifiers of their own.

    Raises:
        RentbenchError: A drawing lacks marks: the engine could not read the data, and would show an empty
        chart.
    """
    return {width: _page_ready(cache.svg(spec), chart) for width, spec in chart.specs.items()}


def _page_ready(svg: str, chart: Chart) -> str:
    found = len(_DATA_MARK.findall(svg))
    if found != chart.marks:
        msg = f"a chart came out with {found} marks instead of {chart.marks}: {chart.label}"
        raise RentbenchError(msg, hint="the versions of altair and vl-convert may not fit each other")
    root = _ROOT.match(svg)
    if root is None:
        msg = f"the chart engine gave no SVG for: {chart.label}"
        raise RentbenchError(msg)
    width, height, box = root.groups()
    prefix = hashlib.sha256(svg.encode()).hexdigest()[:10]
    inner = _TAG.sub(lambda match: _tag(match[0], prefix), svg[root.end() :])
    label = html.escape(clean(chart.label), quote=True)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{label}" '
        f'width="{width}" height="{height}" viewBox="{box}">{inner}'
    )


def _tag(tag: str, prefix: str) -> str:
    """Return a tag without what a page does not need, its identifier made different from other drawings'."""
    return _NEEDLESS.sub("", tag).replace(' id="', f' id="{prefix}-').replace("url(#", f"url(#{prefix}-")
