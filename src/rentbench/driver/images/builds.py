"""Building an image from its recipe, with buildah or BuildKit; the local engine gets the result.

The environment becomes an image of its own, and the code goes on it: a change of the code builds and moves
kilobytes. buildah is the release builder: with fixed times, overlay storage and the OCI format it gives the
same image id twice. BuildKit gives the same contents under other times.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rentbench.core.errors import DependencyMissingError, UsageError
from rentbench.driver.engine import engine_errors, find_image
from rentbench.driver.images.bases import Base, debian_codename, find_base
from rentbench.driver.images.builders import BuildahBuilder, BuildJob, DockerBuilder
from rentbench.driver.images.recipes import Recipe, find_revision, read_recipe, stage
from rentbench.driver.images.wheels import default_wheel_folder, fill_wheel_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from docker.models.images import Image

    from rentbench.core.manifests import ImageManifest
    from rentbench.driver.engine import Engine
    from rentbench.driver.images.builders import Builder

__all__ = ["BuildOptions", "BuiltImage", "build_image", "environment_reference", "local_reference"]

_SNAPSHOT = "{snapshot}"


@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """How to build; none of it but base and snapshot changes what comes out.

    Attributes:
        builder: None chooses buildah where it is installed.
        base: A reference that replaces the manifest's base.
        pull: Ask the registry for the pinned base although a stand-in is here.
        wheels: Folder with the lock's wheels; None keeps one in the user's cache and fills it.
        pip_options: What pip is told when it fills the folder.
        mirror: URL of a Debian mirror; `{snapshot}` in it is replaced by the day, which pins the packages.
        security_mirror: The same for Debian's security updates, which are else left out with a `mirror`.
        snapshot: A day that replaces the manifest's.
        ca: Certificate file of a private CA that the mirror's certificate comes from.
        source: URL of the source code, for the label.
        tags: More names for the result.
        rebuild: Build although an image of the same recipe is there, and without any cache.
    """

    builder: Literal["buildah", "docker"] | None = None
    base: str | None = None
    pull: bool = False
    wheels: Path | None = None
    pip_options: Sequence[str] = ()
    mirror: str | None = None
    security_mirror: str | None = None
    snapshot: str | None = None
    ca: Path | None = None
    source: str = ""
    tags: Sequence[str] = field(default=())
    rebuild: bool = False


@dataclass(frozen=True, kw_only=True)
class BuiltImage:
    """An image that the local engine has.

    Attributes:
        reference: Its name, tagged with the recipe's short id.
        image_id: The engine's id of it.
        recipe: What it was made from.
        base: What it stands on.
        fresh: Whether it was built now; False where one of the same recipe was there.
    """

    reference: str
    image_id: str
    recipe: Recipe
    base: Base
    fresh: bool


def local_reference(image: str, recipe_id: str | None = None) -> str:
    """Return the local name of an image: of a recipe, or of the one that was built last."""
    tag = recipe_id.removeprefix("sha256:")[:12] if recipe_id else "latest"
    return f"rentbench/{image}:{tag}"


def environment_reference(recipe: Recipe) -> str:
    """Return the local name of the environment that a recipe's code goes on."""
    return local_reference(f"{recipe.image}-environment", recipe.environment_id)


def build_image(
    engine: Engine, manifest: ImageManifest, options: BuildOptions, *, say: Callable[[str], None]
) -> BuiltImage:
    """Build an image, unless the engine has one of the same recipe.

    Args:
        engine: The local engine, which gets the image.
        manifest: Which image.
        options: How.
        say: Gets every line that the user should see, the builder's own among them.

    Raises:
        RentbenchError: Base, wheels or builder are missing, or the build fails.
    """
    mirror, snapshot = _pin(manifest, options)
    base = find_base(engine, manifest, wanted=options.base, mirror=mirror, renew=options.pull, say=say)
    recipe = read_recipe(manifest, base=base.id, debian_snapshot=snapshot)
    reference = local_reference(manifest.name, recipe.id)
    names = [reference, local_reference(manifest.name), *options.tags]
    present = find_image(engine, reference)
    fresh = options.rebuild or present is None or present.labels.get("rentbench.recipe") != recipe.id
    if fresh:
        builder = _choose(engine, options, say=say)
        environment = environment_reference(recipe)
        there = builder.labels(environment).get("rentbench.environment") == recipe.environment_id
        wheels = None if there and not options.rebuild else _wheels(manifest, options, say=say)
        with tempfile.TemporaryDirectory(prefix="rentbench-build-") as folder:
            context = Path(folder) / "context"
            context.mkdir()
            stage(recipe, context, wheels=wheels)
            if wheels is not None:
                secrets = _write_secrets(Path(folder), manifest, options, mirror, snapshot)
                builder.build(_environment_job(recipe, base, options, context=context, secrets=secrets))
            builder.build(_code_job(recipe, options, context=context))
    image = _tag(engine, reference, names)
    return BuiltImage(reference=reference, image_id=str(image.id), recipe=recipe, base=base, fresh=fresh)


def _pin(manifest: ImageManifest, options: BuildOptions) -> tuple[str | None, str]:
    """Return the mirror to use and the day that it pins; an empty day where the mirror keeps no history."""
    if options.mirror is None or _SNAPSHOT not in options.mirror:
        if options.snapshot is not None:
            msg = "--snapshot needs a mirror that keeps history"
            raise UsageError(msg, hint="--mirror URL with {snapshot} in it, where the day belongs")
        return options.mirror, ""
    snapshot = options.snapshot or manifest.debian_snapshot
    return options.mirror.replace(_SNAPSHOT, snapshot), snapshot


def _choose(engine: Engine, options: BuildOptions, *, say: Callable[[str], None]) -> Builder:
    installed = "buildah" if shutil.which("buildah") and shutil.which("skopeo") else "docker"
    builder = BuildahBuilder if (options.builder or installed) == "buildah" else DockerBuilder
    return builder(engine, say=say)


def _environment_job(
    recipe: Recipe, base: Base, options: BuildOptions, *, context: Path, secrets: Mapping[str, Path]
) -> BuildJob:
    return BuildJob(
        context=context,
        stage="environment",
        ground=base.reference,
        name=environment_reference(recipe),
        arguments={
            "BASE_ID": recipe.base,
            "DEBIAN_SNAPSHOT": recipe.debian_snapshot,
            "ENVIRONMENT_ID": recipe.environment_id,
        },
        secrets=secrets,
        no_cache=options.rebuild,
    )


def _code_job(recipe: Recipe, options: BuildOptions, *, context: Path) -> BuildJob:
    return BuildJob(
        context=context,
        stage="code",
        ground=environment_reference(recipe),
        name=local_reference(recipe.image, recipe.id),
        arguments={"RECIPE_ID": recipe.id, "REVISION": find_revision(recipe), "SOURCE": options.source},
        no_cache=options.rebuild,
    )


def _wheels(manifest: ImageManifest, options: BuildOptions, *, say: Callable[[str], None]) -> Path:
    """Return the folder with the lock's wheels."""
    if options.wheels is not None:
        return options.wheels
    folder = default_wheel_folder(manifest.name)
    fill_wheel_folder(manifest, folder, pip_options=options.pip_options, say=say)
    return folder


def _write_secrets(
    folder: Path, manifest: ImageManifest, options: BuildOptions, mirror: str | None, snapshot: str
) -> dict[str, Path]:
    """Write what a build step may read and no layer may hold; return the files by the name of the secret."""
    secrets: dict[str, Path] = {}
    if mirror is not None:
        codename = debian_codename(manifest)
        lines = [f"deb {mirror} {codename} main", f"deb {mirror} {codename}-updates main"]
        if options.security_mirror is not None:
            security = options.security_mirror.replace(_SNAPSHOT, snapshot)
            lines.append(f"deb {security} {codename}-security main")
        secrets["apt"] = folder / "sources.list"
        secrets["apt"].write_text("\n".join(lines) + "\n", encoding="utf-8")
    if options.ca is not None:
        if not options.ca.is_file():
            msg = f"the CA certificate {options.ca} is not there"
            raise DependencyMissingError(msg)
        secrets["ca"] = options.ca
    return secrets


def _tag(engine: Engine, reference: str, names: Sequence[str]) -> Image:
    with engine_errors(f"naming {reference}"):
        image = engine.client.images.get(reference)
        for name in names:
            repository, _, tag = (
                name.rpartition(":") if ":" in name.rpartition("/")[2] else (name, "", "latest")
            )
            image.tag(repository, tag)
    return image
