"""From the name of a host to its engine."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from rentbench.driver.engine import Engine, connect
from rentbench.driver.ssh import open_ssh_host, parse_address

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rentbench.driver.local import LocalGpus

__all__ = ["open_host"]


@contextlib.contextmanager
def open_host(name: str) -> Iterator[tuple[Engine, LocalGpus | None]]:
    """Connect to a host's engine for as long as the context lasts.

    Args:
        name: `local` or `ssh://user@host[:port]`.

    Yields:
        The engine, and the host's GPUs; None for those of this host, which can be looked at directly.

    Raises:
        UsageError: The name is of another form.
        RunFailedError: The host cannot be reached, or has no engine that may be used.
    """
    if name == "local":
        yield connect(), None
        return
    with open_ssh_host(parse_address(name)) as host:
        yield host.engine, host.gpus
