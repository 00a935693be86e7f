"""`rentbench list`: which suites there are, and which cases they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rentbench.cli.console import print_json, print_table
from rentbench.core.errors import UsageError
from rentbench.core.manifests import SuiteManifest, load_suites
from rentbench.core.problems import listing, show

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="list")(list_suites)


def list_suites(
    cases: Annotated[
        str | None, typer.Option(metavar="SUITE", help="List the cases of one suite, preset by preset.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the suites, or the cases of one."""
    suites = load_suites()
    if cases is None:
        _list_all(suites, as_json=as_json)
    elif cases in suites:
        _list_cases(suites[cases], as_json=as_json)
    else:
        msg = f"there is no suite {show(cases)}"
        raise UsageError(msg, hint=f"suites: {listing(suites, limit=40) or 'none'}")


def _list_all(suites: Mapping[str, SuiteManifest], *, as_json: bool) -> None:
    if as_json:
        print_json([_summary(suite) for suite in suites.values()])
        return
    print_table(
        ("suite", "version", "GPUs", "cases (smoke, standard, full)", "what it measures"),
        (
            (
                suite.name,
                suite.version,
                str(suite.needs.gpus_min),
                ", ".join(str(len(suite.cases(preset))) for preset in suite.presets),
                suite.title,
            )
            for suite in suites.values()
        ),
        right=("GPUs",),
    )


def _list_cases(suite: SuiteManifest, *, as_json: bool) -> None:
    if as_json:
        print_json({preset: suite.cases(preset) for preset in suite.presets})
        return
    print_table(
        ("preset", "case"),
        (
            (preset, ",".join(f"{name}={_text(value)}" for name, value in case.items()))
            for preset in suite.presets
            for case in suite.cases(preset)
        ),
    )


def _text(value: object) -> str:
    """Return a value as `--case` takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _summary(suite: SuiteManifest) -> dict[str, Any]:
    return {
        "name": suite.name,
        "version": suite.version,
        "title": suite.title,
        "category": suite.category,
        "summary": suite.summary,
        "gpus_min": suite.needs.gpus_min,
        "metrics": {
            metric.name: {"title": metric.title, "unit": metric.unit, "direction": metric.direction}
            for metric in suite.metrics.values()
        },
        "presets": {
            preset.name: {
                "description": preset.description,
                "repeats": preset.repeats,
                "cases": len(suite.cases(preset.name)),
            }
            for preset in suite.presets.values()
        },
    }
