"""Derived figures by name: each formula with its unit and its text, for the command line and for pages.

A formula registers itself where it is defined:

    @figure(unit="USD", formula="train_seconds × usd_per_hour ÷ 3600")
    def training_cost_usd(*, train_seconds: Number, usd_per_hour: Number) -> Decimal: ...

The text is the formula in the names of the arguments; a test computes it and holds it to the code.
"""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from rentbench.core.errors import UsageError
from rentbench.core.problems import listing, show
from rentbench.pricing.numbers import exact

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from decimal import Decimal

__all__ = ["Figure", "all_figures", "compute", "figure"]

# Where the formulas are defined.
_MODULES = ("bills", "break_even", "costs", "job_costs", "scaling")

_Formula = TypeVar("_Formula", bound="Callable[..., Decimal | None]")


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A derived figure.

    Attributes:
        name: The formula's name.
        unit: The unit of its value; one that depends on an argument says so.
        formula: How it is computed, in the names of its arguments.
        choices: The words that an argument may be; every other argument is a number.
        none_means: What it means when there is no value; empty where there always is one.
        function: The formula; takes keywords only.
    """

    name: str
    unit: str
    formula: str
    choices: Mapping[str, tuple[str, ...]]
    none_means: str
    function: Callable[..., Decimal | None]

    @property
    def summary(self) -> str:
        """What it is, in one sentence."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    @property
    def arguments(self) -> tuple[str, ...]:
        """Its arguments in order."""
        return tuple(inspect.signature(self.function).parameters)

    @property
    def required(self) -> tuple[str, ...]:
        """The arguments that have no default."""
        parameters = inspect.signature(self.function).parameters.values()
        return tuple(one.name for one in parameters if one.default is inspect.Parameter.empty)


_FIGURES: dict[str, Figure] = {}


def figure(
    *, unit: str, formula: str, choices: Mapping[str, tuple[str, ...]] | None = None, none_means: str = ""
) -> Callable[[_Formula], _Formula]:
    """Return a decorator that registers a formula under its own name.

    Args:
        unit: The unit of its value.
        formula: The formula in the names of the arguments.
        choices: The words that an argument may be, for those that are no numbers.
        none_means: What it means when the formula answers None; empty where it never does.
    """

    def register(function: _Formula) -> _Formula:
        name = function.__name__
        _FIGURES[name] = Figure(
            name=name,
            unit=unit,
            formula=formula,
            choices=choices or {},
            none_means=none_means,
            function=function,
        )
        return function

    return register


def all_figures() -> Mapping[str, Figure]:
    """Return every figure by name, in the order of the alphabet."""
    for module in _MODULES:
        importlib.import_module(f"rentbench.pricing.{module}")
    return dict(sorted(_FIGURES.items()))


def compute(name: str, arguments: Mapping[str, str]) -> tuple[Figure, Decimal | None]:
    """Return a figure and its value for arguments that come as text.

    Args:
        name: The figure's name.
        arguments: The value of each argument, as written.

    Raises:
        UsageError: There is no such figure or argument, one is missing, or one cannot be used.
    """
    figures = all_figures()
    if name not in figures:
        msg = f"there is no figure {show(name)}"
        raise UsageError(msg, hint=f"figures: {listing(figures, limit=60)}")
    wanted = figures[name]
    hint = f"{name} takes {listing(wanted.arguments)}"
    for key in arguments:
        if key not in wanted.arguments:
            msg = f"{name} has no argument {show(key)}"
            raise UsageError(msg, hint=hint)
    missing = [key for key in wanted.required if key not in arguments]
    if missing:
        msg = f"{name} lacks {listing(missing)}"
        raise UsageError(msg, hint=hint)
    values: dict[str, Any] = {}
    for key, text in arguments.items():
        words = wanted.choices.get(key, ())
        if words and text not in words:
            msg = f"{key} is {show(text)}"
            raise UsageError(msg, hint=f"{key} must be {' or '.join(words)}")
        values[key] = text if words else exact(key, text)
    return wanted, wanted.function(**values)
