"""JSON from providers' APIs: bounded in time and size, tried again where that can help."""

from __future__ import annotations

import email.utils
import json
import re
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import httpx
import tenacity

from rentbench.core.errors import RentbenchError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["CHECK_NETWORK", "SourceError", "get_json"]

CHECK_NETWORK = "check the network; the prices that were read before stay, with their age"

_TIMEOUT = httpx.Timeout(30, connect=10)
_ATTEMPTS = 4
_LONGEST_WAIT_S = 60
_MOST_BYTES = 64 * 1024 * 1024
_HEADER = re.compile(r"[\x21-\x7e]+( [\x21-\x7e]+)*")
_BUSY = {429, 502, 503, 504}


class SourceError(RentbenchError):
    """A source of prices cannot be read; the snapshots that were taken before stay as they are."""


class _BusyError(Exception):
    """The source may answer later.

    Args:
        error: What to say when it never does.
        wait_s: How long it asks to wait; None where it does not say.
    """

    def __init__(self, error: SourceError, wait_s: float | None = None) -> None:
        super().__init__(error.message)
        self.error = error
        self.wait_s = wait_s


def get_json(
    url: str,
    *,
    name: str,
    headers: Mapping[str, str] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> object:
    """Return what a GET of a URL answers, as JSON.

    An answer that says "later" (429, 502, 503, 504) and a connection that breaks are tried again, at most
    three times, after the time that the answer asks for, at most a minute, else after 1, 2 and 4 s.

    Args:
        url: Where to ask.
        name: What messages call the source.
        headers: Such as the API key's; never shown.
        sleep: Waits; for tests.

    Raises:
        SourceError: No network, no permission, no JSON, or nothing but errors.
    """
    for header, value in (headers or {}).items():
        # Checked here, since the HTTP library's own error would show the key.
        if not _HEADER.fullmatch(value):
            msg = f"the header {header} for {name} has a character that no header can have"
            raise SourceError(msg, hint="look for a line end or a special character in the API key")
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(_BusyError),
        stop=tenacity.stop_after_attempt(_ATTEMPTS),
        wait=_wait,
        sleep=sleep,
        reraise=True,
    )
    try:
        return retrying(_get, url, name, dict(headers or {}))
    except _BusyError as busy:
        raise busy.error from busy


def _get(url: str, name: str, headers: dict[str, str]) -> object:
    try:
        # Redirects are not followed: a key goes to the host that it belongs to, and to no other.
        with httpx.stream("GET", url, headers=headers, timeout=_TIMEOUT, follow_redirects=False) as response:
            content = _content(response, name)
    except httpx.TransportError as error:
        told = SourceError(f"{name} cannot be reached: {error or type(error).__name__}", hint=CHECK_NETWORK)
        # Without a network nobody wants to wait; what broke in the middle may work the next time.
        raise (told if isinstance(error, httpx.ConnectError) else _BusyError(told)) from error
    except httpx.InvalidURL as error:
        msg = f"{name} has no valid address: {error}"
        raise SourceError(msg) from error
    if response.status_code != httpx.codes.OK:
        _refuse(response, content, name)
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        kind = response.headers.get("content-type", "no content type")
        msg = f"{name} answered with {kind.partition(';')[0]} that is no JSON"
        raise SourceError(msg, hint="the service may be down, or a proxy may have answered") from error


def _content(response: httpx.Response, name: str) -> bytes:
    parts, size = [], 0
    for part in response.iter_bytes():
        parts.append(part)
        size += len(part)
        if size > _MOST_BYTES:
            msg = f"{name} answered with more than {_MOST_BYTES} bytes"
            raise SourceError(msg)
    return b"".join(parts)


def _refuse(response: httpx.Response, content: bytes, name: str) -> None:
    status = response.status_code
    said = _message(content)
    error = SourceError(
        f"{name} answered {status}{f': {said}' if said else ''}",
        hint={401: "check the API key", 403: "the API key may not read this"}.get(status),
    )
    if status in _BUSY:
        raise _BusyError(error, _retry_after(response.headers.get("retry-after")))
    raise error


def _message(content: bytes) -> str:
    """Return what an error's body says: providers use four shapes."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        return ""
    for key in ("error", "message", "detail", "title"):
        said = body.get(key) if isinstance(body, dict) else None
        if isinstance(said, dict):
            said = said.get("message") or said.get("code")
        if isinstance(said, str) and said:
            return said[:200]
    return ""


def _retry_after(value: str | None) -> float | None:
    """Return the seconds that a Retry-After header asks for, which names seconds or a date."""
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        moment = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (moment.astimezone(UTC) - datetime.now(UTC)).total_seconds())


def _wait(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.wait_s if isinstance(error, _BusyError) else None
    return min(asked if asked is not None else 2.0 ** (state.attempt_number - 1), _LONGEST_WAIT_S)
