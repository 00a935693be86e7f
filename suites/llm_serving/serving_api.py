"""What the suite asks an OpenAI-compatible server itself: is it there, which model, what has it counted."""

from __future__ import annotations

import http.client
import json
import re
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Api", "Counters", "base_url", "read_counters"]

_SECONDS: Final = 10.0
_SETTLE_SECONDS: Final = 5.0
_SAMPLE: Final = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(?:\{[^}]*\})?\s+(?P<value>\S+)")
# Counters had no `_total` before prometheus_client added it, and vLLM sums each over its engines by labels.
_NAMES: Final = {
    "prompt_tokens": "vllm:prompt_tokens",
    "generation_tokens": "vllm:generation_tokens",
    "requests": "vllm:request_success",
    "prefix_cache_hits": "vllm:prefix_cache_hits",
    "prefix_cache_queries": "vllm:prefix_cache_queries",
    "latency_seconds": "vllm:e2e_request_latency_seconds_sum",
    "latency_count": "vllm:e2e_request_latency_seconds_count",
}


@dataclass(frozen=True, kw_only=True)
class Counters:
    """What a server has counted since its start, or between two readings; None where it does not say.

    Attributes:
        prompt_tokens: Tokens of prompts.
        generation_tokens: Tokens made.
        requests: Requests that ended well.
        prefix_cache_hits: Prompt tokens that came out of the prefix cache.
        prefix_cache_queries: Prompt tokens that were looked for there.
        latency_seconds: Of all requests, added up, from arrival to the last token.
        latency_count: How many requests that are.
    """

    prompt_tokens: float | None
    generation_tokens: float | None
    requests: float | None
    prefix_cache_hits: float | None
    prefix_cache_queries: float | None
    latency_seconds: float | None
    latency_count: float | None

    def since(self, before: Counters) -> Counters:
        """Return what was counted after `before`."""
        differences = {}
        for name in _NAMES:
            now, then = getattr(self, name), getattr(before, name)
            differences[name] = None if now is None or then is None else now - then
        return Counters(**differences)


def read_counters(text: str) -> Counters:
    """Return vLLM's counters from the text of its `/metrics`; those of several engines are added up."""
    sums: dict[str, float] = {}
    for line in text.splitlines():
        match = _SAMPLE.match(line)
        if match:
            name = match["name"].removesuffix("_total")
            try:
                sums[name] = sums.get(name, 0.0) + float(match["value"])
            except ValueError:
                continue
    return Counters(**{field: sums.get(name) for field, name in _NAMES.items()})


def base_url(endpoint: str) -> str:
    """Return a server's address without `/v1` and slashes at its end.

    Raises:
        ValueError: It is no address of a web server, or holds a password.
    """
    parts = urlsplit(endpoint)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        msg = "endpoint must be like http://127.0.0.1:8000 or https://api.example.com/v1"
        raise ValueError(msg)
    if parts.username or parts.password:
        msg = "endpoint must hold no user or password: the key comes from an environment variable"
        raise ValueError(msg)
    return endpoint.rstrip("/").removesuffix("/v1").rstrip("/")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows nobody: the key is for the server that was named."""

    def redirect_request(self, *_: Any, **__: Any) -> None:  # noqa: ANN401
        """Return no request."""


class Api:
    """A server by its address.

    Args:
        url: As `base_url` returns it.
        key: The secret that it wants; None where it wants none. It goes into a header and nowhere else.
    """

    def __init__(self, url: str, key: str | None = None) -> None:
        self.url = url
        self._headers: Mapping[str, str] = {"Authorization": f"Bearer {key}"} if key else {}
        local = urlsplit(url).hostname in {"127.0.0.1", "::1", "localhost"}
        self._opener = urllib.request.build_opener(
            _NoRedirect, *([urllib.request.ProxyHandler({})] if local else [])
        )

    def healthy(self) -> bool:
        """Say whether `/health` answers well."""
        return self._get("/health") is not None

    def models(self) -> list[str] | None:
        """Return the names of the models that it serves; None where it does not answer."""
        answer = self._get("/v1/models")
        try:
            return None if answer is None else [str(model["id"]) for model in json.loads(answer)["data"]]
        except (ValueError, KeyError, TypeError):
            return None

    def version(self) -> str | None:
        """Return vLLM's version; None where the server does not say."""
        answer = self._get("/version")
        try:
            return None if answer is None else str(json.loads(answer)["version"])
        except (ValueError, KeyError, TypeError):
            return None

    def counters(self) -> Counters:
        """Return what it has counted since its start."""
        return read_counters(self._get("/metrics") or "")

    def counters_after(self, before: Counters, requests: int) -> Counters:
        """Return what it has counted since `before`, once that covers so many requests.

        A server may count a moment after it has answered: it is waited for, some seconds at most.
        """
        until = time.monotonic() + _SETTLE_SECONDS
        while True:
            since = self.counters().since(before)
            if since.requests is None or since.requests >= requests or time.monotonic() > until:
                return since
            time.sleep(0.1)

    def _get(self, path: str) -> str | None:
        request = urllib.request.Request(self.url + path, headers=dict(self._headers))  # noqa: S310
        try:
            with self._opener.open(request, timeout=_SECONDS) as answer:
                return str(answer.read().decode("utf-8", "replace"))
        except (OSError, urllib.error.URLError, http.client.HTTPException):
            return None
