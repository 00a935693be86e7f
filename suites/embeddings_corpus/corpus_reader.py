"""A corpus: the texts of a folder, cut into chunks on paragraph boundaries."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

__all__ = ["Chunk", "CorpusError", "Document", "chunk_documents", "fingerprint", "read_folder"]

SUFFIXES: Final = frozenset({".md", ".mdx", ".markdown", ".txt"})
_BLANK_LINE: Final = re.compile(r"\n[^\S\n]*\n\s*")
_BETWEEN: Final = "\n\n"


class CorpusError(Exception):
    """No text can be read there; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Document:
    """One text of a corpus."""

    name: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """A part of a document: what becomes one vector."""

    document: str
    text: str


def read_folder(folder: Path) -> list[Document]:
    """Return the Markdown, MDX and text files below a folder, in the order of their paths.

    They are read as they are, mark-up included. Hidden files and folders, and empty files, are left out.

    Raises:
        CorpusError: The folder is not there, holds no such file, or a file is not UTF-8.
    """
    if not folder.is_dir():
        msg = f"there is no folder {folder}"
        raise CorpusError(msg)
    documents = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        hidden = any(part.startswith(".") for part in name.split("/"))
        if hidden or path.suffix.lower() not in SUFFIXES or not path.is_file():
            continue
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            msg = f"{name} is not UTF-8: {error.reason} at byte {error.start}"
            raise CorpusError(msg) from error
        if text.strip():
            documents.append(Document(name=name, text=text))
    if not documents:
        msg = f"{folder} holds no text: no file ends in {', '.join(sorted(SUFFIXES))}"
        raise CorpusError(msg)
    return documents


def chunk_documents(documents: Iterable[Document], *, max_characters: int) -> list[Chunk]:
    """Cut documents into chunks of whole paragraphs.

    As many paragraphs as fit into `max_characters` go into one chunk. A paragraph that is longer than that
    stays whole, as a chunk of its own: the model will cut it, and that is told.
    """
    return [
        Chunk(document=document.name, text=text)
        for document in documents
        for text in _chunk(document.text, max_characters)
    ]


def fingerprint(chunks: Sequence[Chunk]) -> str:
    """Return `sha256:…` over the chunks' texts: two results with the same one embedded the same."""
    digest = hashlib.sha256()
    for chunk in chunks:
        raw = chunk.text.encode()
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return f"sha256:{digest.hexdigest()}"


def _chunk(text: str, max_characters: int) -> list[str]:
    chunks: list[str] = []
    for paragraph in _BLANK_LINE.split(text.replace("\r\n", "\n").strip()):
        joined = _BETWEEN.join([*chunks[-1:], paragraph])
        if chunks and len(joined) <= max_characters:
            chunks[-1] = joined
        else:
            chunks.append(paragraph)
    return chunks
