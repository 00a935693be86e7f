"""The running engine, and a small image whose suites end in every way that a run can end."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rentbench.core.manifests import load_images
from rentbench.core.resources import resource
from rentbench.driver.engine import Engine, connect
from rentbench.driver.failures import RunFailedError
from rentbench.driver.images.bases import find_base

if TYPE_CHECKING:
    from collections.abc import Iterator

FIXTURE = Path(__file__).parents[1] / "fixtures" / "driver"


@pytest.fixture(scope="session")
def docker_engine() -> Engine:
    """The engine that runs; these tests start none."""
    try:
        return connect()
    except RunFailedError as error:
        pytest.skip(f"{error.message} ({error.hint})")


@pytest.fixture(scope="session")
def behaviours(docker_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Reference of the image of `tests/fixtures/driver`; its suites are the behaviours of workload.sh."""
    folder = tmp_path_factory.mktemp("behaviours")
    for name in ("Dockerfile", "workload.sh"):
        shutil.copy(FIXTURE / name, folder)
    (folder / "ok.json").write_text(template("smoke-on-cpu"))
    (folder / "failed.json").write_text(template("failed-before-any-case"))
    base = find_base(docker_engine, load_images()["cpu"], say=print)
    reference = f"rentbench/test-behaviours:{os.getpid()}"  # its own: sessions may share an engine
    docker_engine.client.images.build(
        path=str(folder), tag=reference, buildargs={"BASE": base.reference}, rm=True, forcerm=True
    )
    yield reference
    docker_engine.client.images.remove(reference, force=True)


def template(example: str) -> str:
    """Return an example measurement with placeholders for what differs from run to run."""
    document = json.loads(
        resource("schema", "examples", "measurement", "valid", f"{example}.json").read_text()
    )
    document |= {
        "id": "@ID@",
        "suite": {"name": "@SUITE@", "version": "1.0.0"},
        "preset": "@PRESET@",
        "started": "@NOW@",
        "finished": "@NOW@",
        "recipe_id": None,
        "artifacts": [],
    }
    return json.dumps(document, indent=1)
