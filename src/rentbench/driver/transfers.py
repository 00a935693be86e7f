"""Images from one engine to another, for a host that reaches no registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rentbench.driver.engine import engine_errors

if TYPE_CHECKING:
    from docker.models.images import Image

    from rentbench.driver.engine import Engine

__all__ = ["send_image"]


def send_image(image: Image, reference: str, target: Engine) -> None:
    """Stream an image into another engine; its id stays the same, its digest of a registry is lost.

    Args:
        image: The image, in the engine that has it.
        reference: What it is to be called there.
        target: The engine that lacks it.

    Raises:
        RunFailedError: One of the engines cannot do it.
    """
    # The SDK passes an iterator on in chunks, though its types only know of bytes and files.
    named: str | bool = False if "@" in reference or reference.startswith("sha256:") else reference
    with engine_errors(f"sending the image {reference}"):
        target.client.images.load(image.save(named=named))  # type: ignore[arg-type]
