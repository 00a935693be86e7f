"""Speed of a download from a URL that the user gives. Nothing is contacted otherwise."""

from __future__ import annotations

import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException

__all__ = ["Download", "DownloadError", "download"]

_CHUNK_BYTES = 2**20
_STALL_SECONDS = 15


class DownloadError(Exception):
    """The download failed; the message does not name the URL, which may hold a secret."""


@dataclass(frozen=True, kw_only=True)
class Download:
    """What was downloaded.

    Attributes:
        size_bytes: Received, without headers.
        seconds: From the first byte of the body on.
        first_byte_seconds: Until then: name look-up, connection, answer.
        complete: Whether the body was read to its end, and not to a limit.
    """

    size_bytes: int
    seconds: float
    first_byte_seconds: float
    complete: bool


def download(url: str, *, limit_bytes: int, limit_seconds: float) -> Download:
    """Download and throw away, to the end of the body or to the first limit.

    Proxies from the environment are used; redirects are followed to http and https only.

    Args:
        url: http or https.
        limit_bytes: Read at most this much.
        limit_seconds: Begin no read after this, counted from the first byte.

    Raises:
        DownloadError: No such URL, no answer, no body, or the connection broke.
    """
    begin = time.perf_counter()
    try:
        if urllib.parse.urlsplit(url).scheme not in {"http", "https"}:
            msg = "the URL does not begin with http:// or https://"
            raise DownloadError(msg)
        request = urllib.request.Request(  # noqa: S310  the scheme was looked at above
            url, headers={"User-Agent": "rentbench-preflight", "Accept-Encoding": "identity"}
        )
        with _opener().open(request, timeout=_STALL_SECONDS) as response:
            received, complete = 0, False
            first: float | None = None
            while received < limit_bytes and (first is None or time.perf_counter() - first < limit_seconds):
                part = response.read1(min(_CHUNK_BYTES, limit_bytes - received))
                if first is None:
                    first = time.perf_counter()
                if not part:
                    complete = True
                    break
                received += len(part)
            end = time.perf_counter()
            if complete and response.length:
                msg = f"the connection broke after {received} bytes"
                raise DownloadError(msg)
    except urllib.error.HTTPError as error:
        msg = f"the server answered {error.code}"
        raise DownloadError(msg) from None
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        msg = f"the download failed: {reason if isinstance(reason, str) else type(reason).__name__}"
        raise DownloadError(msg) from None  # the cause may name the URL
    if not received or first is None or end <= first:
        msg = "the download was empty"
        raise DownloadError(msg)
    return Download(
        size_bytes=received, seconds=end - first, first_byte_seconds=first - begin, complete=complete
    )


def _opener() -> urllib.request.OpenerDirector:
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.UnknownHandler(),  # no ftp, no file, also not after a redirect
    ):
        opener.add_handler(handler)
    return opener
