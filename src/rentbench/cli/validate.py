"""`rentbench validate` and `rentbench upgrade`: are these documents right, and of the present version?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rentbench.cli.console import print_json, print_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rentbench.core.validation import Report

__all__ = ["register"]

_INVALID = 1
_UNUSABLE = 2


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(name="validate")(validate)
    app.command(name="upgrade")(upgrade)


def validate(
    paths: Annotated[
        list[Path],
        # Whether it can be read is found later: one that cannot must not hide the others.
        typer.Argument(
            metavar="PATH...", help="Documents, folders to search, or - for standard input.", readable=False
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check measurements, runs and manifests: schema, rules, hashes, paths.

    Exit codes: 0 all valid, 1 one is invalid, 2 one cannot be read at all.
    """
    reports: list[dict[str, Any]] = []
    counts: dict[str, int] = {"valid": 0, "invalid": 0, "unusable": 0}
    for report in _reports(paths):
        outcome = "unusable" if report.unusable else "valid" if report.valid else "invalid"
        counts[outcome] += 1
        if as_json:
            reports.append(_as_data(report, outcome))
        else:
            _print(report)
    total = sum(counts.values())
    if as_json:
        print_json({"documents": reports, "summary": {"documents": total} | counts})
    else:
        shown = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
        print_line(f"{total} document{'' if total == 1 else 's'}: {shown}")
    raise typer.Exit(_UNUSABLE if counts["unusable"] else _INVALID if counts["invalid"] else 0)


def upgrade(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...", help="Documents of an older format, or folders of them.", readable=False
        ),
    ],
    output: Annotated[
        Path, typer.Option(metavar="DIR", help="Where the new documents go; nothing there is overwritten.")
    ] = Path("upgraded"),
) -> None:
    """Write documents of older versions of the format anew in the present one. The old ones stay."""
    from rentbench.core.upgrade_files import upgrade_path

    outcomes = [outcome for path in paths for outcome in upgrade_path(path, output)]
    for outcome in outcomes:
        if outcome.target is not None:
            print_line(f"{outcome.source} → {outcome.target}")
    upgraded = sum(outcome.target is not None for outcome in outcomes)
    print_line(f"{upgraded} written to {output}, {len(outcomes) - upgraded} of the present version already")


def _reports(paths: Sequence[Path]) -> Iterator[Report]:
    from rentbench.core.files import MAX_BYTES
    from rentbench.core.scan import validate_paths
    from rentbench.core.validation import check_bytes

    if Path("-") in paths:
        # One byte more than is allowed, so that the reader can say that it is too much. Closed is empty.
        content = sys.stdin.buffer.read(MAX_BYTES + 1) if sys.stdin else b""
        yield check_bytes(content, source="standard input")
    yield from validate_paths(path for path in paths if path != Path("-"))


def _print(report: Report) -> None:
    if report.unusable:
        print_line(f"error: {report.unusable}", style="red")
    for problem in report.problems:
        print_line(f"{report.source}: {problem}", style="red")


def _as_data(report: Report, outcome: str) -> dict[str, Any]:
    return {
        "source": report.source,
        "kind": report.kind,
        "outcome": outcome,
        "unusable": report.unusable,
        "problems": [
            {"pointer": problem.pointer, "message": problem.message, "allowed": problem.allowed}
            for problem in report.problems
        ],
    }
