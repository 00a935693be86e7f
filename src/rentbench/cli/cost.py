"""`rentbench cost`: derived figures by name, with unit and formula."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rentbench.cli.console import print_json, print_line, print_table
from rentbench.core.errors import UsageError
from rentbench.core.problems import show

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="cost")(cost)


def cost(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The figure; without it, all are listed.")
    ] = None,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE...", help="What the formula needs.")
    ] = None,
    decimals: Annotated[
        int | None,
        typer.Option(min=0, max=12, help="Round to so many decimals; without it, the figure is not rounded."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compute what work costs: `rentbench cost usd_per_million_tokens tokens_per_second=… usd_per_hour=…`."""
    from rentbench.pricing.figures import compute
    from rentbench.pricing.numbers import rounded

    if name is None:
        _list(as_json=as_json)
        return
    figure, value = compute(name, _pairs(arguments or ()))
    if value is not None and decimals is not None:
        value = rounded(value, decimals)
    if as_json:
        answer: dict[str, object] = {
            "value": None if value is None else float(value),
            "unit": figure.unit,
            "formula": figure.formula,
        }
        print_json(answer | ({"note": figure.none_means} if value is None else {}))
    elif value is None:
        print_line(f"no value: {figure.none_means}")
        print_line(f"= {figure.formula}")
    else:
        shown = f"{value:f}" if decimals is not None else f"{float(value):,.6g}"
        print_line(f"{shown} {figure.unit}")
        print_line(f"= {figure.formula}")


def _pairs(arguments: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals:
            msg = f"{show(argument)} is no KEY=VALUE"
            raise UsageError(msg, hint="for example: usd_per_hour=0.66")
        if key in pairs:
            msg = f"{show(key)} is given twice"
            raise UsageError(msg)
        pairs[key] = value
    return pairs


def _list(*, as_json: bool) -> None:
    from rentbench.pricing.figures import all_figures

    figures = all_figures()
    if as_json:
        print_json(
            {
                name: {
                    "summary": figure.summary,
                    "unit": figure.unit,
                    "formula": figure.formula,
                    "arguments": list(figure.arguments),
                    "required": list(figure.required),
                }
                for name, figure in figures.items()
            }
        )
        return
    print_table(
        ("figure", "unit", "formula"),
        ((name, figure.unit, figure.formula) for name, figure in figures.items()),
    )
