"""A recipe is names and contents: no path, time or mode of a checkout, nothing that images do not carry."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import rentbench
from rentbench.core.errors import RentbenchError
from rentbench.core.manifests import load_images
from rentbench.driver.images.recipes import Recipe, find_revision, read_recipe, stage

BASE = "sha256:" + "1" * 64
IMAGES = load_images()
CHECKOUT = Path(rentbench.__file__).parents[2]


@pytest.fixture
def recipe() -> Recipe:
    return read_recipe(IMAGES["cpu"], base=BASE, debian_snapshot="")


@pytest.fixture
def wheels(tmp_path: Path, recipe: Recipe) -> Path:
    """A folder with a file in the place of each wheel."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name in re.findall(rb"# (\S+\.whl)", recipe.files["requirements.lock"]):
        (folder / name.decode()).write_bytes(name)
    (folder / "of_another_image-1-py3-none-any.whl").write_bytes(b"")
    return folder


def test_it_holds_code_and_schemas_and_the_images_own_suites(recipe: Recipe) -> None:
    names = set(recipe.files)
    assert {
        "Dockerfile",
        "requirements.lock",
        "schema/measurement.schema.json",
        "schema/suite.schema.json",
        "src/rentbench/__init__.py",
        "src/rentbench/core/errors.py",
        "src/rentbench/harness/__main__.py",
        "suites/gemm/suite.toml",
        "suites/gemm/workload.py",
        "suites/preflight/suite.toml",
    } <= names
    parts = {tuple(name.split("/")[:3]) for name in names if name.startswith("src/rentbench/")}
    assert {part[2] for part in parts} == {"__init__.py", "core", "harness"}
    assert not [name for name in names if name.endswith((".md", "gpus.toml", ".pyc", "image.toml", ".in"))]


def test_the_same_files_elsewhere_make_the_same_recipe(tmp_path: Path, recipe: Recipe) -> None:
    copy = tmp_path / "elsewhere"
    for part in ("src", "schema", "suites", "images"):
        shutil.copytree(CHECKOUT / part, copy / part)
    for path in copy.rglob("*"):
        path.chmod(0o777 if path.is_dir() else 0o600)
        os.utime(path, (1e9, 1e9))
    script = (
        "from rentbench.core.manifests import load_images\n"
        "from rentbench.driver.images.recipes import read_recipe\n"
        f"print(read_recipe(load_images()['cpu'], base={BASE!r}, debian_snapshot='').id)"
    )
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "RENTBENCH_ROOT": str(copy)}

    def id_there() -> str:
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert id_there() == recipe.id
    # What is no part of an image changes nothing; what is one does.
    (copy / "suites/gemm/README.md").write_text("other words")
    (copy / "src/rentbench/core/gpus.toml").write_text("")
    (copy / "src/rentbench/driver/runs.py").write_text("")
    assert id_there() == recipe.id
    with (copy / "suites/gemm/workload.py").open("a") as file:
        file.write("# one more line\n")
    assert id_there() != recipe.id


def test_everything_that_goes_in_changes_the_id(recipe: Recipe) -> None:
    others = [
        replace(recipe, base="sha256:" + "2" * 64),
        replace(recipe, debian_snapshot="20261130T000000Z"),
        replace(recipe, platform="linux/arm64"),
        replace(recipe, image="other"),
        replace(recipe, files={**recipe.files, "Dockerfile": b"FROM scratch"}),
        replace(recipe, files={**recipe.files, "src/rentbench/core/new.py": b""}),
        replace(recipe, files={name: raw for name, raw in recipe.files.items() if name != "Dockerfile"}),
    ]
    assert len({recipe.id, *(other.id for other in others)}) == len(others) + 1
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", recipe.id)


def test_the_environment_has_an_id_of_its_own_that_no_code_changes(recipe: Recipe) -> None:
    dockerfile = recipe.files["Dockerfile"]
    code = {
        "Dockerfile": dockerfile + b"# of the code\n",
        "suites/gemm/workload.py": b"",
        "src/rentbench/core/new.py": b"",
    }
    changed = [replace(recipe, files={**recipe.files, name: raw}) for name, raw in code.items()]
    assert {other.environment_id for other in changed} == {recipe.environment_id}
    assert len({recipe.id, *(other.id for other in changed)}) == len(changed) + 1
    others = [
        replace(recipe, base="sha256:" + "2" * 64),
        replace(recipe, debian_snapshot="20261130T000000Z"),
        replace(recipe, platform="linux/arm64"),
        replace(recipe, image="other"),
        replace(recipe, files={**recipe.files, "Dockerfile": b"# of the environment\n" + dockerfile}),
        replace(recipe, files={**recipe.files, "requirements.lock": b""}),
    ]
    assert len({recipe.environment_id, *(other.environment_id for other in others)}) == len(others) + 1
    assert recipe.environment_id != recipe.id


def test_a_context_for_code_alone_needs_no_wheels(tmp_path: Path, recipe: Recipe) -> None:
    stage(recipe, tmp_path, wheels=None)
    found = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert found == set(recipe.files)


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_a_context_has_fixed_modes_and_times_whatever_the_umask(
    tmp_path: Path, recipe: Recipe, wheels: Path, mask: int
) -> None:
    context = tmp_path / "context"
    before = os.umask(mask)
    try:
        context.mkdir()
        stage(recipe, context, wheels=wheels)
    finally:
        os.umask(before)
    for path in context.rglob("*"):
        if path.parent.name == "wheels":
            continue
        state = path.stat()
        assert state.st_mode & 0o777 == (0o755 if path.is_dir() else 0o644), path
        if path.name != "wheels":
            assert state.st_mtime == 0, path
    found = {path.relative_to(context).as_posix() for path in context.rglob("*") if path.is_file()}
    assert {name for name in found if not name.startswith("wheels/")} == set(recipe.files)
    assert "wheels/of_another_image-1-py3-none-any.whl" not in found
    assert sum(name.startswith("wheels/") for name in found) == len(list(wheels.iterdir())) - 1


def test_a_missing_wheel_says_how_to_get_it(tmp_path: Path, recipe: Recipe, wheels: Path) -> None:
    next(wheels.glob("torch-*")).unlink()
    (tmp_path / "context").mkdir()
    with pytest.raises(RentbenchError, match=r"torch-.*\.whl is not there") as caught:
        stage(recipe, tmp_path / "context", wheels=wheels)
    assert "rentbench image wheels cpu" in str(caught.value.hint)


def test_the_revision_is_that_of_the_last_commit_to_the_recipe(tmp_path: Path, recipe: Recipe) -> None:
    sources = {}
    for name, raw in recipe.files.items():
        sources[name] = tmp_path / name
        sources[name].parent.mkdir(parents=True, exist_ok=True)
        sources[name].write_bytes(raw)
    here = replace(recipe, sources=sources)
    assert find_revision(here) == ""  # no checkout

    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false"]
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "recipe")
    revision = git("rev-parse", "HEAD")
    (tmp_path / "README.md").write_text("unrelated")
    git("add", ".")
    git("commit", "--quiet", "-m", "unrelated")
    assert find_revision(here) == revision
    sources["Dockerfile"].write_text("FROM scratch")
    assert find_revision(here) == f"{revision}-modified"


@pytest.mark.parametrize("name", IMAGES)
def test_every_dockerfile_keeps_to_what_both_builders_take(name: str) -> None:
    text = (IMAGES[name].folder / "Dockerfile").read_text()
    assert not re.search(r"^#\s*syntax\s*=", text, re.MULTILINE)
    assert not re.search(
        r"^SHELL|<<", text, re.MULTILINE
    )  # OCI images have no SHELL, 20.10 no here-documents
    assert f"ARG BASE={IMAGES[name].base_reference}@{IMAGES[name].base_digest}\n" in text
    # The environment is given its own names only, so that no code changes it; recipes divide the text there.
    head, environment, code = re.split(r"^FROM ", text, flags=re.MULTILINE)
    assert "ARG ENVIRONMENT=environment\n" in head
    assert environment.startswith("${BASE} AS environment\n")
    assert code.startswith("${ENVIRONMENT} AS code\n")
    assert re.findall(r"^ARG (\w+)=$", environment, re.MULTILINE) == [
        "DEBIAN_SNAPSHOT",
        "ENVIRONMENT_ID",
        "BASE_ID",
    ]
    assert re.findall(r"^ARG (\w+)=$", code, re.MULTILINE) == ["RECIPE_ID", "REVISION", "SOURCE"]
    assert re.search(r'^ENTRYPOINT \["', text, re.MULTILINE)
    assert re.search(r"^USER 65532", text, re.MULTILINE)


@pytest.mark.parametrize("name", IMAGES)
def test_no_registry_or_mirror_is_named(name: str) -> None:
    for path in IMAGES[name].folder.iterdir():
        assert not re.search(r"https?://", path.read_text()), path
