"""What a manifest's schema cannot say: names agree, parameters are declared and allowed, units are known."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

from rentbench.core.parameters import Parameter, read_parameter
from rentbench.core.problems import Problem, listing, pointer, show
from rentbench.core.units import UNITS, is_known

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = ["manifest_problems", "unit_problem"]

MAX_CASES = 10_000  # as many as a measurement may hold

_BOUNDS = {"minimum": ("integer", "number"), "maximum": ("integer", "number"), "max_length": ("string",)}


def manifest_problems(
    content: Mapping[str, Any], kind: Literal["suite", "image"], *, folder: Path | None = None
) -> list[Problem]:
    """Return what is wrong with a manifest that fits its schema.

    Args:
        content: The manifest.
        kind: Which manifest it is.
        folder: Where it lies; its name must agree with the manifest's. None where it lies nowhere.
    """
    problems = list(_suite_problems(content)) if kind == "suite" else []
    expected = content["name"].replace("-", "_") if kind == "suite" else content["name"]
    if folder is not None and folder.resolve().name != expected:
        problems.append(
            Problem(
                pointer="/name",
                message=f"is {show(content['name'])}, but the folder is {show(folder.resolve().name)}",
                allowed=f"a folder named {show(expected)}",
            )
        )
    return problems


def unit_problem(unit: str, *place: str | int) -> Iterator[Problem]:
    """Yield a problem when documents may not use a unit."""
    if not is_known(unit):
        yield Problem(
            pointer=pointer(*place),
            message=f"is the unknown unit {show(unit)}",
            allowed=listing(UNITS, limit=len(UNITS)),
        )


def _suite_problems(suite: Mapping[str, Any]) -> Iterator[Problem]:
    for name, metric in suite["metrics"].items():
        yield from unit_problem(metric["unit"], "metrics", name, "unit")
    parameters: dict[str, Parameter] = {}
    for name, content in suite["parameters"].items():
        parameters[name] = read_parameter(name, content)
        yield from _parameter_problems(parameters[name], content)
    if "headline" in suite:
        yield from _headline_problems(suite, parameters)
    for name, preset in suite["presets"].items():
        count = sum(math.prod(map(len, grid.values())) for grid in preset["grids"])
        if count > MAX_CASES:
            yield Problem(
                pointer=pointer("presets", name, "grids"),
                message=f"make {count} cases",
                allowed=f"at most {MAX_CASES}",
            )
        for index, grid in enumerate(preset["grids"]):
            for key, values in grid.items():
                place = ("presets", name, "grids", index, key)
                yield from _value_problems(parameters, "case", key, values, *place)
        for key, value in preset["settings"].items():
            yield from _value_problems(parameters, "setting", key, [value], "presets", name, "settings", key)


def _parameter_problems(parameter: Parameter, content: Mapping[str, Any]) -> Iterator[Problem]:
    place = ("parameters", parameter.name)
    if parameter.unit is not None:
        yield from unit_problem(parameter.unit, *place, "unit")
    if parameter.apart and parameter.kind != "case":
        # Runs with different settings are kept apart anyway.
        yield Problem(
            pointer=pointer(*place, "apart"), message="is for case parameters only", allowed="false"
        )
    for bound, types in _BOUNDS.items():
        if bound in content and parameter.type not in types:
            yield Problem(
                pointer=pointer(*place, bound),
                message=f"does not go with the type {parameter.type}",
                allowed=f"{bound} of {' or '.join(types)}",
            )
    if (
        parameter.minimum is not None
        and parameter.maximum is not None
        and parameter.minimum > parameter.maximum
    ):
        yield Problem(
            pointer=pointer(*place, "minimum"), message=f"is above the maximum, {parameter.maximum}"
        )
    for index, choice in enumerate(parameter.choices or ()):
        if not parameter.fits(choice):
            yield Problem(
                pointer=pointer(*place, "choices", index),
                message=f"is {show(choice)}",
                allowed=parameter.type,
            )


def _headline_problems(suite: Mapping[str, Any], parameters: Mapping[str, Parameter]) -> Iterator[Problem]:
    metric = suite["headline"]["metric"]
    if metric not in suite["metrics"]:
        yield Problem(
            pointer="/headline/metric",
            message=f"is {show(metric)}",
            allowed=listing(suite["metrics"], limit=40),
        )
    for key, value in suite["headline"]["case"].items():
        yield from _value_problems(parameters, "case", key, [value], "headline", "case", key)


def _value_problems(
    parameters: Mapping[str, Parameter], kind: str, key: str, values: list[Any], *place: str | int
) -> Iterator[Problem]:
    declared = parameters.get(key)
    if declared is None or declared.kind != kind:
        names = [name for name, parameter in parameters.items() if parameter.kind == kind]
        yield Problem(
            pointer=pointer(*place),
            message=f"is no {kind} parameter of this suite",
            allowed=listing(names, limit=40) or "none",
        )
        return
    for value in values:
        if not declared.fits(value):
            yield Problem(pointer=pointer(*place), message=f"holds {show(value)}", allowed=declared.allowed)
