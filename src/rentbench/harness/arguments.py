"""The command line of a suite: what may be asked, checked before anything is started."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from rentbench.core.errors import UsageError
from rentbench.core.selection import PRESETS, check_counts, parse_pairs, select_cases

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rentbench.core.manifests import SuiteManifest

__all__ = ["Request", "build_parser", "build_request"]

_EPILOG = """\
environment:
  RENTBENCH_RESULTS   results folder, where --results is not given
  RENTBENCH_PROGRESS  json: progress on standard error as one JSON object a line

exit codes:
  0 ok   2 wrong usage   3 failed or invalid   4 partial   5 skipped: nothing could run here
"""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A checked command line.

    Attributes:
        cases: Those of the preset that were asked for, at least one.
        settings: The preset's after overrides.
        gpus_min: GPUs that this run needs; 0 where a CPU does.
        device: "auto", "cpu" or "cuda".
        results: Root of the results.
        command: The command line as it was given.
    """

    suite: SuiteManifest
    preset: str
    cases: Sequence[Mapping[str, Any]]
    settings: Mapping[str, Any]
    repeats: int
    seed: int
    device: str
    gpus_min: int
    results: Path
    json: bool
    command: Sequence[str]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=self.format_usage().strip())


def build_parser() -> argparse.ArgumentParser:
    """Return the parser; its errors are `UsageError`."""
    parser = _Parser(
        prog="rentbench.harness",
        description="Run one benchmark suite here and leave one result. Without SUITE: list the suites.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
        allow_abbrev=False,
    )
    parser.add_argument("suite", nargs="?", metavar="SUITE", help="name of the suite")
    parser.add_argument("--preset", choices=PRESETS, help="amount of work (default: standard)")
    parser.add_argument(
        "--case",
        action="append",
        default=[],
        metavar="K=V[,K=V…]",
        help="only the preset's cases with these values; may be repeated",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="K=V",
        help="another value for a setting; may be repeated",
    )
    parser.add_argument(
        "--repeats", type=int, metavar="N", help="independent repeats (default: as the preset)"
    )
    parser.add_argument(
        "--seed", type=int, default=42, metavar="N", help="of all random numbers (default: 42)"
    )
    parser.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="auto", help="what to measure on (default: auto)"
    )
    parser.add_argument("--results", type=Path, metavar="DIR", help="where results go")
    parser.add_argument("--list-cases", action="store_true", help="print the cases, one a line, and end")
    parser.add_argument("--json", action="store_true", help="print the document instead of the table")
    parser.add_argument("--version", action="store_true", help="print the suite's version and end")
    parser.add_argument(
        "--help", "-h", action="store_true", help="print this, and what the suite offers, and end"
    )
    return parser


def build_request(arguments: argparse.Namespace, suite: SuiteManifest, command: Sequence[str]) -> Request:
    """Return what was asked for, checked against the suite's manifest.

    Raises:
        UsageError: Something is not declared, out of range, or leaves no case.
    """
    preset = suite.presets[arguments.preset or "standard"]
    repeats = preset.repeats if arguments.repeats is None else arguments.repeats
    check_counts(repeats=repeats, seed=arguments.seed)
    gpus_min = 0 if preset.name == "smoke" else suite.needs.gpus_min
    if arguments.device == "cpu" and gpus_min:
        msg = f"preset {preset.name} of {suite.name} needs a GPU"
        raise UsageError(msg, hint="--preset smoke runs on a CPU")
    if arguments.device == "cuda":
        gpus_min = max(1, gpus_min)
    overrides = parse_pairs(suite, arguments.set, option="--set", kind="setting")
    return Request(
        suite=suite,
        preset=preset.name,
        cases=select_cases(suite, preset.name, arguments.case),
        settings={**preset.settings, **overrides},
        repeats=repeats,
        seed=arguments.seed,
        device=arguments.device,
        gpus_min=gpus_min,
        results=_results_root(arguments.results),
        json=arguments.json,
        command=command,
    )


def _results_root(option: Path | None) -> Path:
    if option is not None:
        return option
    if os.environ.get("RENTBENCH_RESULTS"):
        return Path(os.environ["RENTBENCH_RESULTS"])
    return Path("/results") if Path("/results").is_dir() else Path("results")
