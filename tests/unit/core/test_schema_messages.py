"""Messages say where, what, and what is allowed; both validators agree on what is broken."""

import copy
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rentbench.core.schemas import KINDS
from rentbench.core.structure import MAX_PROBLEMS, fast_verdict, reference_problems, schema_problems
from rentbench.core.validation import check, check_bytes
from support.results import at, changed, example

CPU = example("measurement", "smoke-on-cpu")
GPU = example("measurement", "partial-on-one-gpu")
RUN = example("run", "rented")

MESSAGES = [
    ("/status", "fine", '/status is "fine" (allowed: "ok", "partial", "failed", "invalid", "skipped")'),
    ("/id", "x", '/id is "x", which has the wrong form (allowed: UUID version 7, lower case)'),
    ("/recipe_id", "latest", "allowed: sha256: and 64 hexadecimal digits in lower case"),
    ("/recipe_id", 5, "/recipe_id is 5 (allowed: null or string)"),
    ("/parameters/repeats", 0, "/parameters/repeats is 0 (allowed: at least 1)"),
    ("/parameters/repeats", True, "/parameters/repeats is true (allowed: integer)"),
    (
        "/parameters/settings",
        {"Bad": 1},
        '/parameters/settings has the key "Bad" (allowed: Lower-case letters',
    ),
    ("/parameters/settings", {"a": [1]}, "/parameters/settings/a is an array of 1 (allowed: null or boolean"),
    (
        "/parameters/settings",
        {"a": "x" * 5000},
        "/parameters/settings/a has 5000 characters (allowed: at most 4096)",
    ),
    ("/host/topology", {"matrix": []}, '/host/topology lacks "summary"'),
    ("/host/container", "lxc", '/host/container is "lxc" (allowed: "docker", "podman"'),
    ("/host/kernel", {}, "/host/kernel is an object without content (allowed: string or null)"),
    ("/cases/0/phases", {"lunch": 1}, 'has the unknown key "lunch" (allowed: download, load, compile'),
    ("/cases/0/measurements/0/values", [], "values has 0 items (allowed: at least 1)"),
    ("/cases/0/measurements/0/ci95", [1], "ci95 has 1 items (allowed: at least 2)"),
    ("/schema_version", "1", '/schema_version is "1" (allowed: 1)'),
    ("/status", "\x1b[31m", '/status is "\\u001b[31m"'),
]


@pytest.mark.parametrize(("pointer", "value", "message"), MESSAGES)
def test_messages(pointer: str, value: Any, message: str) -> None:
    problems = [str(problem) for problem in check(changed(CPU, pointer, value), "measurement")]
    assert any(message in problem for problem in problems), problems


def test_several_faults_are_all_named() -> None:
    document = changed(changed(changed(CPU, "/status", "fine"), "/runner", 3), "/cases/1/reason", [])
    assert {problem.pointer for problem in check(document, "measurement")} == {
        "/status",
        "/runner",
        "/cases/1/reason",
    }


def test_the_number_of_problems_is_bounded() -> None:
    document = changed(CPU, "/validity", [{} for _ in range(1000)])
    assert len(check(document, "measurement")) == MAX_PROBLEMS


def test_plain_arrays_are_not_passed_when_they_are_not_plain() -> None:
    series = "/telemetry/gpus/0/series/temperature_celsius"
    for wrong in (True, "31", [31], {}):
        document = changed(GPU, f"{series}/1", wrong)
        assert [problem.pointer for problem in reference_problems(document, "measurement")] == [f"{series}/1"]
    offsets = changed(GPU, "/telemetry/gpus/0/offsets_seconds/0", -1)
    assert [problem.pointer for problem in reference_problems(offsets, "measurement")] == [
        "/telemetry/gpus/0/offsets_seconds/0"
    ]


def test_one_and_true_are_two_items_and_one_and_one_point_zero_are_not() -> None:
    suite = {"choices": []}
    for values, unique in (([1, True], True), ([1, 1.0], False), (["1", 1], True), ([0, False, "0"], True)):
        suite["choices"] = values
        document = _suite_with_choices(values)
        assert fast_verdict(document, "suite") is unique
        assert (reference_problems(document, "suite") == []) is unique


def _suite_with_choices(choices: list[Any]) -> dict[str, Any]:
    preset = {"description": "d", "repeats": 1, "timeout_seconds": 1, "grids": [{"p": [1]}], "settings": {}}
    return {
        "schema_version": 1,
        "name": "example",
        "version": "1.0.0",
        "title": "t",
        "category": "hardware",
        "summary": "s",
        "needs": {"gpus_min": 0, "network": False, "shm_bytes": 0, "packages": []},
        "metrics": {"m": {"title": "t", "unit": "s", "direction": "lower"}},
        "parameters": {"p": {"kind": "case", "type": "number", "description": "d", "choices": choices}},
        "presets": {"smoke": preset, "standard": preset, "full": preset},
    }


JUNK = [
    None, True, False, 0, 1, -1, 1.0, 1.5, 1e300, "", "ok", "x" * 5000, "id\n", "sha256:" + "0" * 64, "é", [],
    [1], [[]], {}, {"a": 1}, "2026-11-30T22:05:00Z", "2026-11-30T22:05:00Z\n", "1.0.0", "१.0.0",
]  # fmt: skip


def places(document: Any, pointer: str = "") -> list[str]:
    inner = (
        document.items()
        if isinstance(document, dict)
        else enumerate(document)
        if isinstance(document, list)
        else ()
    )
    return [pointer, *(place for key, value in inner for place in places(value, f"{pointer}/{key}"))]


@settings(max_examples=400, deadline=None)
@given(st.sampled_from([("measurement", CPU), ("measurement", GPU), ("run", RUN)]), st.integers(0, 2**32))
def test_broken_documents_get_one_verdict_from_both_validators(kind_and_document: Any, seed: int) -> None:
    kind, document = kind_and_document
    choose = random.Random(seed)
    broken = copy.deepcopy(document)
    for _ in range(choose.randint(1, 3)):
        pointer = choose.choice([place for place in places(broken) if place])
        around, _, last = pointer.rpartition("/")
        container = at(broken, around)
        key = int(last) if isinstance(container, list) else last
        match choose.choice(["set", "delete", "add"]):
            case "set":
                container[key] = copy.deepcopy(choose.choice(JUNK))
            case "delete":
                del container[key]
            case "add" if isinstance(container, dict):
                container[choose.choice(["extra", "Extra", "a\n", ""])] = copy.deepcopy(choose.choice(JUNK))
    assert fast_verdict(broken, kind) is (reference_problems(broken, kind) == [])
    for problem in check(broken, kind):
        assert problem.message
        assert str(problem).isprintable()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.sampled_from(sorted(CPU)) | st.text(max_size=8), json_values, max_size=8),
    st.sampled_from(list(KINDS)),
)
@settings(deadline=None)
def test_any_object_gets_an_answer(document: dict[str, Any], kind: Any) -> None:
    assert check(document, kind) != []


@given(st.sampled_from([CPU, GPU, RUN]), st.sampled_from([None, 0, -1, 1e308, "x", [], {}, True]), st.data())
@settings(max_examples=300, deadline=None)
def test_any_changed_value_gets_an_answer(document: dict[str, Any], value: Any, data: st.DataObject) -> None:
    pointer = data.draw(st.sampled_from([place for place in places(document) if place]))
    kind: Any = "run" if document is RUN else "measurement"
    assert isinstance(check(changed(document, pointer, value), kind), list)


@given(st.binary(max_size=64))
def test_any_bytes_get_a_report(raw: bytes) -> None:
    assert not check_bytes(raw, source="input").valid


def test_without_faults_both_agree_too() -> None:
    for kind, document in (("measurement", CPU), ("measurement", GPU), ("run", RUN)):
        assert schema_problems(document, kind) == []  # type: ignore[arg-type]
        assert reference_problems(document, kind) == []  # type: ignore[arg-type]
