"""The command line: finds the command groups beside it, and turns errors into messages and exit codes."""

from __future__ import annotations

import importlib
import io
import pkgutil
import sys
from importlib.metadata import version
from typing import Annotated

import typer

import rentbench.cli
from rentbench.cli.console import print_error, print_json, print_line
from rentbench.core.errors import ExitCode, RentbenchError

__all__ = ["create_app", "main"]

# A shell's codes for an end by SIGINT and by SIGPIPE.
_INTERRUPTED = 130
_PIPE_CLOSED = 141


def create_app() -> typer.Typer:
    """Return the command line with every group of `rentbench.cli` that registers itself.

    A group imports what is heavy inside its commands, so that `--help` is quick and works without the extras.
    """
    app = typer.Typer(
        name="rentbench",
        help="GPU benchmarks in containers, with spread, digest and dated price, and a site made from them.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,  # its tracebacks show local variables, tokens among them
    )
    app.callback()(_global_options)
    for module in sorted(pkgutil.iter_modules(rentbench.cli.__path__), key=lambda module: module.name):
        register = getattr(importlib.import_module(f"rentbench.cli.{module.name}"), "register", None)
        if register is not None:
            register(app)
    return app


def main() -> None:
    """Run the command line and exit: with the command's own code, or with that of the error's class."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # None where it is closed
            stream.reconfigure(errors="backslashreplace")  # a file's name may not fit the terminal's encoding
    try:
        create_app()()
    except RentbenchError as error:
        if "--json" in sys.argv:  # what reads JSON gets JSON
            print_json({"error": {"message": error.message, "hint": error.hint}})
        print_error(error)
        sys.exit(int(error.exit_code))
    except KeyboardInterrupt:
        print_line("interrupted", error=True)
        sys.exit(_INTERRUPTED)
    except BrokenPipeError:
        # The reader went away, as `head` does; nothing more can be written, not even at the end.
        sys.stderr.close()
        sys.exit(_PIPE_CLOSED)
    except OSError as error:
        print_error(RentbenchError(str(error)))
        sys.exit(int(ExitCode.FAILED))


def _print_version(wanted: bool) -> None:
    if wanted:
        print_line(version("rentbench"))
        raise typer.Exit


def _global_options(
    show_version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_print_version),
    ] = False,
) -> None:
    """Options before the command; each acts in its own callback."""
