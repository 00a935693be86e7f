"""Result files of `vllm bench serve`, of any release and in the layouts that others make of them."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["LATENCIES", "STATISTICS", "Bench", "ResultError", "read_bench"]

LATENCIES: Final = ("ttft", "tpot", "itl", "e2el")
STATISTICS: Final = ("mean", "median", "p90", "p99")

# `median_ttft_ms` is vLLM's own; without a unit, as some harnesses write it, it is seconds.
_FIGURE: Final = re.compile(
    r"(?P<statistic>mean|median|std|p\d+(?:\.\d+)?)_(?P<latency>ttft|tpot|itl|e2el)(?P<unit>_ms|_s)?"
)


class ResultError(ValueError):
    """The text is no result of a serving benchmark, or contradicts itself."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What the load client counted.

    Attributes:
        requested: Requests that were to be sent.
        completed: Requests that were answered in full.
        duration_seconds: From the first request to the last answer.
        input_tokens: Of the completed requests, as the client's tokenizer counts.
        output_tokens: Of the completed requests.
        milliseconds: Latencies by (statistic, latency), such as ("p99", "ttft"). What was not measured is
            absent: never 0.
        request_samples: Latencies of single requests in milliseconds by name (ttft, tpot, e2el); empty where
            the file does not have them.
        goodput: Requests a second that met the goals; None where no goals were set.
        errors: What failed requests ended with, each once.
        unknown: Names of figures that were no finite numbers.
    """

    requested: int
    completed: int
    duration_seconds: float
    input_tokens: int
    output_tokens: int
    milliseconds: dict[tuple[str, str], float]
    request_samples: dict[str, list[float]]
    goodput: float | None
    errors: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def output_rate(self) -> float:
        """Output tokens a second."""
        return self.output_tokens / self.duration_seconds

    @property
    def total_rate(self) -> float:
        """Input and output tokens a second."""
        return (self.input_tokens + self.output_tokens) / self.duration_seconds

    @property
    def request_rate(self) -> float:
        """Completed requests a second."""
        return self.completed / self.duration_seconds

    @property
    def user_rate(self) -> float | None:
        """Output tokens a second as one user sees them: 1000 ÷ median TPOT in ms."""
        tpot = self.milliseconds.get(("median", "tpot"))
        return 1000 / tpot if tpot else None


def read_bench(text: str | bytes) -> Bench:
    """Read a result file.

    Raises:
        ResultError: It is no JSON object, lacks a count, or its numbers contradict each other.
    """
    document = _document(text)
    completed = _count(document, "completed")
    failed = _count(document, "failed") if document.get("failed") is not None else None
    requested = (
        completed + (failed or 0) if document.get("num_prompts") is None else _count(document, "num_prompts")
    )
    if completed > requested:
        msg = f"{completed} requests completed of {requested} that were sent"
        raise ResultError(msg)
    duration = _number(document.get("duration"))
    if duration is None or duration <= 0:
        msg = f"the duration is {document.get('duration')!r}"
        raise ResultError(msg)
    # With nothing completed the client writes 0.0 for every latency: nothing was measured.
    milliseconds, unknown = _figures(document) if completed else ({}, [])
    output_tokens = _count(document, "total_output_tokens")
    rate = _number(document.get("output_throughput"))
    if completed and rate and not math.isclose(rate, output_tokens / duration, rel_tol=0.01):
        msg = f"{output_tokens} output tokens in {duration:.3f} s are not {rate:.1f} tokens/s"
        raise ResultError(msg)
    return Bench(
        requested=requested,
        completed=completed,
        duration_seconds=duration,
        input_tokens=_count(document, "total_input_tokens"),
        output_tokens=output_tokens,
        milliseconds=milliseconds,
        request_samples=_request_samples(document),
        # vLLM before 0.10 wrote the name with its colon.
        goodput=_number(document.get("request_goodput", document.get("request_goodput:"))),
        errors=tuple(sorted({str(error).strip() for error in document.get("errors") or () if error})),
        unknown=tuple(unknown),
    )


def _document(text: str | bytes) -> dict[str, Any]:
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8-sig")
        document = json.loads(text)
    except ValueError as error:
        msg = f"the load client's result is no JSON: {error}"
        raise ResultError(msg) from error
    if not isinstance(document, dict):
        msg = f"the load client's result is a {type(document).__name__}, not an object"
        raise ResultError(msg)
    return document


def _number(value: Any) -> float | None:  # noqa: ANN401 (any JSON value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _count(document: dict[str, Any], name: str) -> int:
    value = _number(document.get(name))
    if value is None or value < 0 or value != int(value):
        msg = f"{name} is {document.get(name)!r}, and a serving result has a count there"
        raise ResultError(msg)
    return int(value)


def _figures(document: dict[str, Any]) -> tuple[dict[tuple[str, str], float], list[str]]:
    found: dict[tuple[str, str], float] = {}
    unknown = []
    for name, value in document.items():
        match = _FIGURE.fullmatch(name)
        if match is None or value is None:
            continue
        number = _number(value)
        if number is None:
            unknown.append(name)
        elif number > 0:  # a latency of 0 stands for none, as TPOT where one token was made
            statistic = "median" if match["statistic"] == "p50" else match["statistic"]
            found.setdefault((statistic, match["latency"]), number * (1 if match["unit"] == "_ms" else 1000))
    return found, unknown


def _request_samples(document: dict[str, Any]) -> dict[str, list[float]]:
    """Return each request's latencies in ms; a failed one has no output, and 0.0 for its first token."""
    firsts, gaps, lengths = (document.get(name) for name in ("ttfts", "itls", "output_lens"))
    if not (isinstance(firsts, list) and isinstance(gaps, list) and isinstance(lengths, list)):
        return {}
    samples: dict[str, list[float]] = {"ttft": [], "tpot": [], "e2el": []}
    if not len(firsts) == len(gaps) == len(lengths):
        return {}
    for first, between, length in zip(firsts, gaps, lengths, strict=True):
        if not length or not first or not isinstance(between, list):
            continue
        samples["ttft"].append(1000 * first)
        samples["e2el"].append(1000 * (first + sum(between)))
        if length > 1:
            samples["tpot"].append(1000 * sum(between) / (length - 1))
    return {name: values for name, values in samples.items() if values}
