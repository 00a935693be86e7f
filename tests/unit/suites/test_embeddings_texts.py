"""Corpora and passages: what is read, how it is cut, and how many tokens it has."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from corpus_life import process_age_seconds
from corpus_reader import CorpusError, Document, chunk_documents, fingerprint, read_folder
from corpus_synthetic import synthetic_documents
from hypothesis import given
from hypothesis import strategies as st

from support.suites import SUITES

if TYPE_CHECKING:
    from pathlib import Path


def chunks_of(text: str, limit: int = 1200) -> list[str]:
    document = Document(name="a.md", text=text)
    return [chunk.text for chunk in chunk_documents([document], max_characters=limit)]


def test_a_folder_is_read_in_the_order_of_its_paths(tmp_path: Path) -> None:
    for name, text in {
        "b.txt": "last",
        "a/two.mdx": "import X from 'x'\n\n<X />",
        "a/one.md": "\ufeffwith a mark",
        "a/empty.md": " \n",
        "a/picture.png": "no text",
        ".git/description.txt": "hidden",
        "a/.notes.md": "hidden",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    found = {document.name: document.text for document in read_folder(tmp_path)}
    assert list(found) == ["a/one.md", "a/two.mdx", "b.txt"]
    assert found["a/one.md"] == "with a mark"


def test_the_projects_own_documents_are_a_corpus() -> None:
    documents = read_folder(SUITES.parent / "docs")
    chunks = chunk_documents(documents, max_characters=1200)
    assert "harness.md" in {document.name for document in documents}
    assert len(chunks) > len(documents)


def test_a_folder_without_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no folder"):
        read_folder(tmp_path / "absent")
    (tmp_path / "a.pdf").write_bytes(b"%PDF")
    with pytest.raises(CorpusError, match="holds no text"):
        read_folder(tmp_path)
    (tmp_path / "latin.txt").write_bytes("für".encode("latin-1"))
    with pytest.raises(CorpusError, match=r"latin\.txt is not UTF-8: .* at byte 1"):
        read_folder(tmp_path)


def test_paragraphs_fill_a_chunk_and_never_break() -> None:
    assert chunks_of("a" * 600 + "\n\n" + "b" * 598) == ["a" * 600 + "\n\n" + "b" * 598]
    assert chunks_of("a" * 600 + "\n\n" + "b" * 599) == ["a" * 600, "b" * 599]
    assert chunks_of("one\r\n\r\ntwo\n \t\n\n\nthree\nfour") == ["one\n\ntwo\n\nthree\nfour"]


def test_a_long_paragraph_stays_whole_and_alone() -> None:
    assert chunks_of("short\n\n" + "x" * 3533 + "\n\nshort") == ["short", "x" * 3533, "short"]


@given(st.lists(st.text(alphabet="ab \n", min_size=1, max_size=30), max_size=12), st.integers(5, 60))
def test_no_word_is_lost_and_only_whole_paragraphs_are_too_long(parts: list[str], limit: int) -> None:
    text = "\n\n".join(parts)
    chunks = chunks_of(text, limit)
    assert " ".join(chunks).split() == text.split()
    assert all(len(chunk) <= limit or "\n\n" not in chunk for chunk in chunks)


def test_the_fingerprint_is_of_the_texts_and_of_where_they_end() -> None:
    def of(*texts: str) -> str:
        documents = [Document(name=f"{number}.md", text=text) for number, text in enumerate(texts)]
        return fingerprint(chunk_documents(documents, max_characters=1200))

    assert of("a", "b") == of("a", "b")
    assert len({of("a", "b"), of("b", "a"), of("ab"), of("a\n\nb")}) == 4


def test_the_synthetic_corpus_has_the_published_ones_proportions() -> None:
    documents = synthetic_documents(146, seed=42)
    chunks = chunk_documents(documents, max_characters=1200)
    characters = sum(len(chunk.text) for chunk in chunks)
    assert abs(characters - 501_843) < 0.08 * 501_843
    assert abs(len(chunks) - 527) < 0.08 * 527
    assert len([chunk for chunk in chunks if len(chunk.text) > 1200]) == 1
    assert synthetic_documents(3, seed=1) == synthetic_documents(3, seed=1) != synthetic_documents(3, seed=2)


def test_the_age_of_this_process_grows_with_the_clock() -> None:
    first, begin = process_age_seconds(), time.monotonic()
    assert first > 0
    later, end = process_age_seconds(), time.monotonic()
    assert later - first == pytest.approx(end - begin, abs=0.05)
