"""A corpus into vectors, on this machine and through an API. README.md is the method."""

from __future__ import annotations

import csv
import io
import json
import os
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from corpus_api import ApiError, EmbeddingsApi
from corpus_comparison import compare
from corpus_life import process_age_seconds
from corpus_reader import Chunk, CorpusError, chunk_documents, fingerprint, read_folder
from corpus_synthetic import synthetic_documents

from rentbench.core.errors import ErrorKind
from rentbench.harness.encoders.steps import (
    check_agreement,
    check_vectors,
    choose_dtype,
    load_encoder,
    obtain_model,
)

if TYPE_CHECKING:
    import numpy as np
    from corpus_api import ApiRun
    from numpy.typing import NDArray

    from rentbench.harness.context import Case, Context
    from rentbench.harness.encoders.encoder import Encoder
    from rentbench.harness.encoders.sources import ModelSource

_WARM_UP_BATCH = 64
_COMPARED = 100
_KEY_VARIABLE = "OPENAI_API_KEY"
_NEEDED = {
    "corpus": {"work", "passes", "batch_size"},
    "api": {"work", "batch_size"},
    "fixed": {"work"},
}


@dataclass(kw_only=True)
class _Repeat:
    """What the cases of one repeat share; `encoder` is None after `fixed` has closed it."""

    documents: int
    chunks: list[Chunk]
    source: ModelSource
    dtype: str
    encoder: Encoder | None
    tokens: list[int]
    max_tokens: int
    first_vectors: NDArray[np.floating]
    setup_seconds: float
    load_seconds: float

    @property
    def seen_tokens(self) -> int:
        """What the model sees of the corpus: special tokens included, what is cut and padding left out."""
        return sum(min(count, self.max_tokens) for count in self.tokens)


_repeat: _Repeat | None = None


def prepare(context: Context) -> None:
    """Read the corpus, load the model, and warm up."""
    global _repeat
    dtype = choose_dtype(str(context.settings["dtype"]), context)
    setup_seconds = _set_up(context)
    documents, chunks = _read_corpus(context)
    texts = [chunk.text for chunk in chunks]
    source = obtain_model(
        str(context.settings["weights"]),
        architecture=str(context.settings["architecture"]),
        texts=texts,
        context=context,
    )
    with context.phase("load"):
        begin = time.perf_counter()
        encoder = load_encoder(
            source, dtype=dtype, max_tokens=int(context.settings["max_seq_length"]), context=context
        )
        context.timer.synchronize()
        load_seconds = time.perf_counter() - begin
    with context.phase("warm_up"):
        warm_up = [texts[index % len(texts)] for index in range(int(context.settings["warm_up_chunks"]))]
        encoder.encode(warm_up, batch_size=_WARM_UP_BATCH)
    first = texts[:_COMPARED]
    first_vectors = encoder.encode(first, batch_size=_WARM_UP_BATCH)
    check_vectors(first_vectors, len(first), context)
    _repeat = _Repeat(
        documents=documents,
        chunks=chunks,
        source=source,
        dtype=dtype,
        encoder=encoder,
        tokens=encoder.token_counts(texts),
        max_tokens=encoder.max_tokens,
        first_vectors=first_vectors,
        setup_seconds=setup_seconds,
        load_seconds=load_seconds,
    )
    if context.repeat == 0:
        context.artifact("chunks.csv", _chunk_table(_repeat), "Chunks of the corpus with their token counts")


def run(case: Case, context: Context) -> None:
    """Measure one case."""
    if _repeat is None:
        prepare(context)
    assert _repeat is not None  # noqa: S101  prepare() sees to it
    work = str(case.get("work"))
    if set(case) != _NEEDED[work]:
        needed = ", ".join(sorted(_NEEDED[work]))
        context.fail(ErrorKind.USAGE, f"a case of work={work} has the parameters {needed}")
    if work == "corpus":
        _embed_corpus(_repeat, int(case["passes"]), int(case["batch_size"]), context)
    elif work == "api":
        _embed_through_api(_repeat, int(case["batch_size"]), context)
    else:
        _measure_fixed(_repeat, context)


def _embed_corpus(repeat: _Repeat, passes: int, batch_size: int, context: Context) -> None:
    encoder = _opened(repeat, context)
    texts = [chunk.text for chunk in repeat.chunks] * passes
    with context.phase("measure"):
        begin = time.perf_counter()
        vectors = encoder.encode(texts, batch_size=batch_size)
        context.timer.synchronize()
        seconds = time.perf_counter() - begin
    with context.phase("evaluate"):
        check_vectors(vectors, len(texts), context)
        check_agreement(
            vectors,
            repeat.first_vectors,
            sizes=(batch_size, _WARM_UP_BATCH),
            dtype=repeat.dtype,
            context=context,
        )
    context.record("tokens_per_second", repeat.seen_tokens * passes / seconds)
    context.record("chunks_per_second", len(texts) / seconds)
    context.record("seconds", seconds)
    truncated = [count for count in repeat.tokens if count > repeat.max_tokens]
    context.record("documents", repeat.documents)
    context.record("chunks", len(repeat.chunks))
    context.record("characters", sum(len(chunk.text) for chunk in repeat.chunks))
    context.record("tokens", repeat.seen_tokens)
    context.record("chunks_cut", len(truncated))
    context.record("tokens_cut", sum(truncated) - len(truncated) * repeat.max_tokens)


def _embed_through_api(repeat: _Repeat, batch_size: int, context: Context) -> None:
    endpoint, model = str(context.settings["endpoint"]), str(context.settings["api_model"])
    if not endpoint:
        context.skip("no endpoint was given: --set endpoint=https://…/v1, and its key in OPENAI_API_KEY")
    texts = [chunk.text for chunk in repeat.chunks]
    try:
        api = EmbeddingsApi(
            endpoint=endpoint,
            model=model,
            # The client wants a key, also where a server of one's own asks for none.
            key=os.environ.get(_KEY_VARIABLE) or "none",
            retries=int(context.settings["api_retries"]),
            timeout_seconds=float(context.settings["api_timeout_seconds"]),
        )
        with context.phase("measure"):
            done = api.embed(texts, batch_size=batch_size, workers=int(context.settings["api_workers"]))
        with context.phase("evaluate"):
            _compare(repeat, done, api, context)
        api.close()
    except ApiError as error:
        context.fail(error.kind, error.message, hint=error.hint)
    context.record("seconds", done.seconds)
    context.record("chunks_per_second", len(texts) / done.seconds)
    context.record("chunks", len(texts))
    context.record(
        "request_seconds",
        statistics.median(done.request_seconds),
        samples=done.request_seconds,
        samples_unit="s",
    )
    context.record("waited_seconds", done.waited_seconds)
    context.record("retries", done.retries)
    if done.tokens is not None:
        context.record("tokens", done.tokens)
        context.record("tokens_per_second", done.tokens / done.seconds)


def _compare(repeat: _Repeat, done: ApiRun, api: EmbeddingsApi, context: Context) -> None:
    """Compare the first vectors with this machine's, and say which differ and why."""
    name, limit = "vectors_agree", float(context.settings["cosine_limit"])
    if repeat.source.kind == "random":
        context.check(
            name, None, "this machine's weights are random: its vectors mean nothing to compare with"
        )
        return
    here = repeat.first_vectors
    if done.vectors.shape[1] != here.shape[1]:
        context.fail(
            ErrorKind.WRONG_RESULT,
            f"the API's vectors have {done.vectors.shape[1]} dimensions, this machine's {here.shape[1]}",
            hint="the two sides must embed with the same model: see api_model and weights",
        )
    compared = compare(
        here,
        done.vectors[: len(here)],
        repeat.chunks,
        tokens=repeat.tokens,
        max_tokens=repeat.max_tokens,
        limit=limit,
        ask_api=api.count_tokens,
    )
    context.record("cosine_min", min(compared.cosines))
    context.record("cosine_median", compared.median)
    context.record("outliers", len(compared.outliers))
    text = json.dumps(compared.document(), indent=1)
    context.artifact(
        f"comparison-{context.repeat}.json", text, "Cosines with the API's vectors, and the outliers"
    )
    listed = "".join(f"; {outlier.text}" for outlier in compared.outliers)
    detail = (
        f"{len(compared.unexplained)} of {len(here)} vectors differ from the API's for an unknown reason, "
        f"{len(compared.outliers) - len(compared.unexplained)} because a text was cut{listed}"
    )
    unexplained = len(compared.unexplained)
    context.check(name, not unexplained, detail, value=unexplained, limit=0, unit="count")


def _measure_fixed(repeat: _Repeat, context: Context) -> None:
    """Record what a job costs beside its work. Closes the model: the last case of a repeat."""
    encoder = _opened(repeat, context)
    begin = time.perf_counter()
    repeat.encoder = None
    encoder.close()
    context.record("setup_seconds", repeat.setup_seconds)
    context.record("load_seconds", repeat.load_seconds)
    context.record("shutdown_seconds", time.perf_counter() - begin)


def _set_up(context: Context) -> float:
    """Load the libraries and wake the device; return the seconds since this process began."""
    import sentence_transformers  # noqa: F401  loading it is what is timed

    torch.zeros(1, device=context.device)
    context.timer.synchronize()
    return process_age_seconds()


def _read_corpus(context: Context) -> tuple[int, list[Chunk]]:
    """Return the number of documents, and the chunks."""
    data, seed = str(context.settings["data"]), context.seed
    synthetic = data == "synthetic"
    try:
        documents = (
            synthetic_documents(int(context.settings["synthetic_documents"]), seed)
            if synthetic
            else read_folder(Path(data).expanduser())
        )
    except CorpusError as error:
        context.fail(ErrorKind.USAGE, f"the corpus cannot be read: {error}", hint="see the setting data")
    chunks = chunk_documents(documents, max_characters=int(context.settings["chunk_characters"]))
    context.describe(
        data={
            "kind": "synthetic" if synthetic else "dataset",
            "name": "words of no language" if synthetic else Path(data).expanduser().resolve().name,
            "revision": fingerprint(chunks),
            "seed": seed if synthetic else None,
        }
    )
    return len(documents), chunks


def _opened(repeat: _Repeat, context: Context) -> Encoder:
    if repeat.encoder is None:
        context.fail(ErrorKind.USAGE, "work=fixed closed the model: it must be the last case")
    return repeat.encoder


def _chunk_table(repeat: _Repeat) -> str:
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["index", "document", "characters", "tokens", "tokens_seen"])
    for index, (chunk, count) in enumerate(zip(repeat.chunks, repeat.tokens, strict=True)):
        seen = min(count, repeat.max_tokens)
        writer.writerow([index, chunk.document, len(chunk.text), count, seen])
    return table.getvalue()
