"""Whether images can be the output of a model that works."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Sanity", "examine"]

_STEP = 1 / 255  # two neighbouring values of an 8-bit image
_BLACK = 8 * _STEP
_FEWEST_LEVELS = 8


@dataclass(frozen=True, kw_only=True)
class Sanity:
    """What a look at images found.

    Attributes:
        fault: What is wrong with the first bad one; None where all are sane.
        mean: Of all values, from 0 (black) to 1 (white); None where not all are finite.
        deviation: Standard deviation of the values of the flattest image; None likewise.
    """

    fault: str | None
    mean: float | None
    deviation: float | None


def examine(images: NDArray[Any]) -> Sanity:
    """Look at images of shape (n, height, width, 3) with values from 0 to 1.

    A half-precision VAE that overflows gives NaN, which a file shows as black; a broken model often gives one
    color.
    """
    values = np.asarray(images, dtype=np.float64).reshape(len(images), -1)
    finite = np.isfinite(values).all(axis=1)
    if not finite.all():
        return Sanity(
            fault=f"image {int(np.argmin(finite))} has values that are not finite", mean=None, deviation=None
        )
    deviations = values.std(axis=1)
    fault = None
    for number, image in enumerate(values):
        if image.max() < _BLACK:
            fault = f"image {number} is black: its brightest value is {image.max():.4f}"
        elif deviations[number] < _STEP or len(np.unique(np.round(image * 255))) < _FEWEST_LEVELS:
            fault = f"image {number} is constant: its values deviate by {deviations[number]:.4f}"
        if fault:
            break
    return Sanity(fault=fault, mean=float(values.mean()), deviation=float(deviations.min()))
