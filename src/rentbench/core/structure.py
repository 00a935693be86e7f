"""Documents against their schemas: a fast verdict for many, and a clear message for each fault.

jsonschema is the reference and gives the messages. Where jsonschema-rs is installed it answers first, many
times faster; jsonschema looks only at what that refuses. Both are held to one verdict: see `_keywords`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeAlias

from rentbench.core.errors import DependencyMissingError
from rentbench.core.problems import Problem, listing, pointer, show
from rentbench.core.schemas import Kind, schema

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

__all__ = ["MAX_PROBLEMS", "fast_verdict", "schema_problems"]

MAX_PROBLEMS = 100  # of one document; a list of thousands helps nobody

# What long arrays of plain numbers hold, by the name of their items' schema.
_PLAIN_ITEMS: dict[str, Callable[[object], bool]] = {
    "#/$defs/number_or_null": lambda item: type(item) in (int, float, NoneType),
    "#/$defs/seconds": lambda item: (
        isinstance(item, int | float) and not isinstance(item, bool) and item >= 0
    ),
}


def schema_problems(document: Mapping[str, Any], kind: Kind) -> list[Problem]:
    """Return where a document breaks its schema, at most `MAX_PROBLEMS`; empty when it does not.

    Raises:
        DependencyMissingError: jsonschema is not installed.
    """
    if fast_verdict(document, kind):
        return []
    return reference_problems(document, kind)


def fast_verdict(document: Mapping[str, Any], kind: Kind) -> bool | None:
    """Say by jsonschema-rs whether a document fits its schema; None where that cannot say."""
    check = _fast_validator(kind)
    if check is None:
        return None
    try:
        return check(document)
    except ValueError:  # a TOML date, which is no JSON value
        return None


def reference_problems(document: Mapping[str, Any], kind: Kind) -> list[Problem]:
    """Return by jsonschema where a document breaks its schema, at most `MAX_PROBLEMS`.

    Raises:
        DependencyMissingError: jsonschema is not installed.
    """
    problems: list[Problem] = []
    for error in _reference_validator(kind).iter_errors(document):
        for problem in _explain(error):
            if problem not in problems:
                problems.append(problem)
        if len(problems) >= MAX_PROBLEMS:
            break
    return problems[:MAX_PROBLEMS]


def _needed(kind: Kind) -> dict[str, dict[str, Any]]:
    """Return the schemas that a kind is made of, by identifier: the others refer to the measurement's."""
    kinds: list[Kind] = ["measurement"] if kind == "measurement" else ["measurement", kind]
    return {schema(one)["$id"]: schema(one) for one in kinds}


@lru_cache(maxsize=8)
def _fast_validator(kind: Kind) -> Callable[[Mapping[str, Any]], bool] | None:
    try:
        import jsonschema_rs
    except ImportError:  # images do without
        return None
    registry = jsonschema_rs.Registry(list(_needed(kind).items()))
    check: Callable[[Mapping[str, Any]], bool] = jsonschema_rs.Draft202012Validator(
        schema(kind), registry=registry
    ).is_valid
    return check


@lru_cache(maxsize=8)
def _reference_validator(kind: Kind) -> Validator:
    try:
        from jsonschema import Draft202012Validator
        from jsonschema.validators import extend
        from referencing import Registry, Resource
    except ImportError as error:
        msg = "the package jsonschema is not installed, so documents cannot be validated here"
        raise DependencyMissingError(msg, hint="pip install jsonschema") from error
    resources = [(name, Resource.from_contents(content)) for name, content in _needed(kind).items()]
    registry: Any = Registry().with_resources(resources)
    keywords = _keywords(Draft202012Validator.VALIDATORS["items"])
    extended: Any = extend(Draft202012Validator, keywords)  # type: ignore[no-untyped-call]
    validator: Validator = extended(schema(kind), registry=registry)
    return validator


def _keywords(standard_items: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Return the keywords that jsonschema does differently here."""
    from jsonschema.exceptions import ValidationError

    def pattern(
        _: Validator, expected: str, instance: object, __: Mapping[str, Any]
    ) -> Iterator[ValidationError]:
        # In Python a final $ also matches before a newline, so that "id\n" would pass; nowhere else does it.
        if isinstance(instance, str) and not re.search(re.sub(r"\$$", r"\\Z", expected), instance):
            yield ValidationError("pattern")

    def items(
        validator: Validator, expected: Mapping[str, Any], instance: object, parent: Mapping[str, Any]
    ) -> Iterator[ValidationError]:
        # Telemetry is arrays of many thousand plain numbers: they pass at once where each is one.
        is_plain = _PLAIN_ITEMS.get(str(expected.get("$ref")))
        if isinstance(instance, list) and is_plain and all(map(is_plain, instance)):
            return
        yield from standard_items(validator, expected, instance, parent)

    def unique_items(
        _: Validator, expected: bool, instance: object, __: Mapping[str, Any]
    ) -> Iterator[ValidationError]:
        # The standard one compares each with each where types are mixed: minutes for a megabyte.
        if (
            expected
            and isinstance(instance, list)
            and len({_identity(item) for item in instance}) < len(instance)
        ):
            yield ValidationError("uniqueItems")

    return {"pattern": pattern, "items": items, "uniqueItems": unique_items}


def _identity(item: object) -> Hashable:
    """Return what is equal for equal JSON values: 1 and 1.0 are, 1 and true are not."""
    if isinstance(item, dict | list):
        return json.dumps(item, sort_keys=True, default=str)
    return isinstance(item, bool), item


def _explain(error: ValidationError) -> Iterator[Problem]:
    """Turn an error of jsonschema into problems; of alternatives, speak about the one that was meant."""
    if error.validator in ("oneOf", "anyOf") and error.context:
        yield from _explain_alternatives(error)
        return
    place = pointer(*error.absolute_path)
    parent = error.schema if isinstance(error.schema, Mapping) else {}
    fault = _Fault(
        keyword=str(error.validator), instance=error.instance, expected=error.validator_value, schema=parent
    )
    if "propertyNames" in error.absolute_schema_path:
        yield Problem(pointer=place, message=f"has the key {show(error.instance)}", allowed=_form(fault))
        return
    message, allowed = _DESCRIPTIONS.get(fault.keyword, _other)(fault)
    yield Problem(pointer=place, message=message, allowed=allowed)


def _explain_alternatives(error: ValidationError) -> Iterator[Problem]:
    branches: dict[object, list[ValidationError]] = {}
    for inner in error.context or ():
        branches.setdefault(inner.schema_path[0], []).append(inner)
    # A branch that asks for another type altogether was not the one that was meant.
    meant = [
        errors
        for errors in branches.values()
        if not any(e.validator == "type" and not e.path for e in errors)
    ]
    if len(meant) == 1:
        for inner in meant[0]:
            yield from _explain(inner)
        return
    types = [_types(errors[0].validator_value) for errors in branches.values()]
    yield Problem(
        pointer=pointer(*error.absolute_path),
        message=f"is {show(error.instance)}",
        allowed=" or ".join(types),
    )


@dataclass(frozen=True, kw_only=True)
class _Fault:
    """What a keyword of a schema found: the value, what the keyword asks for, and the schema around it."""

    keyword: str
    instance: Any
    expected: Any
    schema: Mapping[str, Any]


_Description: TypeAlias = tuple[str, str | None]  # what is wrong, and what is allowed


def _types(expected: object) -> str:
    return " or ".join(expected) if isinstance(expected, list) else str(expected)


def _form(fault: _Fault) -> str:
    """Return what form a text must have: the schema's own words, else the rule itself."""
    return str(fault.schema.get("description", f"{fault.keyword} {fault.expected}")).rstrip(".")


def _other(fault: _Fault) -> _Description:
    return f"is {show(fault.instance)}", f"{fault.keyword} {show(fault.expected)}"


def _wrong_type(fault: _Fault) -> _Description:
    return f"is {show(fault.instance)}", _types(fault.expected)


def _wrong_choice(fault: _Fault) -> _Description:
    return f"is {show(fault.instance)}", listing(map(show, fault.expected), limit=40)


def _wrong_constant(fault: _Fault) -> _Description:
    return f"is {show(fault.instance)}", show(fault.expected)


def _wrong_form(fault: _Fault) -> _Description:
    return f"is {show(fault.instance)}, which has the wrong form", _form(fault)


def _lacking_keys(fault: _Fault) -> _Description:
    return f"lacks {listing(show(key) for key in fault.expected if key not in fault.instance)}", None


def _unknown_keys(fault: _Fault) -> _Description:
    known = fault.schema.get("properties", {})
    unknown = [show(key) for key in fault.instance if key not in known]
    return f"has the unknown key {listing(unknown)}", listing(known, limit=40) or "no keys"


def _wrong_bound(fault: _Fault) -> _Description:
    word = {"minimum": "at least", "maximum": "at most", "exclusiveMinimum": "more than"}[fault.keyword]
    return f"is {show(fault.instance)}", f"{word} {fault.expected}"


def _wrong_size(fault: _Fault) -> _Description:
    word = "at least" if fault.keyword.startswith("min") else "at most"
    what = {"Length": "characters", "Items": "items", "Properties": "keys"}[fault.keyword[3:]]
    return f"has {len(fault.instance)} {what}", f"{word} {fault.expected}"


def _repeated(fault: _Fault) -> _Description:
    return f"holds an item twice, of {len(fault.instance)}", "each once"


_DESCRIPTIONS: dict[str, Callable[[_Fault], _Description]] = {
    "type": _wrong_type,
    "enum": _wrong_choice,
    "const": _wrong_constant,
    "pattern": _wrong_form,
    "required": _lacking_keys,
    "additionalProperties": _unknown_keys,
    "minimum": _wrong_bound,
    "maximum": _wrong_bound,
    "exclusiveMinimum": _wrong_bound,
    "minLength": _wrong_size,
    "maxLength": _wrong_size,
    "minItems": _wrong_size,
    "maxItems": _wrong_size,
    "minProperties": _wrong_size,
    "maxProperties": _wrong_size,
    "uniqueItems": _repeated,
}
