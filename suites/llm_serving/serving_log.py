"""What vLLM's own log tells: how far the start is, how long its stages took, and why it ended."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rentbench.core.errors import ErrorKind
from rentbench.harness.failures.classify import classify

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Failure", "StartStages", "explain", "explain_requests", "read_stages"]

_SECONDS: Final = r"(?P<seconds>[\d.]+) ?s(?:ec|ecs|econds)?\b"
_LOADED: Final = re.compile(rf"Model loading took (?P<memory>[\d.]+) GiB.*? and {_SECONDS}")
_WEIGHTS: Final = re.compile(rf"Loading weights took {_SECONDS}")
_COMPILED: Final = re.compile(rf"torch\.compile (?:takes|took) {_SECONDS}")
_CAPTURED: Final = re.compile(rf"Graph capturing finished in {_SECONDS}")
_INITIALISED: Final = re.compile(rf"init engine \(.*?\) took {_SECONDS}")
_KV_TOKENS: Final = re.compile(r"KV cache size: (?P<tokens>[\d,]+) tokens")


@dataclass(frozen=True, kw_only=True)
class StartStages:
    """What the log tells of a start; None where it does not.

    Attributes:
        weights_seconds: Reading (or drawing) the weights.
        load_seconds: The model onto the device, weights included.
        memory_gib: Of the weights, in GiB.
        compile_seconds: torch.compile.
        capture_seconds: CUDA graphs.
        engine_seconds: Everything after loading: profiling, cache, compilation and capture.
        kv_cache_tokens: How many tokens the cache holds.
    """

    weights_seconds: float | None
    load_seconds: float | None
    memory_gib: float | None
    compile_seconds: float | None
    capture_seconds: float | None
    engine_seconds: float | None
    kv_cache_tokens: int | None

    @property
    def sentence(self) -> str:
        """What is known, in words."""
        told = (
            ("weights in {:g} s", self.weights_seconds),
            ("model loaded in {:g} s", self.load_seconds),
            ("{:g} GiB of weights", self.memory_gib),
            ("torch.compile {:g} s", self.compile_seconds),
            ("CUDA graphs {:g} s", self.capture_seconds),
            ("engine ready after another {:g} s", self.engine_seconds),
            ("KV cache of {:,} tokens", self.kv_cache_tokens),
        )
        return ", ".join(text.format(value) for text, value in told if value is not None) or "nothing"


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a server or a load client ended."""

    kind: ErrorKind
    message: str
    hint: str | None


def read_stages(log: str) -> StartStages:
    """Return what a server's log tells of its start."""

    def seconds(pattern: re.Pattern[str]) -> float | None:
        match = pattern.search(log)
        return float(match["seconds"]) if match else None

    loaded, cache = _LOADED.search(log), _KV_TOKENS.search(log)
    return StartStages(
        weights_seconds=seconds(_WEIGHTS),
        load_seconds=seconds(_LOADED),
        memory_gib=float(loaded["memory"]) if loaded else None,
        compile_seconds=seconds(_COMPILED),
        capture_seconds=seconds(_CAPTURED),
        engine_seconds=seconds(_INITIALISED),
        kv_cache_tokens=int(cache["tokens"].replace(",", "")) if cache else None,
    )


# What vLLM alone says; the harness knows the rest (memory, driver, data types).
_OWN: Final = (
    (
        re.compile(r"\[Errno 98\].*|.*[Aa]ddress already in use.*"),
        ErrorKind.USAGE,
        "another program has the port: leave port=0, and a free one is taken",
    ),
    (
        re.compile(r".*model's max seq len.*KV cache.*|.*KV cache is needed, which is larger than.*"),
        ErrorKind.OOM,
        "no room for one request's cache: lower max_model_len, or raise gpu_memory_utilization",
    ),
    (
        re.compile(r".*max_model_len.*is greater than the derived max_model_len.*"),
        ErrorKind.USAGE,
        "the model takes fewer tokens than max_model_len: lower it",
    ),
    (
        re.compile(r".*Failed to infer device type.*|.*Device string must not be empty.*"),
        ErrorKind.UNSUPPORTED_PLATFORM,
        "this vLLM is built for GPUs: take a CPU build, or measure a server by --set endpoint=URL",
    ),
    (
        re.compile(r".*No module named '?vllm.*"),
        ErrorKind.DEPENDENCY_MISSING,
        "install vLLM, or take the image `vllm`",
    ),
)


def explain(log: str, returncode: int | None) -> Failure:
    """Return why a process ended, from what it printed, else from its exit code."""
    for pattern, kind, hint in _OWN:
        match = pattern.search(log)
        if match:
            return Failure(kind=kind, message=match[0].strip()[-1000:], hint=hint)
    found = classify(log, returncode=returncode)
    return Failure(kind=ErrorKind(found["kind"]), message=found["message"], hint=found["hint"])


# What the load client keeps of an answer that was no success: its status line, or the exception's end.
_REFUSED: Final = (
    (
        re.compile(r"Unauthorized|Forbidden|Payment Required"),
        ErrorKind.MODEL_ACCESS,
        "the server wants a key that may use the model: give it in the environment variable of key_variable",
    ),
    (
        re.compile(r"Too Many Requests|Service Unavailable"),
        ErrorKind.NETWORK,
        "the server refuses so many requests at once: measure fewer, or another day",
    ),
    (
        re.compile(r"Not Found"),
        ErrorKind.USAGE,
        "the server has no such model or path: see the settings model and api",
    ),
    (
        re.compile(r"Bad Request|Unprocessable"),
        ErrorKind.USAGE,
        "the server takes no such requests: are input_tokens and output_tokens within its limit?",
    ),
)


def explain_requests(errors: Iterable[str]) -> Failure:
    """Return why requests failed, from what the load client kept of them."""
    text = "\n".join(errors)
    for pattern, kind, hint in _REFUSED:
        match = pattern.search(text)
        if match:
            return Failure(kind=kind, message=match[0], hint=hint)
    last = text.strip().splitlines()[-1][-500:] if text.strip() else "the client does not say why"
    if re.search(r"[Cc]annot connect|ConnectionRefused|[Dd]isconnected|ConnectionReset|ClientPayload", text):
        return Failure(kind=ErrorKind.NETWORK, message=last, hint="the server is gone, or not reachable")
    return Failure(kind=ErrorKind.WRONG_RESULT, message=last, hint=None)
