"""Words of no language, for texts that nobody has to download. One seed gives the same words everywhere."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import random

__all__ = ["Words"]

_CONSONANTS: Final = "bdfghklmnprstvwz"
_VOWELS: Final = "aeiou"
_CODAS: Final = ("", "", "n", "r", "s", "t")


@dataclass(frozen=True, kw_only=True)
class Words:
    """A vocabulary whose frequent words are short, as in real languages.

    Attributes:
        words: The most frequent first.
    """

    words: tuple[str, ...]

    @classmethod
    def make(cls, count: int, random: random.Random) -> Words:
        """Return so many different words of one to four syllables."""
        found: set[str] = set()
        while len(found) < count:
            syllables = random.choices((1, 2, 3, 4), weights=(1, 5, 6, 2))[0]
            found.add("".join(_syllable(random) for _ in range(syllables)))
        # Sorted before anything depends on the order: a set's differs from process to process.
        return cls(words=tuple(sorted(sorted(found), key=len)))

    def sample(self, count: int, random: random.Random) -> list[str]:
        """Return so many words, each with a probability that falls with its rank (Zipf's law)."""
        return random.choices(self.words, cum_weights=self._weights, k=count)

    @cached_property
    def _weights(self) -> list[float]:
        return list(itertools.accumulate(1 / (rank + 3) for rank in range(len(self.words))))


def _syllable(random: random.Random) -> str:
    return random.choice(_CONSONANTS) + random.choice(_VOWELS) + random.choice(_CODAS)
