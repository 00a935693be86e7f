"""What a user may ask of a suite on a command line: presets, cases, settings, repeats, seed.

The driver checks it before anything is started, the harness again where it runs; both by these rules.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rentbench.core.errors import UsageError
from rentbench.core.manifests import parse_value
from rentbench.core.problems import listing, show

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rentbench.core.manifests import Scalar, SuiteManifest
    from rentbench.core.parameters import ParameterKind

__all__ = [
    "PRESETS",
    "case_label",
    "check_counts",
    "is_suite_name",
    "parse_pairs",
    "scalar_text",
    "select_cases",
]

PRESETS = ("smoke", "standard", "full")
_MAX_REPEATS = 1000
_MAX_SEED = 2**53 - 1  # the largest integer that every reader of the document holds exactly


def is_suite_name(text: str) -> bool:
    """Say whether a text has the form of a suite's name, as `$defs/suite_name` gives it; safe in paths."""
    return re.fullmatch(r"[a-z][a-z0-9]{0,39}(-[a-z0-9]{1,40}){0,5}", text) is not None


def check_counts(*, repeats: int | None, seed: int | None) -> None:
    """Refuse numbers of repeats, and seeds, that a document cannot hold; None is left to the suite.

    Raises:
        UsageError: One is out of range.
    """
    for option, value, low, high in (("--repeats", repeats, 1, _MAX_REPEATS), ("--seed", seed, 0, _MAX_SEED)):
        if value is not None and not low <= value <= high:
            msg = f"{option} is {value}"
            raise UsageError(msg, hint=f"allowed: {low} to {high}")


def parse_pairs(
    suite: SuiteManifest, texts: Iterable[str], *, option: str, kind: ParameterKind
) -> dict[str, Scalar]:
    """Return NAME=VALUE texts as parameters of a suite.

    Args:
        suite: Whose parameters they are.
        texts: One pair each.
        option: The option that they stood behind, for messages.
        kind: Which parameters the option takes.

    Raises:
        UsageError: A text is no pair, names no such parameter, names one twice, or its value is not allowed.
    """
    declared = {name: parameter for name, parameter in suite.parameters.items() if parameter.kind == kind}
    names = listing(declared, limit=40) or "none"
    pairs: dict[str, Scalar] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            msg = f"{option} takes NAME=VALUE, not {show(text)}"
            raise UsageError(msg, hint=f"names: {names}")
        if name not in declared:
            msg = f"{suite.name} has no {kind} parameter {show(name)}"
            raise UsageError(msg, hint=f"{kind} parameters: {names}")
        if name in pairs:
            msg = f"{option} names {name} twice"
            raise UsageError(msg, hint="give it one value; a second --case selects further cases")
        pairs[name] = parse_value(declared[name], value)
    return pairs


def select_cases(suite: SuiteManifest, preset: str, filters: Iterable[str]) -> list[Mapping[str, Scalar]]:
    """Return the cases of a preset that fit any of the filters, in their order; all where there is no filter.

    Args:
        suite: The suite.
        preset: One of its presets.
        filters: What stood behind each `--case`: NAME=VALUE pairs, joined by commas.

    Raises:
        UsageError: A filter is wrong, or fits no case.
    """
    cases = suite.cases(preset)
    wanted = [parse_pairs(suite, text.split(","), option="--case", kind="case") for text in filters]
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


def scalar_text(value: object) -> str:
    """Return a parameter's value as the command line takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def case_label(parameters: Mapping[str, object]) -> str:
    """Return a case as `--case` takes it: `dtype=bf16,size=8192`."""
    return ",".join(f"{name}={scalar_text(value)}" for name, value in parameters.items())
