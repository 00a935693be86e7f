"""Which image runs a suite, and whether the engine has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rentbench.core.errors import ErrorKind, UsageError
from rentbench.core.manifests import load_images
from rentbench.core.problems import show
from rentbench.driver.builds import local_reference
from rentbench.driver.engine import find_image
from rentbench.driver.failures import Failure, RunFailedError
from rentbench.driver.images import tree_recipe_id
from rentbench.driver.pulls import pull

if TYPE_CHECKING:
    from collections.abc import Callable

    from docker.models.images import Image

    from rentbench.driver.engine import Engine
    from rentbench.driver.interrupts import Interrupts

__all__ = ["choose_image", "get_image"]

_PATIENCE = 60.0  # seconds until a registry must answer


def choose_image(suite: str, *, gpus: str) -> str:
    """Return the reference of the image that runs a suite: one for GPUs where there are some, else for CPU.

    Raises:
        UsageError: No image carries the suite.
    """
    images = [manifest for manifest in load_images().values() if suite in manifest.suites]
    if not images:
        msg = f"no image carries the suite {show(suite)}"
        raise UsageError(msg, hint="name one that does: --image REFERENCE")
    wanted = [manifest for manifest in images if manifest.needs_gpu == (gpus != "none")]
    return local_reference((wanted or images)[0].name)


def get_image(
    engine: Engine, reference: str, *, say: Callable[[str], None], interrupts: Interrupts | None = None
) -> Image:
    """Return an image that the engine has; one that is named by its digest is pulled.

    A tag is never pulled: what it names can change, and a local name can be anyone's on a registry.

    Args:
        engine: The engine.
        reference: Which image.
        say: Gets a line for each thing that the user should know.
        interrupts: What ends a pull.

    Raises:
        RunFailedError: It is missing, cannot be pulled, or is for another processor.
    """
    image = find_image(engine, reference)
    if image is None and "@sha256:" in reference:
        say(f"pulling {reference}")
        pull(engine, reference, patience=_PATIENCE, interrupts=interrupts)
        image = find_image(engine, reference)
    if image is None:
        raise RunFailedError(
            Failure(
                kind=ErrorKind.IMAGE_MISSING,
                message=f"the image {reference} is not here",
                hint=_missing_hint(reference),
            )
        )
    platform = f"{image.attrs['Os']}/{image.attrs['Architecture']}"
    if platform != engine.platform:
        raise RunFailedError(
            Failure(
                kind=ErrorKind.UNSUPPORTED_PLATFORM,
                message=f"the image {reference} is for {platform}, and this host is {engine.platform}",
                hint="an emulated benchmark measures the emulator: use an image for this processor",
            )
        )
    ours = image.labels.get("rentbench.image")
    if ours and tree_recipe_id(image, load_images()) not in (None, image.labels.get("rentbench.recipe")):
        say(
            f"{reference} was built from other files than are here; to renew it: rentbench image build {ours}"
        )
    return image


def _missing_hint(reference: str) -> str:
    name = reference.partition(":")[0].removeprefix("rentbench/")
    if reference.startswith("rentbench/") and name in load_images():
        return f"rentbench image build {name}"
    return f"rentbench image list shows what is here; a published one: docker pull {reference}"
