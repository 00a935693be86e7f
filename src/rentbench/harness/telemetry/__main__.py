"""`python -m rentbench.harness.telemetry --interval 1 --output FILE`: sample until told to end."""

from __future__ import annotations

import argparse
from pathlib import Path

from rentbench.harness.telemetry.sampler import sample

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> None:
    """Sample into a file until told to end."""
    parser = argparse.ArgumentParser(prog="python -m rentbench.harness.telemetry", description=sample.__doc__)
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between two samples")
    parser.add_argument("--output", type=Path, required=True, help="file to write, JSON lines")
    chosen = parser.parse_args(arguments)
    if chosen.interval <= 0:
        parser.error("--interval must be above 0")
    with chosen.output.open("a", encoding="utf-8") as file:
        sample(file, interval_seconds=chosen.interval)


if __name__ == "__main__":
    main()
