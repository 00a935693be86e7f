"""Images between buildah's storage and the engine: the same id on both sides, and no layer moved twice."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from docker.errors import APIError

from rentbench.driver.images.builders import BuildahBuilder, BuildJob

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rentbench.driver.engine import Engine

pytestmark = pytest.mark.docker

ENVIRONMENT, CODE = "rentbench/test-storages-environment:x", "rentbench/test-storages:x"
DOCKERFILE = """
ARG BASE=
ARG ENVIRONMENT=environment
FROM ${BASE} AS environment
USER 0
COPY environment /
RUN mkdir /made
FROM ${ENVIRONMENT} AS code
COPY code /
"""


@pytest.fixture
def context(tmp_path: Path) -> Path:
    """A Dockerfile like those of the images, in which nearly nothing is done."""
    (tmp_path / "Dockerfile").write_text(DOCKERFILE)
    for name in ("environment", "code"):
        (tmp_path / name).write_text(str(tmp_path))
    return tmp_path


@pytest.fixture
def clean(docker_engine: Engine) -> Iterator[None]:
    """Skip without buildah, and remove afterwards what was built."""
    if not (shutil.which("buildah") and shutil.which("skopeo")):
        pytest.skip("buildah and skopeo are not installed")
    yield
    for name in (CODE, ENVIRONMENT):
        docker_engine.client.images.remove(name, force=True)
        subprocess.run(["buildah", "rmi", f"localhost/{name}"], check=False, capture_output=True)


def build(engine: Engine, context: Path, base: str, *, lose_environment: bool = False) -> list[str]:
    """Build both stages and return what was said."""
    said: list[str] = []
    builder = BuildahBuilder(engine, say=said.append)
    environment = BuildJob(context=context, stage="environment", ground=base, name=ENVIRONMENT, arguments={})
    code = BuildJob(context=context, stage="code", ground=ENVIRONMENT, name=CODE, arguments={})
    builder.build(environment)
    if lose_environment:
        engine.client.images.remove(ENVIRONMENT)
    builder.build(code)
    return said


def built_here(engine: Engine, name: str) -> bool:
    """Say whether the engine has an image by the id that buildah gave it."""
    command = ["buildah", "images", "--no-trunc", "--quiet", f"localhost/{name}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.split() == [engine.client.images.get(name).id]


@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize("lose_environment", [False, True])
def test_code_arrives_in_the_layers_above_its_environment(
    docker_engine: Engine, behaviours: str, context: Path, lose_environment: bool
) -> None:
    said = build(docker_engine, context, behaviours, lose_environment=lose_environment)
    copies = 2 if lose_environment else 1
    assert said.count(f"copying {ENVIRONMENT} to the Docker engine") == copies
    assert f"copying {CODE} to the Docker engine" not in said
    assert built_here(docker_engine, ENVIRONMENT)
    assert built_here(docker_engine, CODE)
    output = docker_engine.client.containers.run(
        CODE, ["/code", "/environment"], entrypoint="cat", remove=True
    )
    assert output.decode() == 2 * str(context)


class TakesWholeImages:
    """A connection to an engine that loads no archive of single layers."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.images = self

    def get(self, name: str) -> Any:
        return self._client.images.get(name)

    def load(self, _: object) -> None:
        message = "content digest not found"
        raise APIError(message)


@pytest.mark.usefixtures("clean")
def test_an_engine_that_takes_no_single_layers_gets_the_whole_image(
    docker_engine: Engine, behaviours: str, context: Path
) -> None:
    strict = replace(docker_engine, client=TakesWholeImages(docker_engine.client))
    said = build(strict, context, behaviours)
    assert any("content digest not found" in line for line in said)
    assert f"copying {CODE} to the Docker engine" in said
    assert built_here(docker_engine, CODE)
