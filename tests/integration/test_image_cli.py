"""`rentbench image …` as a user has it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import rentbench
from rentbench.core.manifests import load_images
from rentbench.driver.images.locks import read_lock

if TYPE_CHECKING:
    from rentbench.driver.engine import Engine

RENTBENCH = [sys.executable, "-c", "from rentbench.cli.main import main; main()", "image"]
CHECKOUT = Path(rentbench.__file__).parents[2]


def image(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*RENTBENCH, *arguments], capture_output=True, text=True, check=False, timeout=120, env=environment
    )


def test_an_unknown_image_is_a_wrong_word_with_the_right_ones() -> None:
    done = image("build", "no-such-image")
    assert done.returncode == 2
    assert "no-such-image" in done.stderr
    assert "cpu" in done.stderr


def test_a_snapshot_needs_a_mirror_with_history() -> None:
    done = image("build", "cpu", "--snapshot", "20261130T000000Z", environment={"PATH": "/usr/bin:/bin"})
    if "Docker" in done.stderr:
        pytest.skip("no engine")
    assert done.returncode == 2
    assert "{snapshot}" in done.stderr


def test_a_context_for_plain_docker_build_is_laid_out(tmp_path: Path) -> None:
    manifest = load_images()["cpu"]
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for wheel in read_lock(manifest.folder / "requirements.lock"):
        (wheels / wheel.file).touch()
    output = tmp_path / "context"
    done = image("context", "cpu", "--output", str(output), "--wheels", str(wheels))
    assert done.returncode == 0, done.stderr
    assert f"docker build --tag rentbench/cpu {output}" in done.stdout
    assert (output / "Dockerfile").read_bytes() == (manifest.folder / "Dockerfile").read_bytes()
    again = image("context", "cpu", "--output", str(output), "--wheels", str(wheels))
    assert again.returncode == 2
    assert "is not empty" in again.stderr


@pytest.mark.docker
def test_the_list_and_the_inspection_are_data_too(behaviours: str) -> None:
    listed = json.loads(image("list", "--json").stdout)
    assert [entry["name"] for entry in listed] == list(load_images())
    facts = json.loads(image("inspect", behaviours, "--json").stdout)
    assert facts["entrypoint"] == ["/opt/workload.sh"]
    assert facts["recipe_id"] is None
    assert facts["matches_tree"] is None
    shown = image("inspect", behaviours)
    assert shown.returncode == 0
    assert "none: never pushed or pulled" in shown.stdout


@pytest.mark.docker
@pytest.mark.parametrize(
    ("label", "words"),
    [("", "packages NOT pinned"), ("20261130T000000Z", "packages of 20261130T000000Z"), (None, "not said")],
)
def test_the_inspection_says_whether_debians_packages_are_pinned(
    docker_engine: Engine, behaviours: str, tmp_path: Path, label: str | None, words: str
) -> None:
    line = "" if label is None else f'LABEL rentbench.debian-snapshot="{label}"'
    (tmp_path / "Dockerfile").write_text(f"FROM {behaviours}\n{line}\n")
    made, _ = docker_engine.client.images.build(path=str(tmp_path), rm=True, forcerm=True)
    try:
        shown = image("inspect", str(made.id))
    finally:
        if label is not None:
            docker_engine.client.images.remove(str(made.id))
    rows = [" ".join(row.split()) for row in shown.stdout.splitlines()]
    assert any(row.startswith(f"debian {words}") for row in rows)


@pytest.mark.docker
@pytest.mark.usefixtures("docker_engine")
def test_an_image_that_is_not_here_is_said() -> None:
    done = image("inspect", "rentbench/no-such-image:x")
    assert done.returncode == 3
    assert "is not here" in done.stderr


@pytest.mark.parametrize(("script", "command"), [("base-image", "base"), ("lock-images", "lock")])
def test_the_scripts_make_the_environment_that_they_need_and_pass_their_options_on(
    tmp_path: Path, script: str, command: str
) -> None:
    """In a checkout where scripts/setup makes a `rentbench` that repeats what it is told."""
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    shutil.copy(CHECKOUT / "scripts" / script, scripts)
    setup = """#!/bin/sh
mkdir -p .venv/bin
printf '#!/bin/sh\\necho "$@"\\n' >.venv/bin/rentbench
chmod 755 .venv/bin/rentbench
echo "setup $1" >>setups
"""
    (scripts / "setup").write_text(setup)
    (scripts / "setup").chmod(0o755)
    for _ in range(2):  # the second time, everything is there
        done = subprocess.run([scripts / script, "--json"], capture_output=True, text=True, check=True)
        assert done.stdout == f"image {command} --json\n"
    assert (tmp_path / "setups").read_text() == "setup run\n"
