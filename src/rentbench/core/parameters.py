"""Parameters of suites: what a case may consist of, and which values are allowed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from rentbench.core.documents import MAX_INTEGER
from rentbench.core.errors import UsageError
from rentbench.core.problems import listing, show

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Parameter", "ParameterKind", "Scalar", "parse_value", "read_parameter"]

Scalar: TypeAlias = str | int | float | bool | None
ParameterKind = Literal["case", "setting"]
ParameterType = Literal["integer", "number", "string", "boolean"]

# By exact type: Python's bool is an int, a document's is not.
_TYPES: dict[str, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "boolean": (bool,),
}


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """Something that a case consists of (`case`), or that a run can set for all its cases (`setting`).

    Attributes:
        apart: Cases that differ in it are different measurements, and are never compared with each other.
    """

    name: str
    kind: ParameterKind
    type: ParameterType
    description: str
    unit: str | None = None
    choices: tuple[Scalar, ...] | None = None
    minimum: float | None = None
    maximum: float | None = None
    max_length: int | None = None
    apart: bool = False

    def fits(self, value: Scalar) -> bool:
        """Say whether the parameter may have a value."""
        if type(value) not in _TYPES[self.type]:
            return False
        if self.choices is not None and value not in self.choices:
            return False
        if isinstance(value, str):
            return self.max_length is None or len(value) <= self.max_length
        if isinstance(value, float) and not math.isfinite(value):
            return False
        if isinstance(value, int | float):
            return abs(value) <= MAX_INTEGER and self._low() <= value <= self._high()
        return True

    @property
    def allowed(self) -> str:
        """What the parameter may be, for messages."""
        if self.choices is not None:
            return listing((show(choice) for choice in self.choices), limit=40)
        if self.type == "boolean":
            return "true, false"
        parts: list[str] = [self.type]
        if self.minimum is not None:
            parts.append(f"from {self.minimum}")
        if self.maximum is not None:
            parts.append(f"to {self.maximum}")
        if self.max_length is not None:
            parts.append(f"of at most {self.max_length} characters")
        return " ".join(parts)

    def _low(self) -> float:
        return -math.inf if self.minimum is None else self.minimum

    def _high(self) -> float:
        return math.inf if self.maximum is None else self.maximum


def read_parameter(name: str, content: Mapping[str, Any]) -> Parameter:
    """Return a parameter from its table in a manifest that fits the schema."""
    choices = content.get("choices")
    return Parameter(**{**content, "name": name, "choices": None if choices is None else tuple(choices)})


def parse_value(parameter: Parameter, text: str) -> Scalar:
    """Return the value that a command line's text means for a parameter.

    Raises:
        UsageError: It is of another type, or outside what the manifest allows.
    """
    readers: dict[str, Callable[[str], Scalar]] = {
        "integer": int,
        "number": float,
        "string": str,
        "boolean": {"true": True, "false": False}.__getitem__,
    }
    try:
        value = readers[parameter.type](text)
    except (ValueError, KeyError):
        value = None
    if not parameter.fits(value):
        msg = f"{parameter.name} is {show(text)}"
        raise UsageError(msg, hint=f"allowed: {parameter.allowed}")
    return value
