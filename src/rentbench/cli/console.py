"""What the commands print with: one pair of consoles, and text from others made harmless first."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rentbench.core.problems import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rentbench.core.errors import RentbenchError

__all__ = ["console", "print_error", "print_json", "print_line", "print_table"]


def console(*, error: bool = False) -> Console:
    """Return a console on standard output, or on standard error: for progress, warnings and errors."""
    return Console(stderr=error, highlight=False)


def print_line(text: str, *, style: str = "", error: bool = False) -> None:
    """Print one line as it is, however long: no markup, no wrapping.

    Args:
        text: What to print; it may come from others.
        style: A style of rich for the whole line.
        error: Print to standard error.
    """
    console(error=error).print(Text(printable(text), style=style), soft_wrap=True)


def print_error(error: RentbenchError) -> None:
    """Print to standard error what happened and what to do about it."""
    print_line(f"error: {error.message}", style="bold red", error=True)
    if error.hint:
        print_line(f"hint: {error.hint}", error=True)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = ()) -> None:
    """Print a table to standard output.

    Args:
        columns: The headings.
        rows: The cells of each row.
        right: Headings of the columns that are aligned to the right.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    output = console()
    if not output.is_terminal:
        output.width = 200  # in a pipe or a file no width is given; do not fold at eighty
    output.print(table)


def print_json(data: object) -> None:
    """Print data as JSON to standard output, for programs."""
    json.dump(data, sys.stdout, indent=1, allow_nan=False)
    sys.stdout.write("\n")
