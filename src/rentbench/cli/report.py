"""`rentbench report`: the site, built and served."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rentbench.cli.console import print_line
from rentbench.core.errors import DependencyMissingError, UsageError

if TYPE_CHECKING:
    from types import ModuleType

    from rentbench.report.build import Built

__all__ = ["register"]

_DEFAULT_RESULTS = Path("results")

_Results = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Folder of results; results in this folder by default.")
]
_Output = Annotated[
    Path, typer.Option(metavar="DIR", help="The site's folder; an older site there is replaced.")
]
_Strict = Annotated[
    bool, typer.Option("--strict", help="Fail when a file has to be left out, or anything is amiss.")
]
_Now = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="What the site names as its own time, 2026-11-30T22:05:00Z; makes builds equal."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command group."""
    group = typer.Typer(help="Build the site from results, or look at it.", no_args_is_help=True)
    group.command(name="build")(build)
    group.command(name="serve")(serve)
    app.add_typer(group, name="report")


def build(
    results: _Results = None, output: _Output = Path("site"), strict: _Strict = False, now: _Now = None
) -> None:
    """Build the site: static files, for any file server or none."""
    print_line(f"site: {_build(results, output, strict=strict, now=now).output / 'index.html'}")


def serve(
    results: _Results = None,
    output: _Output = Path("site"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to listen; 0 takes a free port.")] = 8000,
    strict: _Strict = False,
    now: _Now = None,
) -> None:
    """Build the site, and serve it to this machine until Ctrl-C."""
    built = _build(results, output, strict=strict, now=now)
    from rentbench.report.serve import make_server

    with make_server(built.output, port) as server:
        print_line(f"serving http://127.0.0.1:{server.server_port}/  (Ctrl-C ends it)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print_line("stopped", error=True)


def _build(results: Path | None, output: Path, *, strict: bool, now: str | None) -> Built:
    if results is not None and not results.is_dir():
        msg = f"{results} is no folder"
        raise UsageError(msg, hint="--results names the folder that holds <suite>/<gpu>/<time>-<id>/")
    built: Built = _builder().build(results or _DEFAULT_RESULTS, output, strict=strict, now=now)
    for item in built.rejected:
        print_line(f"left out: {item.path}: {item.reason}", style="yellow", error=True)
    for warning in built.warnings:
        print_line(f"warning: {warning}", style="yellow", error=True)
    if not built.results:
        print_line(
            f"no results in {results or _DEFAULT_RESULTS}: the site says so", style="yellow", error=True
        )
    return built


def _builder() -> ModuleType:
    try:
        from rentbench.report import build as builder
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("rentbench"):
            raise
        msg = f"building the site needs the package {error.name}"
        raise DependencyMissingError(msg, hint="pip install 'rentbench[report]'") from error
    return builder
