"""A corpus through an OpenAI-compatible `/v1/embeddings`: batches, a few workers, retries when refused."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from rentbench.core.errors import ErrorKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Vectors: TypeAlias = NDArray[np.float32]

__all__ = ["ApiError", "ApiRun", "EmbeddingsApi"]

_NO_ACCESS: Final = (401, 402, 403, 404)


class ApiError(Exception):
    """The API gave no vectors; `kind` is one of the schema's error kinds."""

    def __init__(self, kind: ErrorKind, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint


@dataclass(frozen=True, kw_only=True)
class _Answer:
    vectors: Vectors
    seconds: float
    waited_seconds: float
    retries: int
    tokens: int | None


@dataclass(frozen=True, kw_only=True)
class ApiRun:
    """What embedding a corpus through the API took.

    Attributes:
        vectors: One for each text, in order.
        seconds: Wall time from the first request to the last answer, waits included.
        request_seconds: Of each request, from its first attempt to its answer.
        waited_seconds: What requests spent in refused attempts and in waiting for the next, added up.
        retries: Attempts that were refused.
        tokens: What the API says that it read; None where an answer does not say.
    """

    vectors: Vectors
    seconds: float
    request_seconds: list[float]
    waited_seconds: float
    retries: int
    tokens: int | None


class EmbeddingsApi:
    """An endpoint and a model there.

    Args:
        endpoint: Base URL, up to and with `/v1`.
        model: Name of the model at the endpoint.
        key: The secret; never part of a message.
        retries: How often a refused request (429, 5xx, a broken connection) is tried again. The wait is what
            the server's Retry-After says, else it doubles.
        timeout_seconds: Of one attempt.

    Raises:
        ApiError: The client cannot be made.
    """

    def __init__(self, *, endpoint: str, model: str, key: str, retries: int, timeout_seconds: float) -> None:
        try:
            import openai
        except ImportError as error:
            raise ApiError(
                ErrorKind.DEPENDENCY_MISSING,
                "the Python package openai is not installed",
                hint="pip install openai",
            ) from error
        self._errors = openai
        self._model = model
        self._client = openai.OpenAI(
            base_url=endpoint, api_key=key, max_retries=retries, timeout=timeout_seconds
        )

    def embed(self, texts: Sequence[str], *, batch_size: int, workers: int) -> ApiRun:
        """Embed all texts, `batch_size` a request, so many requests at once.

        Raises:
            ApiError: A request was refused for good; the other ones are given up.
        """
        batches = [list(texts[start : start + batch_size]) for start in range(0, len(texts), batch_size)]
        begin = time.perf_counter()
        with ThreadPoolExecutor(workers) as pool:
            try:
                answers = list(pool.map(self._request, batches))
            except ApiError:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        seconds = time.perf_counter() - begin
        tokens = [answer.tokens for answer in answers if answer.tokens is not None]
        return ApiRun(
            vectors=np.concatenate([answer.vectors for answer in answers]),
            seconds=seconds,
            request_seconds=[answer.seconds for answer in answers],
            waited_seconds=sum(answer.waited_seconds for answer in answers),
            retries=sum(answer.retries for answer in answers),
            tokens=sum(tokens) if len(tokens) == len(answers) else None,
        )

    def count_tokens(self, text: str) -> int | None:
        """Return how many tokens the API read of one text; None where it does not say.

        Raises:
            ApiError: The request was refused for good.
        """
        return self._request([text]).tokens

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _request(self, texts: list[str]) -> _Answer:
        begin = time.perf_counter()
        try:
            # Plain numbers: not every server has the packed form that the client asks for by itself.
            raw = self._client.embeddings.with_raw_response.create(
                model=self._model, input=texts, encoding_format="float"
            )
            answer = raw.parse()
        except self._errors.OpenAIError as error:
            raise self._explain(error) from error
        except ValueError as error:
            msg = f"the API's answer cannot be read: {error}"
            raise ApiError(ErrorKind.WRONG_RESULT, msg) from error
        seconds = time.perf_counter() - begin
        usage = getattr(answer, "usage", None)
        return _Answer(
            vectors=_vectors(getattr(answer, "data", None) or [], len(texts)),
            seconds=seconds,
            waited_seconds=max(0.0, seconds - raw.elapsed.total_seconds()) if raw.retries_taken else 0.0,
            retries=raw.retries_taken,
            tokens=getattr(usage, "total_tokens", None) or None,  # a server that does not count says 0
        )

    def _explain(self, error: Exception) -> ApiError:
        status = getattr(error, "status_code", None)
        if status in _NO_ACCESS:
            hint = "is OPENAI_API_KEY the endpoint's key, and the model one that it serves?"
            return ApiError(ErrorKind.MODEL_ACCESS, f"the API answered {status}: {error}", hint=hint)
        if status is not None and 400 <= status < 500 and status not in {408, 409, 429}:
            return ApiError(ErrorKind.USAGE, f"the API refused the request with {status}: {error}")
        if status is not None:
            hint = "try again later, or with more api_retries or fewer api_workers"
            return ApiError(
                ErrorKind.NETWORK, f"the API still answered {status} after retries: {error}", hint=hint
            )
        return ApiError(ErrorKind.NETWORK, f"the API gave no answer: {error}")


def _vectors(data: Sequence[Any], texts: int) -> Vectors:
    """Return the vectors of an answer in the order of its texts, whatever order the server chose."""
    if sorted(item.index for item in data) != list(range(texts)):
        msg = f"the API answered {texts} texts with {len(data)} vectors, or numbered them wrongly"
        raise ApiError(ErrorKind.WRONG_RESULT, msg)
    ordered = sorted(data, key=lambda item: item.index)
    if len({len(item.embedding) for item in ordered}) != 1:
        raise ApiError(ErrorKind.WRONG_RESULT, "the API's vectors are not all of one length")
    vectors = np.array([item.embedding for item in ordered], dtype=np.float32)
    if not np.isfinite(vectors).all():
        raise ApiError(ErrorKind.WRONG_RESULT, "the API's vectors hold NaN or infinity")
    return vectors
