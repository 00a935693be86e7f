"""What ssh's own words mean, and what to do."""

from __future__ import annotations

import re

from rentbench.core.errors import ErrorKind
from rentbench.driver.failures import Failure

__all__ = ["ssh_failure"]

_MEANINGS: tuple[tuple[str, ErrorKind, str, str], ...] = (
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key verification failed",
        ErrorKind.HOST_FAULT,
        "{host} shows another host key than the one that is known for it",
        "a machine that was made anew, or somebody between: when you know why, ssh-keygen -R {host}",
    ),
    (
        r"Permission denied \(|Too many authentication failures",
        ErrorKind.PERMISSION_DENIED,
        "{host} does not let this user in with any key that ssh has here",
        "does ssh -o BatchMode=yes USER@{host} work? A key with a passphrase must be in the agent",
    ),
    (
        r"Could not resolve hostname",
        ErrorKind.NETWORK,
        "there is no host {host}",
        "is its name spelled right, and does this network's name service know it?",
    ),
    (
        r"Connection refused",
        ErrorKind.NETWORK,
        "{host} refuses connections on ssh's port",
        "is the port right (ssh://USER@HOST:PORT), and is sshd up? A fresh machine may need a minute",
    ),
    (
        r"timed out|No route to host|Network is unreachable",
        ErrorKind.NETWORK,
        "{host} does not answer",
        "is the machine running, and is ssh's port open for this network?",
    ),
)


def ssh_failure(text: str, host: str) -> Failure:
    """Return the failure that ssh's standard error means.

    Args:
        text: What ssh wrote.
        host: Whom it was to reach.
    """
    words = " ".join(text.split())[-500:]
    for pattern, kind, message, hint in _MEANINGS:
        if re.search(pattern, text):
            return Failure(
                kind=kind, message=message.format(host=host), hint=hint.format(host=host), log_tail=words
            )
    return Failure(
        kind=ErrorKind.NETWORK,
        message=f"ssh to {host} failed: {words or 'it said nothing'}",
        hint=f"does ssh -o BatchMode=yes USER@{host} work?",
    )
