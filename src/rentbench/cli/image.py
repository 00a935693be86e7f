"""`rentbench image …`: build images, and say what they are made from. Heavy imports wait for the command."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from rentbench.cli.console import print_json, print_line, print_table
from rentbench.core.errors import UsageError
from rentbench.core.manifests import ImageManifest, load_images
from rentbench.core.problems import listing, show

if TYPE_CHECKING:
    from rentbench.driver.images.facts import ImageFacts

__all__ = ["register"]

_PipOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--pip-option",
        metavar="OPTION",
        help="Passed on to pip, such as an index. May be repeated.",
    ),
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_Image = Annotated[str, typer.Argument(metavar="IMAGE", help="Name of the image.")]
_Mirror = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="Debian mirror. {snapshot} in it becomes the day that pins the packages."
    ),
]


class _Builder(StrEnum):
    BUILDAH = "buildah"
    DOCKER = "docker"


def register(app: typer.Typer) -> None:
    """Add the command group."""
    group = typer.Typer(
        name="image", help="Build images, and say what they are made from.", no_args_is_help=True
    )
    group.command()(build)
    group.command(name="list")(list_)
    group.command()(inspect)
    group.command()(base)
    group.command()(wheels)
    group.command()(lock)
    group.command()(context)
    app.add_typer(group)


def build(
    image: _Image,
    builder: Annotated[
        _Builder | None, typer.Option(help="Default: buildah where it is installed, else docker.")
    ] = None,
    base: Annotated[
        str | None, typer.Option(metavar="REFERENCE", help="Base image in place of the pinned one.")
    ] = None,
    pull: Annotated[
        bool, typer.Option("--pull", help="Ask the registry for the pinned base though a stand-in is here.")
    ] = False,
    wheels: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder with the lock's wheels. Default: one in your cache, filled by pip."
        ),
    ] = None,
    pip_option: _PipOptions = None,
    mirror: _Mirror = None,
    security_mirror: Annotated[
        str | None, typer.Option(metavar="URL", help="The same for Debian's security updates.")
    ] = None,
    snapshot: Annotated[
        str | None, typer.Option(metavar="STAMP", help="Day in place of image.toml's, as 20261130T000000Z.")
    ] = None,
    ca: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Certificate of a private CA of the mirror.")
    ] = None,
    source: Annotated[str, typer.Option(metavar="URL", help="Where the source code is, for the label.")] = "",
    tag: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="One more name for the result. May be repeated.")
    ] = None,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", "--no-cache", help="Build every layer anew, also when it is there.")
    ] = False,
    as_json: _Json = False,
) -> None:
    """Build an image, unless one of the same recipe is there."""
    from rentbench.driver.engine import connect
    from rentbench.driver.images.builds import BuildOptions, build_image
    from rentbench.driver.images.recipes import describe_debian

    options = BuildOptions(
        builder=builder.value if builder else None,
        base=base,
        pull=pull,
        wheels=wheels,
        pip_options=pip_option or (),
        mirror=mirror,
        security_mirror=security_mirror,
        snapshot=snapshot,
        ca=ca,
        source=source,
        tags=tag or (),
        rebuild=rebuild,
    )
    built = build_image(connect(), _manifest(image), options, say=_say)
    if as_json:
        print_json(
            {
                "reference": built.reference,
                "image_id": built.image_id,
                "recipe_id": built.recipe.id,
                "base": {"reference": built.base.reference, "id": built.base.id},
                "debian_snapshot": built.recipe.debian_snapshot or None,
                "fresh": built.fresh,
            }
        )
        return
    print_line(f"{built.reference}  {'built' if built.fresh else 'is there already'}")
    print_line(f"recipe  {built.recipe.id}")
    print_line(f"base    {built.base.reference}  {built.base.id}")
    print_line(f"debian  {describe_debian(built.recipe.debian_snapshot)}")
    print_line(f"image   {built.image_id}")


def list_(as_json: _Json = False) -> None:
    """List the images, their suites, and what was built last."""
    from rentbench.driver.engine import connect
    from rentbench.driver.images.facts import list_images

    images = list_images(connect())
    if as_json:
        print_json(
            [
                {
                    "name": manifest.name,
                    "purpose": manifest.purpose,
                    "suites": list(manifest.suites),
                    "platform": manifest.platform,
                    "built": None if facts is None else facts.document(),
                }
                for manifest, facts in images
            ]
        )
        return
    print_table(
        ("image", "suites", "built", "size", "purpose"),
        (
            (manifest.name, " ".join(manifest.suites), _state(facts), _size(facts), manifest.purpose)
            for manifest, facts in images
        ),
        right=("size",),
    )


def inspect(
    image: Annotated[
        str, typer.Argument(metavar="IMAGE|REFERENCE", help="Name of the image, or a Docker reference.")
    ],
    as_json: _Json = False,
) -> None:
    """Show an image's labels, environment and recipe, and whether the files here still make it."""
    from rentbench.driver.engine import connect
    from rentbench.driver.images.facts import inspect_image

    facts = inspect_image(connect(), image)
    if as_json:
        print_json(facts.document())
        return
    rows = [
        ("reference", facts.reference),
        ("image id", facts.image_id),
        *(("digest", digest) for digest in facts.digests or ("none: never pushed or pulled",)),
        ("recipe", facts.recipe_id or "not said by the image"),
        ("environment", facts.environment_id or "not said by the image"),
        ("debian", facts.debian or "not said by the image"),
        ("files here", _match(facts)),
        ("created", facts.created),
        ("size", f"{_size(facts)} in {facts.layers} layers"),
        ("platform", facts.platform),
        ("user", facts.user),
        ("entrypoint", " ".join(facts.entrypoint)),
        *(("label", f"{name}={value}") for name, value in sorted(facts.labels.items())),
        *(("variable", f"{name}={value}") for name, value in facts.environment.items()),
    ]
    print_table(("what", "value"), rows)


def base(
    image: Annotated[str, typer.Argument(metavar="IMAGE", help="Image that stands on it.")] = "cpu",
    mirror: _Mirror = None,
    as_json: _Json = False,
) -> None:
    """Make a stand-in for an image's base from Debian's packages, where no registry can be reached."""
    from rentbench.driver.engine import connect
    from rentbench.driver.images.bases import make_stand_in

    manifest = _manifest(image)
    address = mirror.replace("{snapshot}", manifest.debian_snapshot) if mirror else None
    made = make_stand_in(connect(), manifest, mirror=address, say=_say)
    if as_json:
        print_json({"reference": made.reference, "image_id": made.image_id})
    else:
        print_line(f"{made.reference}  {made.image_id}")


def wheels(
    image: _Image,
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to. Default: the folder that `build` looks in.")
    ] = None,
    pip_option: _PipOptions = None,
) -> None:
    """Download the wheels that an image's lock names; those that are there are kept."""
    from rentbench.driver.images.wheels import default_wheel_folder, fill_wheel_folder

    manifest = _manifest(image)
    folder = output or default_wheel_folder(image)
    count = fill_wheel_folder(manifest, folder, pip_options=pip_option or (), say=_say)
    print_line(f"{folder}: {f'{count} wheels downloaded' if count else 'complete'}")


def lock(
    images: Annotated[
        list[str] | None, typer.Argument(metavar="[IMAGE]…", help="Which. Default: all.")
    ] = None,
    pip_option: _PipOptions = None,
) -> None:
    """Write requirements.lock from requirements.in with pip's own resolver, hashes included."""
    from rentbench.driver.images.locks import make_lock

    for manifest in [_manifest(name) for name in images or load_images()]:
        text = make_lock(manifest, pip_options=pip_option or ())
        path = manifest.folder / "requirements.lock"
        changed = not path.is_file() or path.read_text(encoding="utf-8") != text
        path.write_text(text, encoding="utf-8")
        print_line(f"{path}: {'written' if changed else 'unchanged'}")


def context(
    image: _Image,
    output: Annotated[Path, typer.Option(metavar="DIR", help="An empty folder, or one to make.")],
    wheels: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder with the lock's wheels.")] = None,
) -> None:
    """Lay out an image's build context, for a plain `docker build`."""
    from rentbench.driver.images.recipes import read_recipe, stage
    from rentbench.driver.images.wheels import default_wheel_folder

    manifest = _manifest(image)
    if output.exists() and any(output.iterdir()):
        msg = f"{output} is not empty"
        raise UsageError(msg, hint="name a folder that is empty or not there")
    output.mkdir(parents=True, exist_ok=True)
    recipe = read_recipe(manifest, base=manifest.base_digest, debian_snapshot="")
    stage(recipe, output, wheels=wheels or default_wheel_folder(image))
    print_line(f"DOCKER_BUILDKIT=1 docker build --tag rentbench/{image} {output}")


def _manifest(name: str) -> ImageManifest:
    images = load_images()
    if name not in images:
        msg = f"there is no image {show(name)}"
        raise UsageError(msg, hint=f"images: {listing(images, limit=40) or 'none'}")
    return images[name]


def _say(line: str) -> None:
    print_line(line, style="dim", error=True)


def _state(facts: ImageFacts | None) -> str:
    if facts is None:
        return "no"
    short = facts.recipe_id.removeprefix("sha256:")[:12] if facts.recipe_id else "unknown recipe"
    return f"{short}{'' if facts.matches_tree else ' (older than the files here)'}"


def _size(facts: ImageFacts | None) -> str:
    return "" if facts is None else f"{facts.size_bytes / 1e9:.2f} GB"


def _match(facts: ImageFacts) -> str:
    if facts.matches_tree is None:
        return "do not make this image"
    if facts.matches_tree:
        return "make the same recipe"
    return f"make another recipe: {facts.tree_recipe_id}"
