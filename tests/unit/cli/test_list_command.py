"""`rentbench list` and what every command shares: help, version, errors."""

import json
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from support.results import write_root


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RENTBENCH_ROOT", str(tmp_path))
    return write_root(tmp_path)


@pytest.mark.usefixtures("root")
def test_suites_are_listed(rentbench: Callable) -> None:
    outcome = rentbench("list")
    assert outcome.code == 0
    assert outcome.out.splitlines()[1].split() == [
        "example",
        "1.0.0",
        "1",
        "1,",
        "4,",
        "10",
        "Matrix",
        "products",
    ]


@pytest.mark.usefixtures("root")
def test_suites_are_listed_as_json(rentbench: Callable) -> None:
    (suite,) = json.loads(rentbench("list", "--json").out)
    assert suite["name"] == "example"
    assert suite["metrics"]["steady_tflops"]["unit"] == "TFLOPS"
    assert suite["presets"]["standard"] == {"description": "The published method.", "repeats": 3, "cases": 4}


@pytest.mark.usefixtures("root")
def test_cases_are_listed_as_the_command_line_takes_them(rentbench: Callable) -> None:
    outcome = rentbench("list", "--cases", "example")
    assert outcome.out.splitlines()[1].split() == ["smoke", "dtype=fp32,size=256"]
    assert len(outcome.out.splitlines()) == 16
    cases = json.loads(rentbench("list", "--cases", "example", "--json").out)
    assert cases["smoke"] == [{"dtype": "fp32", "size": 256}]


@pytest.mark.usefixtures("root")
def test_a_suite_that_is_not_there_names_those_that_are(rentbench: Callable) -> None:
    outcome = rentbench("list", "--cases", "\x1b[31m")
    assert outcome.code == 2
    assert outcome.err == 'error: there is no suite "\\u001b[31m"\nhint: suites: example\n'


def test_a_broken_manifest_names_its_file(root: Path, rentbench: Callable) -> None:
    path = root / "suites" / "example" / "suite.toml"
    path.write_text(path.read_text().replace('"TFLOPS"', '"GFlop/s"'))
    outcome = rentbench("list")
    assert outcome.code == 1
    assert f"{path}: /metrics/steady_tflops/unit is the unknown unit" in outcome.err
    assert f"rentbench validate {path}" in outcome.err


def test_help_and_version(rentbench: Callable) -> None:
    outcome = rentbench("--help")
    assert outcome.code == 0
    for command in ("list", "validate", "upgrade"):
        assert command in outcome.out
    assert rentbench("--version").out == f"{version('rentbench')}\n"


def test_help_loads_nothing_heavy(rentbench: Callable) -> None:
    import subprocess

    code = "import sys; from rentbench.cli.main import create_app; create_app(); print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"pandas", "altair", "mkdocs", "docker", "jsonschema", "torch"} & set(loaded)
    assert rentbench("--help").code == 0


def test_an_interrupt_while_modules_load_leaves_no_traceback() -> None:
    import subprocess

    code = """
import sys

class Interrupt:
    def find_spec(self, name, *_):
        if name == "typer":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
from rentbench.cli.entry import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "")


def test_an_error_of_the_system_is_a_message(rentbench: Callable, tmp_path: Path) -> None:
    outcome = rentbench("upgrade", "/dev/null/x", "--output", tmp_path)
    assert outcome.code == 2
    assert "cannot be read" in outcome.err
