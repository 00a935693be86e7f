"""`python -m rentbench.harness SUITE`: run one benchmark suite here, and leave one result."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from rentbench.core.errors import RentbenchError, UsageError
from rentbench.core.manifests import load_suites
from rentbench.core.selection import case_label, scalar_text
from rentbench.harness.arguments import build_parser, build_request
from rentbench.harness.init import run_as_init
from rentbench.harness.supervisor import run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rentbench.core.manifests import SuiteManifest

__all__ = ["main"]


def main(command: list[str] | None = None) -> int:
    """Do what the command line asks for, and return the exit code."""
    command = sys.argv[1:] if command is None else command
    try:
        return _main(command)
    except RentbenchError as error:
        sys.stderr.write(f"error: {error.message}\n")
        if error.hint:
            sys.stderr.write(f"hint: {error.hint}\n")
        return error.exit_code


def _main(command: list[str]) -> int:
    parser = build_parser()
    arguments = parser.parse_args(command)
    suites = load_suites()
    suite = _find(suites, arguments.suite) if arguments.suite is not None else None
    if arguments.help:
        _print(parser.format_help(), *(_offer(suite) if suite else _listing(suites)))
    elif arguments.version:
        _print(*(f"{one.name} {one.version}" for one in ([suite] if suite else suites.values())))
    elif suite is None:
        _print(*_listing(suites))
    else:
        request = build_request(arguments, suite, command)
        if not arguments.list_cases:
            return run(request, out=sys.stdout, err=sys.stderr)
        _print(*(case_label(case) for case in request.cases))
    return 0


def _find(suites: Mapping[str, SuiteManifest], name: str) -> SuiteManifest:
    if name not in suites:
        msg = f"there is no suite {name!r} here"
        raise UsageError(msg, hint=f"suites: {', '.join(suites) or 'none'}")
    return suites[name]


def _listing(suites: Mapping[str, SuiteManifest]) -> Iterator[str]:
    yield "suites:"
    for suite in suites.values():
        yield f"  {suite.name:<20} {suite.title}"


def _offer(suite: SuiteManifest) -> Iterator[str]:
    yield f"{suite.name} {suite.version}: {suite.title}\n{suite.summary}\n\npresets:"
    for preset in suite.presets.values():
        yield f"  {preset.name:<10} {preset.description} ({len(suite.cases(preset.name))} cases)"
    for kind, option in (("case", "--case"), ("setting", "--set")):
        declared = [parameter for parameter in suite.parameters.values() if parameter.kind == kind]
        if declared:
            yield f"\n{option}:"
        for parameter in declared:
            yield f"  {parameter.name:<20} {parameter.description} ({parameter.allowed})"
    yield "\nsettings of the presets:"
    for preset in suite.presets.values():
        settings = ", ".join(f"{name}={scalar_text(value)}" for name, value in preset.settings.items())
        yield f"  {preset.name:<10} {settings or 'none'}"


def _print(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    # A container's first process gets no default signal actions and inherits every orphan.
    sys.exit(run_as_init(main) if os.getpid() == 1 else main())
