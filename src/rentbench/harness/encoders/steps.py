"""The steps that every embedding suite takes, and what it tells its context when one cannot be taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rentbench.core.errors import ErrorKind
from rentbench.harness.encoders.encoder import Encoder, WrongDeviceError, pick_dtype, unsupported_reason
from rentbench.harness.encoders.sanity import cosines, vector_problem
from rentbench.harness.encoders.sources import ModelSource, find_model, write_random_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from rentbench.harness.context import Context

__all__ = ["check_agreement", "check_vectors", "choose_dtype", "load_encoder", "obtain_model"]

# Batches of other sizes are computed by other kernels, in another order.
_AGREEMENT: Final = {"fp32": 0.9999, "fp16": 0.999, "bf16": 0.99}


def choose_dtype(wanted: str, context: Context) -> str:
    """Return the type to compute in; skips what the GPU would only emulate."""
    dtype = pick_dtype(wanted, context.device)
    capability = None
    if context.device == "cuda":
        import torch

        capability = torch.cuda.get_device_capability()
    reason = unsupported_reason(dtype, capability)
    if reason is not None:
        context.skip(reason)
    return dtype


def obtain_model(weights: str, *, architecture: str, texts: Sequence[str], context: Context) -> ModelSource:
    """Return the model that the setting `weights` names, downloaded or made if need be, and describe it.

    Args:
        weights: "random", a folder, or a repository.
        architecture: Of random weights.
        texts: What a random model's tokenizer is made for.
        context: Of the repeat.
    """
    if weights == "random":
        folder = context.scratch / "model"
        folder.mkdir()
        source = write_random_model(architecture, folder, texts=texts, device=context.device)
    else:
        try:
            with context.phase("download"):
                source = find_model(weights)
        except FileNotFoundError as error:
            context.fail(ErrorKind.MODEL_ACCESS, str(error), hint="see the setting weights")
    context.describe(weights=source.description)
    return source


def load_encoder(source: ModelSource, *, dtype: str, max_tokens: int, context: Context) -> Encoder:
    """Return the model, loaded and seen to work on the device; fails where it is elsewhere.

    To be called within a phase.
    """
    try:
        encoder = Encoder(source.folder, device=context.device, dtype=dtype, max_tokens=max_tokens)
        encoder.check_device("one sentence")
    except WrongDeviceError as error:
        context.fail(ErrorKind.NO_GPU, str(error))
    return encoder


def check_vectors(vectors: NDArray[np.floating], texts: int, context: Context) -> None:
    """Report the hard check `vectors_sane`; fails where it does not hold."""
    problem = vector_problem(vectors, texts)
    detail = problem or "all vectors are finite, have length 1, and differ"
    context.check("vectors_sane", problem is None, detail, severity="hard")
    if problem is not None:
        context.fail(ErrorKind.WRONG_RESULT, problem)


def check_agreement(
    vectors: NDArray[np.floating],
    reference: NDArray[np.floating],
    *,
    sizes: tuple[int, int],
    dtype: str,
    context: Context,
) -> None:
    """Report the hard check `batches_agree`: the same texts give the same vectors in batches of two sizes.

    Args:
        vectors: Of as many texts as `reference`, or of these and more.
        reference: Of the same texts.
        sizes: Batch sizes of the two.
        dtype: What both were computed in.
        context: Of the case.
    """
    lowest, limit = float(cosines(vectors[: len(reference)], reference).min()), _AGREEMENT[dtype]
    context.check(
        "batches_agree",
        lowest >= limit,
        f"the lowest cosine between vectors from batches of {sizes[0]} and of {sizes[1]} is {lowest:.6f}",
        severity="hard",
        value=lowest,
        limit=limit,
        unit="ratio",
    )
