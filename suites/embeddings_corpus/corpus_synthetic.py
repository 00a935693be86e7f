"""A corpus of no language, of the published one's proportions: for a machine that has no text of its own."""

from __future__ import annotations

from random import Random
from typing import Final

from corpus_reader import Document

from rentbench.harness.encoders.words import Words

__all__ = ["synthetic_documents"]

# The published corpus: 146 documents, 501,843 characters, 527 chunks; one chunk of 3,533 characters.
_DOCUMENT_CHARACTERS: Final = 501_843 / 146
_LONG_PARAGRAPH_CHARACTERS: Final = 3533
_DOCUMENTS_FOR_ONE_LONG_PARAGRAPH: Final = 146
_PARAGRAPH_CHARACTERS: Final = (40, 450)
_VOCABULARY: Final = 6000


def synthetic_documents(count: int, seed: int) -> list[Document]:
    """Return so many documents: paragraphs of sentences, in every 146th one that models will cut."""
    random = Random(seed)  # noqa: S311  no secret
    words = Words.make(_VOCABULARY, random)
    documents = []
    for number in range(count):
        wanted = _DOCUMENT_CHARACTERS * random.uniform(0.2, 1.8)
        paragraphs: list[str] = []
        if number % _DOCUMENTS_FOR_ONE_LONG_PARAGRAPH == 0:
            paragraphs.append(_paragraph(words, _LONG_PARAGRAPH_CHARACTERS, random))
        # The last paragraph goes beyond what is wanted by about half of one.
        while sum(map(len, paragraphs)) < wanted - sum(_PARAGRAPH_CHARACTERS) / 4:
            paragraphs.append(_paragraph(words, random.randint(*_PARAGRAPH_CHARACTERS), random))
        documents.append(Document(name=f"synthetic-{number:04}", text="\n\n".join(paragraphs)))
    return documents


def _paragraph(words: Words, characters: int, random: Random) -> str:
    sentences: list[str] = []
    length = 0
    while length < characters:
        sentence = " ".join(words.sample(random.randint(6, 22), random)).capitalize() + "."
        sentences.append(sentence)
        length += len(sentence) + 1
    return " ".join(sentences)
