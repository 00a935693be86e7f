"""Whether vectors can be right at all, and how far two ways of making them agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["cosines", "vector_problem"]

# Half precision keeps three digits of each component; the length of a vector averages over hundreds of them.
_LENGTH_TOLERANCE = 0.01


def vector_problem(vectors: NDArray[np.floating], texts: int) -> str | None:
    """Say what is wrong with the vectors of so many texts, not all of them equal; None where nothing is."""
    if len(vectors) != texts:
        return f"{len(vectors)} vectors were made of {texts} texts"
    full = vectors.astype(np.float32)
    if not np.isfinite(full).all():
        return f"{int((~np.isfinite(full)).any(axis=1).sum())} of {texts} vectors hold NaN or infinity"
    lengths = np.linalg.norm(full, axis=1)
    worst = float(np.abs(lengths - 1).max())
    if worst > _LENGTH_TOLERANCE:
        return f"a vector's length differs from 1 by {worst:.2g}"
    if texts > 1 and float(np.ptp(full, axis=0).max()) == 0:
        return "all vectors are the same"
    return None


def cosines(left: NDArray[np.floating], right: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the cosine of each pair of vectors; whatever their lengths are."""
    a, b = left.astype(np.float64), right.astype(np.float64)
    cosine: NDArray[np.float64] = (a * b).sum(axis=1) / (
        np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    )
    return cosine
