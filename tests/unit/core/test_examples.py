"""The examples beside the schemas: valid ones are, and of invalid ones the named places are found."""

import tomllib
from pathlib import Path

import pytest

from rentbench.core.errors import ErrorKind
from rentbench.core.schemas import KINDS, Kind, kind_of, schema
from rentbench.core.structure import fast_verdict, reference_problems
from rentbench.core.upgrade import CURRENT
from rentbench.core.validation import check_file
from support.results import EXAMPLES


def examples(verdict: str) -> list[Path]:
    return [path for path in sorted(EXAMPLES.glob(f"*/{verdict}/*")) if path.name != "problems.toml"]


def name(path: Path) -> str:
    return f"{path.parts[-3]}-{path.stem}"


@pytest.mark.parametrize("path", examples("valid"), ids=name)
def test_valid_examples_are_valid(path: Path) -> None:
    report = check_file(path)
    assert report.valid, report
    assert report.kind == path.parts[-3]


@pytest.mark.parametrize("path", examples("invalid"), ids=name)
def test_invalid_examples_are_refused_where_they_are_wrong(path: Path) -> None:
    expected = tomllib.loads((path.parent / "problems.toml").read_text())[path.name]
    report = check_file(path)
    assert report.unusable is None
    assert sorted({problem.pointer for problem in report.problems}) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_examples_of_both_sorts(kind: Kind) -> None:
    for verdict in ("valid", "invalid"):
        assert any(path.parts[-3] == kind for path in examples(verdict))


@pytest.mark.parametrize("path", examples("valid") + examples("invalid"), ids=name)
def test_both_validators_say_the_same(path: Path) -> None:
    report = check_file(path)
    assert report.document is not None
    kind = report.kind or kind_of(report.document)
    assert fast_verdict(report.document, kind) is (reference_problems(report.document, kind) == [])


@pytest.mark.parametrize("kind", KINDS)
def test_code_and_schema_agree_on_the_version(kind: Kind) -> None:
    assert schema(kind)["properties"]["schema_version"]["const"] == CURRENT[kind]
    assert schema(kind)["$id"].endswith(f":{kind}:{CURRENT[kind]}")


def test_code_and_schema_agree_on_error_kinds() -> None:
    assert schema("measurement")["$defs"]["error_kind"]["enum"] == [kind.value for kind in ErrorKind]
