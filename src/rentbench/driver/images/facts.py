"""What images there are: recipes in this installation, and what the local engine holds of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rentbench.core.errors import ErrorKind, RentbenchError
from rentbench.core.manifests import load_images
from rentbench.driver.engine import find_image
from rentbench.driver.failures import Failure, RunFailedError
from rentbench.driver.images.builds import local_reference
from rentbench.driver.images.recipes import describe_debian, read_recipe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from docker.models.images import Image

    from rentbench.core.manifests import ImageManifest
    from rentbench.driver.engine import Engine

__all__ = ["ImageFacts", "inspect_image", "list_images", "tree_recipe_id"]


@dataclass(frozen=True, kw_only=True)
class ImageFacts:
    """An image that the engine holds.

    Attributes:
        digests: Names with the registry's manifest digest; none for an image that was never pushed or pulled.
        size_bytes: Unpacked, layers shared with other images included.
        recipe_id: As the image says; None where it does not.
        environment_id: Of what its code goes on, as the image says; None where it does not.
        debian: Which of Debian's packages it holds, in words; None where the image does not say.
        tree_recipe_id: What the files here give on the same base; None where they do not make it.
        matches_tree: Whether the two are the same; None where one is not known.
    """

    reference: str
    image_id: str
    digests: tuple[str, ...]
    created: str
    size_bytes: int
    platform: str
    user: str
    entrypoint: tuple[str, ...]
    environment: Mapping[str, str]
    labels: Mapping[str, str]
    layers: int
    recipe_id: str | None
    environment_id: str | None
    debian: str | None
    tree_recipe_id: str | None
    matches_tree: bool | None

    def document(self) -> dict[str, Any]:
        """Return the facts for JSON."""
        return asdict(self)


def inspect_image(engine: Engine, name: str) -> ImageFacts:
    """Return what the engine knows of an image.

    Args:
        engine: The engine.
        name: A reference, or the name of one of our images: then the one that was built last.

    Raises:
        RunFailedError: The engine does not have it.
    """
    ours = load_images()
    reference = local_reference(name) if name in ours else name
    image = find_image(engine, reference)
    if image is None:
        hint = f"rentbench image build {name}" if name in ours else "docker images shows what is here"
        message = f"the image {reference} is not here"
        raise RunFailedError(Failure(kind=ErrorKind.IMAGE_MISSING, message=message, hint=hint))
    return _facts(image, reference, ours)


def list_images(engine: Engine) -> list[tuple[ImageManifest, ImageFacts | None]]:
    """Return every image recipe of this installation, and what was last built from it."""
    ours = load_images()
    listed = []
    for manifest in ours.values():
        reference = local_reference(manifest.name)
        image = find_image(engine, reference)
        listed.append((manifest, None if image is None else _facts(image, reference, ours)))
    return listed


def tree_recipe_id(image: Image, manifests: Mapping[str, ImageManifest]) -> str | None:
    """Return the recipe id that the files here give on an image's base; None where they do not make it."""
    manifest = manifests.get(image.labels.get("rentbench.image", ""))
    base = image.labels.get("rentbench.base")
    if manifest is None or not base:
        return None
    snapshot = image.labels.get("rentbench.debian-snapshot", "")
    try:
        return read_recipe(manifest, base=base, debian_snapshot=snapshot).id
    except RentbenchError:  # files are missing here, so they make no image
        return None


def _facts(image: Image, reference: str, manifests: Mapping[str, ImageManifest]) -> ImageFacts:
    attributes: dict[str, Any] = image.attrs
    configuration = attributes["Config"]
    recipe_id = image.labels.get("rentbench.recipe") or None
    tree = tree_recipe_id(image, manifests)
    snapshot = image.labels.get("rentbench.debian-snapshot")
    return ImageFacts(
        reference=reference,
        image_id=str(image.id),
        digests=tuple(attributes.get("RepoDigests") or ()),
        created=attributes["Created"],
        size_bytes=attributes["Size"],
        platform=f"{attributes['Os']}/{attributes['Architecture']}",
        user=configuration.get("User") or "0",
        entrypoint=tuple(configuration.get("Entrypoint") or ()),
        environment=dict(entry.partition("=")[::2] for entry in configuration.get("Env") or ()),
        labels=dict(image.labels),
        layers=len(attributes["RootFS"]["Layers"]),
        recipe_id=recipe_id,
        environment_id=image.labels.get("rentbench.environment") or None,
        debian=None if snapshot is None else describe_debian(snapshot),
        tree_recipe_id=tree,
        matches_tree=None if recipe_id is None or tree is None else recipe_id == tree,
    )
