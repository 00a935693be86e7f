"""Where the program starts: Ctrl-C while it still loads its modules ends it without a traceback."""

from __future__ import annotations

import sys

__all__ = ["main"]

_INTERRUPTED = 130  # a shell's code for an end by SIGINT


def main() -> None:
    """Load the command line, run it and exit."""
    try:
        from rentbench.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
