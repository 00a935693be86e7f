"""The CPU image, built for real: what is in it, what is not, how it runs, and that it is the same twice."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

import rentbench
from rentbench.core.manifests import load_images
from rentbench.core.scan import validate_paths
from rentbench.driver.images.bases import Base, find_base, make_stand_in
from rentbench.driver.images.builders import BuildahBuilder, BuildJob, DockerBuilder, docker_with_buildkit
from rentbench.driver.images.builds import BuildOptions, BuiltImage, build_image, environment_reference
from rentbench.driver.images.facts import inspect_image, list_images
from rentbench.driver.images.recipes import stage
from rentbench.driver.images.wheels import default_wheel_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rentbench.driver.engine import Engine

pytestmark = [pytest.mark.docker, pytest.mark.slow]

CPU = load_images()["cpu"]
CHECKOUT = Path(rentbench.__file__).parents[2]
WHEELS = CHECKOUT / ".cache" / "wheels" / "cpu"
APT_EMPTY = ("lock", "partial", "archives", "")
BUILDERS: dict[str, type[DockerBuilder | BuildahBuilder]] = {
    "docker": DockerBuilder,
    "buildah": BuildahBuilder,
}


def options(**changes: object) -> BuildOptions:
    """Return options that take the wheels which scripts/setup has fetched, where it has."""
    return BuildOptions(**{"wheels": WHEELS if WHEELS.is_dir() else None, **changes})  # type: ignore[arg-type]


def need(builder: str) -> None:
    if builder == "buildah" and not (shutil.which("buildah") and shutil.which("skopeo")):
        pytest.skip("buildah and skopeo are not installed")


@pytest.fixture(scope="module")
def base(docker_engine: Engine) -> Base:
    return find_base(docker_engine, CPU, say=print)


@pytest.fixture(scope="module")
def built(docker_engine: Engine) -> BuiltImage:
    """The CPU image of the files as they are: the one that is here already, else as docker builds it."""
    return build_image(docker_engine, CPU, options(builder="docker"), say=print)


# First, since the tests below then find its environment, with both builders.
def test_the_release_builder_gives_the_same_image_id_twice(docker_engine: Engine) -> None:
    need("buildah")
    first = build_image(docker_engine, CPU, options(builder="buildah", rebuild=True), say=print)
    second = build_image(docker_engine, CPU, options(builder="buildah", rebuild=True), say=print)
    assert second.fresh
    assert second.image_id == first.image_id
    assert inspect_image(docker_engine, first.reference).matches_tree


def test_a_second_build_has_nothing_to_do(docker_engine: Engine, built: BuiltImage) -> None:
    said: list[str] = []
    again = build_image(docker_engine, CPU, options(builder="docker"), say=said.append)
    assert not again.fresh
    assert again.image_id == built.image_id
    assert again.recipe.id == built.recipe.id


def test_the_image_says_what_it_is(docker_engine: Engine, built: BuiltImage) -> None:
    facts = inspect_image(docker_engine, "cpu")
    assert facts.image_id == built.image_id
    assert facts.recipe_id == facts.tree_recipe_id == built.recipe.id
    assert facts.matches_tree
    assert facts.environment["RENTBENCH_RECIPE_ID"] == built.recipe.id
    assert facts.environment["RENTBENCH_IMAGE"] == "1"
    assert facts.user == "65532:65532"
    assert facts.entrypoint == ("/opt/venv/bin/python", "-m", "rentbench.harness")
    assert facts.debian is not None
    assert "NOT pinned" in facts.debian
    assert facts.environment_id == built.recipe.environment_id
    assert facts.labels["rentbench.base"] == built.base.id
    assert facts.labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert facts.labels["org.opencontainers.image.title"] == "rentbench cpu"
    assert {"org.opencontainers.image.revision", "org.opencontainers.image.source"} <= set(facts.labels)
    assert 0.5e9 < facts.size_bytes < 1.5e9
    listed = {manifest.name: found for manifest, found in list_images(docker_engine)}
    assert listed["cpu"] is not None
    assert listed["cpu"].matches_tree


@pytest.fixture
def remove(docker_engine: Engine) -> Iterator[list[str]]:
    """Names of images to remove after the test, from buildah's storage too."""
    names: list[str] = []
    yield names
    for name in names:
        docker_engine.client.images.remove(name, force=True)
        if shutil.which("buildah"):
            subprocess.run(["buildah", "rmi", f"localhost/{name}"], check=False, capture_output=True)
    build_image(docker_engine, CPU, options(builder="docker"), say=print)  # `latest` is the real one again


@pytest.mark.parametrize("builder", BUILDERS)
def test_a_change_of_the_code_leaves_the_environment_and_needs_none_of_its_files(
    docker_engine: Engine,
    tmp_path: Path,
    remove: list[str],
    builder: Literal["docker", "buildah"],
) -> None:
    need(builder)
    # The same steps, so that a builder's cache has them all; only the words beside them differ.
    folder = tmp_path / "cpu"
    shutil.copytree(CPU.folder, folder)
    manifest = replace(CPU, folder=folder)
    before = build_image(docker_engine, manifest, options(builder=builder), say=print)
    with (folder / "Dockerfile").open("a") as file:
        file.write("# more\n")
    nowhere = tmp_path / "nowhere"
    after = build_image(docker_engine, manifest, options(builder=builder, wheels=nowhere), say=print)
    remove.append(after.reference)
    assert environment_reference(after.recipe) == environment_reference(before.recipe)
    lower = docker_engine.client.images.get(environment_reference(after.recipe)).attrs["RootFS"]["Layers"]
    for image in (before, after):
        facts = inspect_image(docker_engine, image.reference)
        # Never the id of the recipe whose steps the cache has.
        assert facts.recipe_id == facts.environment["RENTBENCH_RECIPE_ID"] == image.recipe.id
        layers = docker_engine.client.images.get(image.reference).attrs["RootFS"]["Layers"]
        assert layers[: len(lower)] == lower


@pytest.mark.parametrize("builder", BUILDERS)
def test_another_environment_is_never_named_by_the_id_of_one_in_the_cache(
    docker_engine: Engine,
    tmp_path: Path,
    remove: list[str],
    builder: Literal["docker", "buildah"],
) -> None:
    need(builder)
    folder = tmp_path / "cpu"
    shutil.copytree(CPU.folder, folder)
    text = (folder / "Dockerfile").read_text()
    (folder / "Dockerfile").write_text(f"# {tmp_path}\n{text}")
    image = build_image(docker_engine, replace(CPU, folder=folder), options(builder=builder), say=print)
    environment = environment_reference(image.recipe)
    remove += [image.reference, environment]
    for name in (image.reference, environment):
        assert inspect_image(docker_engine, name).environment_id == image.recipe.environment_id


def test_plain_docker_build_takes_the_context(
    docker_engine: Engine, base: Base, built: BuiltImage, tmp_path: Path, remove: list[str]
) -> None:
    stage(built.recipe, tmp_path, wheels=options().wheels or default_wheel_folder("cpu"))
    name = "rentbench/test-plain:latest"
    docker = docker_with_buildkit()
    command = [docker, "build", "--quiet", "--tag", name, "--build-arg", f"BASE={base.reference}", tmp_path]
    subprocess.run(command, check=True, env={**os.environ, "DOCKER_BUILDKIT": "1"})
    remove.append(name)
    facts = inspect_image(docker_engine, name)
    assert (facts.recipe_id, facts.environment_id) == (None, None)
    output = docker_engine.client.containers.run(name, ["--help"], remove=True, network_mode="none")
    assert b"gemm" in output


def test_plain_docker_run_works_hardened_as_any_user_without_network(
    built: BuiltImage, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    results.mkdir()
    results.chmod(0o777)
    done = subprocess.run(
        [
            *("docker", "run", "--rm", "--network", "none", "--read-only", "--cap-drop", "ALL"),
            *("--security-opt", "no-new-privileges", "--tmpfs", "/tmp", "--user", "12345:54321"),
            *("-v", f"{results}:/results", built.reference, "gemm", "--preset", "smoke", "--repeats", "1"),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "status: ok" in done.stdout
    reports = list(validate_paths([results]))
    assert [str(report) for report in reports if not report.valid] == []
    (path,) = results.rglob("measurement.json")
    measurement = json.loads(path.read_text())
    assert measurement["recipe_id"] == built.recipe.id
    assert measurement["runner"] == "container"
    assert path.stat().st_uid == 12345


def test_nothing_is_compiled_at_a_start(built: BuiltImage) -> None:
    script = (
        "import sys, pathlib, rentbench.harness.supervisor, torch, jsonschema\n"
        "specs = [getattr(module, '__spec__', None) for module in list(sys.modules.values())]\n"
        "cached = [spec.cached for spec in specs if spec and spec.has_location and spec.cached]\n"
        "print(len(cached) > 500, [path for path in cached if not pathlib.Path(path).is_file()])\n"
    )
    done = subprocess.run(
        ["docker", "run", "--rm", "--entrypoint", "/opt/venv/bin/python", built.reference, "-c", script],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "True []"


def layers(engine: Engine, image: str) -> Iterator[tuple[str, bytes]]:
    """Yield every file of every layer, and the image's configuration, as `docker save` gives them."""
    raw = b"".join(engine.client.images.get(image).save())
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        for entry in archive:
            content = archive.extractfile(entry)
            if content is None:
                continue
            if not entry.name.endswith(".tar"):
                yield entry.name, content.read()
                continue
            with tarfile.open(fileobj=content) as layer:
                for member in layer:
                    file = layer.extractfile(member) if member.isreg() else None
                    yield member.name, member.name.encode() + (file.read() if file else b"")


def leftovers(engine: Engine, image: str) -> list[str]:
    """Return the files that would differ from build to build, or tell of the machine that built."""
    folders = ("var/lib/apt/lists/", "var/cache/apt/", "var/cache/ldconfig/", "var/log/", "run/secrets/")
    found = {name.removeprefix("./"): len(raw) > len(name) for name, raw in layers(engine, image)}
    left = {name for name in found if name.startswith(folders)}
    # Empty, and removed again by the layers above; apt makes them when it is only looked at.
    left = {name for name in left if name.rpartition("/")[2].removeprefix(".wh.") not in APT_EMPTY}
    # As empty files they are where an engine mounts its own.
    return sorted(left | {name for name in ("etc/hostname", "etc/resolv.conf") if found.get(name)})


@pytest.mark.parametrize("builder", BUILDERS)
def test_mirror_and_private_ca_stay_in_no_layer(
    docker_engine: Engine, base: Base, tmp_path: Path, builder: str
) -> None:
    need(builder)
    # The Dockerfile down to the step that uses them; what follows cannot bring them back.
    text = (CPU.folder / "Dockerfile").read_text()
    context = tmp_path / "context"
    context.mkdir()
    (context / "Dockerfile").write_text(text[: text.index("COPY requirements.lock")])
    sources, marker = tmp_path / "sources.list", b"marker-of-a-private-mirror"
    own = [raw for name, raw in layers(docker_engine, base.reference) if name.endswith("apt/sources.list")]
    if not own:
        pytest.skip("this base has its package sources in another form")
    sources.write_bytes(b"# " + marker + b"\n" + own[0][own[0].index(b"deb ") :])
    authority = tmp_path / "ca.pem"
    authority.write_bytes(b"-----BEGIN CERTIFICATE-----\nmarker-of-a-private-ca\n-----END CERTIFICATE-----\n")
    job = BuildJob(
        context=context,
        stage="environment",
        ground=base.reference,
        name=f"rentbench/test-secrets:{builder}",
        arguments={"DEBIAN_SNAPSHOT": ""},
        secrets={"apt": sources, "ca": authority},
        no_cache=True,
    )
    BUILDERS[builder](docker_engine, say=print).build(job)
    try:
        seen = {
            name for name, raw in layers(docker_engine, job.name) if marker in raw or b"private-ca" in raw
        }
        assert seen == set()
        assert any(name.endswith("bin/python3.11") for name, _ in layers(docker_engine, job.name))
        assert leftovers(docker_engine, job.name) == []
    finally:
        docker_engine.client.images.remove(job.name, force=True)
        if builder == "buildah":
            subprocess.run(["buildah", "rmi", f"localhost/{job.name}"], check=False, capture_output=True)


def test_the_stand_in_base_is_the_same_twice(docker_engine: Engine) -> None:
    if shutil.which("mmdebstrap") is None:
        pytest.skip("mmdebstrap is not installed")
    first = make_stand_in(docker_engine, CPU, say=print)
    assert make_stand_in(docker_engine, CPU, say=print).image_id == first.image_id
    assert leftovers(docker_engine, first.reference) == []
