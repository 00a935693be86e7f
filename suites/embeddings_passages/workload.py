"""Passages of one length into vectors, by batch size. README.md is the method."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from passages_texts import PassageError, make_passages, sample_texts

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
    from numpy.typing import NDArray

    from rentbench.harness.context import Case, Context
    from rentbench.harness.encoders.encoder import Encoder

_REFERENCE = 64  # passages whose vectors are compared between batch sizes, and the batch that they come from


@dataclass(kw_only=True)
class _Repeat:
    """What the cases of one repeat share."""

    encoder: Encoder
    dtype: str
    passages: list[str]
    reference: NDArray[np.floating]


_repeat: _Repeat | None = None


def prepare(context: Context) -> None:
    """Load the model, and make the passages."""
    global _repeat
    settings = context.settings
    dtype = choose_dtype(str(settings["dtype"]), context)
    source = obtain_model(
        str(settings["weights"]),
        architecture=str(settings["architecture"]),
        texts=sample_texts(context.seed),
        context=context,
    )
    tokens = int(settings["passage_tokens"])
    with context.phase("load"):
        encoder = load_encoder(source, dtype=dtype, max_tokens=tokens, context=context)
    try:
        passages = make_passages(
            encoder.tokenizer, count=int(settings["passages"]), tokens=tokens, seed=context.seed
        )
    except PassageError as error:
        context.fail(ErrorKind.USAGE, str(error), hint="see the settings weights and passage_tokens")
    if encoder.max_tokens < tokens:
        context.fail(
            ErrorKind.USAGE, f"the model takes {encoder.max_tokens} tokens at most, a passage has {tokens}"
        )
    context.describe(
        data={
            "kind": "synthetic",
            "name": "words of one token each",
            "revision": None,
            "seed": context.seed,
        }
    )
    reference = encoder.encode(passages[:_REFERENCE], batch_size=_REFERENCE)
    check_vectors(reference, len(passages[:_REFERENCE]), context)
    _repeat = _Repeat(encoder=encoder, dtype=dtype, passages=passages, reference=reference)


def run(case: Case, context: Context) -> None:
    """Measure one batch size."""
    if _repeat is None:
        prepare(context)
    assert _repeat is not None  # noqa: S101  prepare() sees to it
    settings = context.settings
    encoder, passages, batch_size = _repeat.encoder, _repeat.passages, int(case["batch_size"])
    if batch_size > len(passages):
        context.fail(ErrorKind.USAGE, f"a batch of {batch_size} is more than there are passages")
    with context.phase("warm_up"):
        context.timer.warm_up(
            lambda: encoder.encode(passages[:batch_size], batch_size=batch_size),
            minimum=int(settings["warm_up_batches"]),
            limit_seconds=float(settings["warm_up_limit_seconds"]),
            steady_percent=float(settings["steady_percent"]),
        )
    seconds: list[float] = []
    with context.phase("measure"):
        while sum(seconds) < float(settings["measure_seconds"]):
            begin = time.perf_counter()
            vectors = encoder.encode(passages, batch_size=batch_size)
            context.timer.synchronize()
            seconds.append(time.perf_counter() - begin)
    with context.phase("evaluate"):
        check_vectors(vectors, len(passages), context)
        check_agreement(
            vectors,
            _repeat.reference,
            sizes=(batch_size, _REFERENCE),
            dtype=_repeat.dtype,
            context=context,
        )
    rate = len(passages) / statistics.median(seconds)
    context.record("passages_per_second", rate, samples=seconds, samples_unit="s")
    context.record("tokens_per_second", rate * int(settings["passage_tokens"]))
