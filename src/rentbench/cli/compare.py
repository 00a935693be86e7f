"""`rentbench compare`: do two results say the same, metric by metric?"""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rentbench.cli.console import print_json, print_line, print_table
from rentbench.core.selection import case_label

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["register"]

# Beside the codes of errors: 1 an invalid document, 2 an unusable one or a wrong command line.
_EXIT_CODES = {"reproduced": 0, "differs": 6, "inconclusive": 7, "not comparable": 8}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="compare")(compare)


def compare(
    original: Annotated[
        Path,
        typer.Argument(metavar="A", help="A result's folder, or its measurement.json.", readable=False),
    ],
    repetition: Annotated[
        Path, typer.Argument(metavar="B", help="The result to hold against it.", readable=False)
    ],
    margin: Annotated[
        float, typer.Option(metavar="PERCENT", min=0.1, max=100, help="How much still counts as the same.")
    ] = 10.0,
    write: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a reproduction document; no file is overwritten."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the reproduction document.")] = False,
) -> None:
    """Compare two results of one suite: effect, 95 % interval, and whether they are shown to be the same.

    Reproduced: two one-sided tests show each ratio to be within the margin. Differs: a difference is shown,
    corrected for the number of metrics, and it is outside the margin.

    Exit codes: 0 reproduced, 6 differs, 7 inconclusive, 8 not comparable, 1 a document is invalid, 2 one
    cannot be read, 3 FILE cannot be written.
    """
    from rentbench.core.documents import write_document
    from rentbench.core.reproduction import read_measured, reproduction

    document = reproduction(read_measured(original), read_measured(repetition), margin_percent=margin)
    if write is not None:
        write_document(write, document)
    if as_json:
        print_json(document)
    else:
        _print(document)
    raise typer.Exit(_EXIT_CODES[document["verdict"]])


def _print(document: Mapping[str, Any]) -> None:
    if document["figures"]:
        print_table(
            ("case", "metric", "unit", "effect", "95 % interval", "p same", "p unlike", "finding"),
            (_cells(figure) for figure in document["figures"]),
            right=("effect", "95 % interval", "p same", "p unlike"),
        )
    for one in document["left_out"]:
        print_line(f"left out: {case_label(one['parameters'])} {one['metric']}: {one['reason']}")
    for remark in document["remarks"]:
        print_line(f"unlike: {remark}")
    for reason in document["reasons"]:
        print_line(f"not comparable: {reason}")
    print_line(f"{document['verdict']} (margin {document['margin_percent']:g} %)", style="bold")


def _cells(figure: Mapping[str, Any]) -> tuple[str, ...]:
    interval = figure["ci95_percent"]
    finding = figure["finding"]
    return (
        case_label(figure["parameters"]),
        figure["metric"],
        figure["unit"],
        _signed(figure["effect_percent"]),
        "" if interval is None else f"{_signed(interval[0])} to {_signed(interval[1])}",
        _probability(figure["p_equivalence"]),
        _probability(figure["p_difference"]),
        finding if figure["reason"] is None else f"{finding}: {figure['reason']}",
    )


def _signed(percent: float | None) -> str:
    return "" if percent is None else f"{percent:+.2f} %"


def _probability(p: float | None) -> str:
    return "" if p is None else f"{p:.3g}"
