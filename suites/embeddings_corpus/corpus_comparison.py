"""How far the vectors of two ways agree, and why those that do not differ."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rentbench.harness.encoders.sanity import cosines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from corpus_reader import Chunk
    from numpy.typing import NDArray

__all__ = ["Comparison", "Outlier", "compare"]


@dataclass(frozen=True, kw_only=True)
class Outlier:
    """A chunk whose two vectors differ.

    Attributes:
        index: Of the chunk in the corpus.
        document: Where it comes from.
        cosine: Of its two vectors.
        characters: Of its text.
        tokens: Of its text before any cut, by this machine's tokenizer.
        api_tokens: What the API read of it; None where it does not say.
        reason: Why the vectors differ, as far as the token counts tell.
    """

    index: int
    document: str
    cosine: float
    characters: int
    tokens: int
    api_tokens: int | None
    reason: str

    @property
    def text(self) -> str:
        """The outlier in one line."""
        return f"chunk {self.index} (cosine {self.cosine:.4f}, {self.characters} characters): {self.reason}"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The cosines of all pairs, and the outliers among them, the worst first."""

    cosines: list[float]
    outliers: list[Outlier]

    @property
    def median(self) -> float:
        """The median cosine."""
        return statistics.median(self.cosines)

    @property
    def unexplained(self) -> list[Outlier]:
        """Outliers that no cut explains."""
        return [outlier for outlier in self.outliers if "cut" not in outlier.reason]

    def document(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {"cosines": self.cosines, "outliers": [asdict(outlier) for outlier in self.outliers]}


def compare(
    here: NDArray[np.floating],
    api: NDArray[np.floating],
    chunks: Sequence[Chunk],
    *,
    tokens: Sequence[int],
    max_tokens: int,
    limit: float,
    ask_api: Callable[[str], int | None],
) -> Comparison:
    """Compare the vectors of the same chunks.

    Args:
        here: This machine's vectors.
        api: The API's, for the same chunks.
        chunks: The chunks.
        tokens: Of each, before any cut.
        max_tokens: Where this machine's model cuts.
        limit: Below this cosine a pair is an outlier.
        ask_api: Returns how many tokens the API read of a text. Asked for outliers only.
    """
    values = [float(value) for value in cosines(here, api)]
    outliers = []
    for index in sorted((i for i, value in enumerate(values) if value < limit), key=values.__getitem__):
        read = ask_api(chunks[index].text)
        outliers.append(
            Outlier(
                index=index,
                document=chunks[index].document,
                cosine=values[index],
                characters=len(chunks[index].text),
                tokens=tokens[index],
                api_tokens=read,
                reason=_reason(tokens[index], max_tokens, read),
            )
        )
    return Comparison(cosines=values, outliers=outliers)


def _reason(tokens: int, max_tokens: int, read: int | None) -> str:
    of_api = "the API does not say how many it read" if read is None else f"the API read {read}"
    if tokens > max_tokens:
        return f"cut here at {max_tokens} of {tokens} tokens; {of_api}"
    if read is not None and read < tokens:
        return f"cut by the API at {read} tokens; {tokens} were read here"
    return f"unknown: all {tokens} tokens were read here, and {of_api}"
