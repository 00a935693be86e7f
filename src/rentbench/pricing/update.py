"""`prices update`: read the sources, keep what they say, tell what could not be read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias

from rentbench.core.errors import InvalidDocumentError, RentbenchError
from rentbench.core.ids import parse_time
from rentbench.core.problems import listing
from rentbench.core.validation import check
from rentbench.pricing.store import append, load_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from rentbench.pricing.snapshots import Snapshot
    from rentbench.pricing.sources import Source

__all__ = ["Outcome", "newest_of_each", "update"]

# A date outside is a slip of the pen, or of a clock. One ahead would hide every other source's prices of the
# same GPUs, and keep its own source's next ones out. A day covers clocks that differ.
_EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
_AHEAD = timedelta(days=1)

Result: TypeAlias = Literal["kept", "unchanged", "empty", "failed"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one snapshot, or of a source that gave none.

    Attributes:
        source: The snapshot's source; the source's own name where there is no snapshot.
        result: `kept`; `unchanged` where the newest one is of the same moment; `empty` where it has no
            offers, which is not kept; `failed`.
        snapshot: What was read.
        path: Where it was kept.
        error: What went wrong.
    """

    source: str
    result: Result
    snapshot: Snapshot | None = None
    path: Path | None = None
    error: RentbenchError | None = None


def update(sources: Iterable[Source], root: Path) -> Iterator[Outcome]:
    """Read each source and keep its snapshots; what fails is told and keeps no other one from being read.

    Args:
        sources: Where to read.
        root: The folder of all snapshots.
    """
    for source in sources:
        try:
            for read in source.read():
                yield _failed(source.name, read) if isinstance(read, RentbenchError) else _keep(read, root)
        except RentbenchError as error:
            yield _failed(source.name, error)


def newest_of_each(root: Path) -> dict[str, str]:
    """Return when each source was last read, RFC 3339 UTC, by its name."""
    histories = load_all(root, newest_chains=True)
    return {history.source: history.days[-1].retrieved_at for history in histories if history.days}


def _keep(snapshot: Snapshot, root: Path) -> Outcome:
    if not snapshot.offers:
        return Outcome(source=snapshot.source, result="empty", snapshot=snapshot)
    try:
        problems = check(snapshot.as_document(), "prices")
        if problems:
            msg = f"what {snapshot.source} lists cannot be kept: {listing(map(str, problems), limit=3)}"
            raise InvalidDocumentError(msg)
        if not _EARLIEST <= parse_time(snapshot.retrieved_at) <= datetime.now(UTC) + _AHEAD:
            msg = f"what {snapshot.source} lists is of {snapshot.retrieved_at}"
            hint = f"correct that date, or this computer's clock: it says {datetime.now(UTC):%Y-%m-%d}"
            raise InvalidDocumentError(msg, hint=hint)
        path = append(root, snapshot)
    except RentbenchError as error:
        return Outcome(source=snapshot.source, result="failed", snapshot=snapshot, error=error)
    return Outcome(
        source=snapshot.source, result="kept" if path else "unchanged", snapshot=snapshot, path=path
    )


def _failed(source: str, error: RentbenchError) -> Outcome:
    return Outcome(source=source, result="failed", error=error)
