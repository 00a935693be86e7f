"""Which image runs a suite, and whether the engine has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rentbench.core.errors import ErrorKind, UsageError
from rentbench.core.manifests import load_images
from rentbench.core.problems import show
from rentbench.driver.engine import connect, find_image
from rentbench.driver.failures import Failure, RunFailedError
from rentbench.driver.images.builds import local_reference
from rentbench.driver.images.facts import tree_recipe_id
from rentbench.driver.pulls import pull
from rentbench.driver.transfers import send_image

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from docker.models.images import Image

    from rentbench.driver.engine import Engine
    from rentbench.driver.interrupts import Interrupts

__all__ = ["choose_image", "get_image"]

_PATIENCE = 60.0  # seconds until a registry must answer


def choose_image(suite: str, *, gpus: str, capabilities: Sequence[str]) -> str:
    """Return the reference of the image that runs a suite: one for the GPUs, or one for CPU without them.

    Args:
        suite: Public name of the suite.
        gpus: `none`, `all` or a count.
        capabilities: The GPUs' compute capabilities; empty where they are not known. Then it is the image
            that is for most.

    Raises:
        UsageError: No image carries the suite, or none that does is for all of these GPUs.
    """
    images = [manifest for manifest in load_images().values() if suite in manifest.suites]
    if not images:
        msg = f"no image carries the suite {show(suite)}"
        raise UsageError(msg, hint="name one that does: --image REFERENCE")
    if gpus == "none":
        return local_reference(next((image for image in images if not image.needs_gpu), images[0]).name)
    for_gpus = [image for image in images if image.needs_gpu]
    fitting = [image for image in for_gpus if set(capabilities) <= set(image.compute_capabilities)]
    if not fitting:
        there = "; ".join(f"{image.name} for {', '.join(image.compute_capabilities)}" for image in for_gpus)
        what = f"GPUs of compute capability {', '.join(capabilities)}" if capabilities else "GPUs"
        msg = f"no image with the suite {suite} is for {what} (there is {there or 'none for any GPU'})"
        raise UsageError(msg, hint="--image REFERENCE names another; on CPU: --gpus none --preset smoke")
    return local_reference(max(fitting, key=lambda image: len(image.compute_capabilities)).name)


def get_image(
    engine: Engine, reference: str, *, say: Callable[[str], None], interrupts: Interrupts | None = None
) -> Image:
    """Return an image that the engine has; one that is named by its digest is pulled.

    What a host over SSH lacks and the engine here has is sent there.

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
    if image is None and engine.kind == "ssh" and (here := find_image(connect(), reference)) is not None:
        say(f"sending {reference} to the host")
        send_image(here, reference, engine)
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
