"""The command line of a suite: what may be asked, checked before anything is started."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from rentbench.core.errors import UsageError
from rentbench.core.manifests import parse_value
from rentbench.harness.labels import case_label, scalar_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rentbench.core.manifests import SuiteManifest
    from rentbench.core.parameters import ParameterKind

__all__ = ["Request", "build_parser", "build_request"]

PRESETS = ("smoke", "standard", "full")
MAX_REPEATS = 1000
MAX_SEED = 2**53 - 1
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
    _check_range("--repeats", repeats, 1, MAX_REPEATS)
    _check_range("--seed", arguments.seed, 0, MAX_SEED)
    gpus_min = 0 if preset.name == "smoke" else suite.needs.gpus_min
    if arguments.device == "cpu" and gpus_min:
        msg = f"preset {preset.name} of {suite.name} needs a GPU"
        raise UsageError(msg, hint="--preset smoke runs on a CPU")
    if arguments.device == "cuda":
        gpus_min = max(1, gpus_min)
    overrides = _parse_pairs(suite, arguments.set, "--set", "setting")
    return Request(
        suite=suite,
        preset=preset.name,
        cases=_select(suite.cases(preset.name), suite, arguments.case, preset.name),
        settings={**preset.settings, **overrides},
        repeats=repeats,
        seed=arguments.seed,
        device=arguments.device,
        gpus_min=gpus_min,
        results=_results_root(arguments.results),
        json=arguments.json,
        command=command,
    )


def _check_range(option: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        msg = f"{option} is {value}"
        raise UsageError(msg, hint=f"allowed: {low} to {high}")


def _select(
    cases: Sequence[Mapping[str, Any]], suite: SuiteManifest, filters: Iterable[str], preset: str
) -> list[Mapping[str, Any]]:
    """Return the cases that fit any of the filters, in their order; all where there is no filter."""
    wanted = [_parse_pairs(suite, text.split(","), "--case", "case") for text in filters]
    if not wanted:
        return list(cases)
    for pairs in wanted:
        if not any(pairs.items() <= case.items() for case in cases):
            values = {
                name: sorted({scalar_text(case[name]) for case in cases if name in case}) for name in pairs
            }
            there = "; ".join(f"{name}: {', '.join(found) or 'not used'}" for name, found in values.items())
            msg = f"preset {preset} of {suite.name} has no case with {case_label(pairs)}"
            raise UsageError(msg, hint=f"its cases have {there}; --list-cases shows them all")
    return [case for case in cases if any(pairs.items() <= case.items() for pairs in wanted)]


def _parse_pairs(
    suite: SuiteManifest, texts: Iterable[str], option: str, kind: ParameterKind
) -> dict[str, Any]:
    declared = {name: parameter for name, parameter in suite.parameters.items() if parameter.kind == kind}
    pairs: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            msg = f"{option} takes NAME=VALUE, not {text!r}"
            raise UsageError(msg, hint=f"names: {', '.join(declared) or 'none'}")
        if name not in declared:
            msg = f"{suite.name} has no {kind} parameter {name!r}"
            raise UsageError(msg, hint=f"{kind} parameters: {', '.join(declared) or 'none'}")
        if name in pairs:
            msg = f"{option} names {name} twice"
            raise UsageError(msg, hint="give it one value; a second --case selects further cases")
        pairs[name] = parse_value(declared[name], value)
    return pairs


def _results_root(option: Path | None) -> Path:
    if option is not None:
        return option
    if os.environ.get("RENTBENCH_RESULTS"):
        return Path(os.environ["RENTBENCH_RESULTS"])
    return Path("/results") if Path("/results").is_dir() else Path("results")
