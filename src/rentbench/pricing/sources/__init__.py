"""Where prices come from: each source reads one place, and gives a snapshot or says why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rentbench.core.errors import RentbenchError
    from rentbench.pricing.snapshots import Snapshot

__all__ = ["Source"]


class Source(Protocol):
    """One place that prices are read from."""

    @property
    def name(self) -> str:
        """What the command line calls it; the snapshots' own source names begin with it."""
        ...

    def read(self) -> Iterable[Snapshot | RentbenchError]:
        """Yield its snapshots, and an error in the place of each that could not be read.

        Raises:
            RentbenchError: Nothing of it can be read.
        """
        ...
