"""The wheel, installed into an empty environment: everything that the commands read travels inside it."""

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from support.results import EXAMPLES, REPOSITORY

pytestmark = pytest.mark.slow


def run(*command: object, folder: Path, code: int = 0) -> str:
    """Run a command far from the checkout, and return what it prints."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "RENTBENCH"))}
    result = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=kept,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == code, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        folder,
        REPOSITORY,
        folder=folder,
    )
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the programs of an environment that holds the wheel and what it asks for."""
    environment = tmp_path_factory.mktemp("environment")
    venv.create(environment, with_pip=True)
    folder = environment / "bin"
    run(folder / "python", "-m", "pip", "install", "--quiet", wheel, folder=environment)
    return folder


def test_the_package_comes_from_the_wheel(programs: Path, tmp_path: Path) -> None:
    code = "import rentbench, sys; print(rentbench.__file__); print(sys.path)"
    place, path = run(programs / "python", "-c", code, folder=tmp_path).splitlines()
    assert place.startswith(str(programs.parent))
    assert str(REPOSITORY / "src") not in path


def test_help(programs: Path, tmp_path: Path) -> None:
    output = run(programs / "rentbench", "--help", folder=tmp_path)
    for command in ("list", "validate", "upgrade"):
        assert command in output


def test_every_suite_of_the_checkout_is_listed(programs: Path, tmp_path: Path) -> None:
    suites = json.loads(run(programs / "rentbench", "list", "--json", folder=tmp_path))
    expected = {path.parent.name.replace("_", "-") for path in REPOSITORY.glob("suites/*/suite.toml")}
    assert {suite["name"] for suite in suites} == expected
    for name in expected:
        assert "smoke" in run(programs / "rentbench", "list", "--cases", name, folder=tmp_path)


def test_examples_are_validated(programs: Path, tmp_path: Path) -> None:
    for kind in ("measurement", "run", "suite", "image"):
        valid = sorted((EXAMPLES / kind / "valid").glob("*.*"))
        run(programs / "rentbench", "validate", *valid, folder=tmp_path)
        (first, *_) = (path for path in (EXAMPLES / kind / "invalid").glob("*.*") if path.stem != "problems")
        run(programs / "rentbench", "validate", first, folder=tmp_path, code=1)


def test_no_leftovers_and_no_tests_travel(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for part in ("schema/measurement.schema.json", "mkdocs.yml"):
        assert f"rentbench/_data/{part}" in names
    assert "rentbench/core/gpus.toml" in names
    assert "rentbench/py.typed" in names
    unwanted = [name for name in names if name.endswith(".pyc") or "/tests/" in name or "__pycache__" in name]
    assert unwanted == []
