"""The curated pages: hub, categories, suites, as Markdown with blocks of HTML.

What comes from results stands in HTML blocks only, where Markdown is not read; the text around them is our
own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rentbench.report.readme import method
from rentbench.report.references import reference_table
from rentbench.report.site import CATEGORIES, Site, Suite
from rentbench.report.views import suite_view

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jinja2 import Environment

    from rentbench.report.draw import ChartCache
    from rentbench.report.model import Result
    from rentbench.report.references import Reference, ReferenceTable

__all__ = ["navigation", "pages"]

_NEWEST = 12


def pages(site: Site, templates: Environment, cache: ChartCache) -> dict[str, str]:
    """Return every generated page by its place below the site's root, `suites/gemm.md`.

    Args:
        site: The content.
        templates: See `templating.environment`.
        cache: Draws the charts, or remembers them.
    """
    made = {"index.md": _render(templates, "hub.md.j2", site, **_hub(site))}
    for key, suites in _by_category(site).items():
        title, text = CATEGORIES[key]
        made[f"categories/{key}.md"] = _render(
            templates, "category.md.j2", site, title=title, text=text, suites=suites, root="../"
        )
    if site.references:
        made["published.md"] = _render(
            templates,
            "published.md.j2",
            site,
            references=[_referenced(site, reference) for reference in site.references],
            root="",
        )
    for name, suite in site.suites.items():
        view = suite_view(suite, cache)
        made[f"suites/{name}.md"] = _render(
            templates,
            "suite.md.j2",
            site,
            view=view,
            suite=suite,
            manifest=suite.manifest,
            category=CATEGORIES[suite.manifest.category][0],
            method=method(suite.manifest.folder),
            references=[_referenced(site, reference) for reference in suite.references],
            root="../",
        )
    return made


def navigation(site: Site) -> list[Any]:
    """Return the navigation as `mkdocs.yml` would hold it: short, and without a result in it."""
    benchmarks: list[Any] = ["index.md"]
    for key, suites in _by_category(site).items():
        entries = [{suite.manifest.title: f"suites/{suite.manifest.name}.md"} for suite in suites]
        benchmarks.append({CATEGORIES[key][0]: [f"categories/{key}.md", *entries]})
    return [
        {"Benchmarks": benchmarks},
        *([{"Published elsewhere": "published.md"}] if site.references else []),
        {"Method": "method.md"},
        {"Data": "data.md"},
        {"Contribute": "contribute.md"},
    ]


def _hub(site: Site) -> Mapping[str, Any]:
    results = site.collection.results
    models = {
        model for result in results if result.device and result.measured for model in result.device.models
    }
    return {
        "categories": [(CATEGORIES[key][0], key, suites) for key, suites in _by_category(site).items()],
        "newest": results[:_NEWEST],
        "published": sum(not result.is_demo and result.measured for result in results),
        "only_demo": bool(results) and all(result.is_demo for result in results),
        "gpus": len(models),
        "newest_day": results[0].started if results else None,
        "root": "",
    }


def _by_category(site: Site) -> dict[str, list[Suite]]:
    found: dict[str, list[Suite]] = {}
    for key in CATEGORIES:
        suites = [suite for suite in site.suites.values() if suite.manifest.category == key]
        if suites:
            # Suites with figures first: a reader came for those.
            found[key] = sorted(suites, key=lambda suite: (suite.leading is None, suite.manifest.title))
    return found


def _referenced(site: Site, reference: Reference) -> tuple[Reference, ReferenceTable]:
    suite = site.suites.get(reference.suite or "")
    return reference, reference_table(reference, suite.manifest if suite else None)


def _render(templates: Environment, name: str, site: Site, **context: object) -> str:
    return templates.get_template(name).render(
        site=site, suite_title=lambda result: _title(site, result), **context
    )


def _title(site: Site, result: Result) -> str:
    suite = site.suites.get(result.suite)
    return suite.manifest.title if suite else result.suite
