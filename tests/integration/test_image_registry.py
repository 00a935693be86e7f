"""Images by digest from a real registry: a pinned base is pulled, and a run records what it ran."""

from __future__ import annotations

import io
import shutil
import socket
import subprocess
import tarfile
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rentbench.core.errors import ErrorKind, RentbenchError
from rentbench.core.manifests import load_images
from rentbench.driver.failures import RunFailedError
from rentbench.driver.images.bases import find_base
from rentbench.driver.records import RunRecord
from rentbench.driver.selection import get_image

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rentbench.driver.engine import Engine

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a registry of this test's own."""
    if shutil.which("docker-registry") is None:
        pytest.skip("docker-registry is not installed")
    folder = tmp_path_factory.mktemp("registry")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    storage = f"storage: {{filesystem: {{rootdirectory: {folder}/data}}}}"
    (folder / "config.yml").write_text(f"version: 0.1\n{storage}\nhttp: {{addr: '{address}'}}\n")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            ["docker-registry", "serve", str(folder / "config.yml")], stdout=log, stderr=log
        )
    try:
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(tuple(address.split(":")), timeout=1).close()  # type: ignore[arg-type]
                break
            except OSError:
                assert process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < deadline, (folder / "log").read_text()
                time.sleep(0.05)
        yield address
    finally:
        process.terminate()
        process.wait(timeout=20)


@pytest.fixture
def pushed(docker_engine: Engine, registry: str, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Name and digest of a small image that the registry has and the engine has not."""
    root = io.BytesIO()
    with tarfile.open(fileobj=root, mode="w") as tar:
        member = tarfile.TarInfo("hello")
        member.size = len(str(tmp_path))
        tar.addfile(member, io.BytesIO(str(tmp_path).encode()))
    name = f"{registry}/test-image"
    docker_engine.client.api.import_image_from_data(root.getvalue(), repository=name, tag="bookworm-slim")
    docker_engine.client.images.push(name, tag="bookworm-slim")
    image = docker_engine.client.images.get(f"{name}:bookworm-slim")
    (digest,) = (entry.partition("@")[2] for entry in image.attrs["RepoDigests"])
    docker_engine.client.images.remove(str(image.id), force=True)
    yield name, digest
    for left in docker_engine.client.images.list(name):
        docker_engine.client.images.remove(str(left.id), force=True)


def test_a_pinned_base_is_pulled_and_gives_the_recipe_its_digest(
    docker_engine: Engine, pushed: tuple[str, str]
) -> None:
    name, digest = pushed
    manifest = replace(load_images()["cpu"], base_reference=f"{name}:bookworm-slim", base_digest=digest)
    base = find_base(docker_engine, manifest, renew=True, say=print)
    assert base.id == digest
    assert base.reference == f"{name}:bookworm-slim@{digest}"
    said: list[str] = []
    assert find_base(docker_engine, manifest, renew=True, say=said.append) == base
    assert said == []


def test_a_base_that_was_asked_for_and_is_not_there_is_no_reason_for_a_stand_in(
    docker_engine: Engine, registry: str
) -> None:
    with pytest.raises(RentbenchError, match="neither here nor can it be pulled"):
        find_base(docker_engine, load_images()["cpu"], wanted=f"{registry}/nothing:here", say=print)


def test_an_image_named_by_digest_is_pulled_and_recorded(
    docker_engine: Engine, pushed: tuple[str, str]
) -> None:
    name, digest = pushed
    reference = f"{name}@{digest}"
    image = get_image(docker_engine, reference, say=print)
    record = RunRecord(suite="gemm", preset="smoke", reference=reference, gpus="none", host={}, image=image)
    record.mark("queued")
    document = record.document(status="failed", failure=None, measurement=None, redact=str)
    assert document["image"] == {
        "reference": reference,
        "digest": digest,
        "image_id": image.id,
        "recipe_id": None,
    }


def test_a_tag_is_never_pulled(docker_engine: Engine, pushed: tuple[str, str]) -> None:
    with pytest.raises(RunFailedError) as caught:
        get_image(docker_engine, f"{pushed[0]}:bookworm-slim", say=print)
    assert caught.value.failure.kind is ErrorKind.IMAGE_MISSING
    assert "docker pull" in str(caught.value.hint)


def test_a_digest_that_the_registry_has_not_is_a_missing_image(docker_engine: Engine, registry: str) -> None:
    with pytest.raises(RunFailedError) as caught:
        get_image(docker_engine, f"{registry}/test-image@sha256:{'0' * 64}", say=print)
    assert caught.value.failure.kind is ErrorKind.IMAGE_MISSING


def test_a_registry_that_is_not_there_is_a_network_failure(docker_engine: Engine) -> None:
    with pytest.raises(RunFailedError) as caught:
        get_image(docker_engine, f"127.0.0.1:1/test-image@sha256:{'0' * 64}", say=print)
    assert caught.value.failure.kind is ErrorKind.NETWORK
