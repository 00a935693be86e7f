"""Where snapshots are kept: one file each, never changed, small enough for years of them, quick to load.

A source's snapshots lie in a folder of its name, in chains. From day to day few offers come and go, and some
prices move: a file holds the offers that the file before it did not have, then one price and one state for
each offer since the chain began. Layout, inside gzip:

    one line of JSON     what was read, which file it continues, the offers that are new
    8 bytes an offer     price in millionths of the currency, little-endian, 0 for none; XOR the file before
    1 byte an offer      0 not listed any more, 1 in stock, 2 out of stock, 3 not told; XOR the file before

XOR leaves zeros where nothing changed, which compress to nothing. The first file of a chain is `….full.…` and
stands alone. A chain ends after a hundred files, when most of its offers are gone, and at a file that cannot
be read: a fault costs no more than the rest of its chain.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import sys
import zlib
from array import array
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from typing import TYPE_CHECKING, Any, NoReturn

from rentbench.core.errors import RentbenchError, UnusableInputError
from rentbench.core.files import read_bytes, sha256_bytes, write_new
from rentbench.core.ids import parse_time
from rentbench.pricing.history import COLUMNS, MICRO, STATES, Chain, Day, History
from rentbench.pricing.snapshots import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rentbench.pricing.offers import Offer
    from rentbench.pricing.snapshots import Snapshot

__all__ = ["append", "load", "load_all"]

_FORMAT = 1
_FULL, _SUFFIX = ".full", ".prices.gz"
_NAME = re.compile(r"\d{8}T\d{6}\.\d{6}Z(\.full)?\.prices\.gz")
_MOST_BYTES = 512 * 1024 * 1024  # of one unpacked file: half a million offers take a quarter of it
_SMALL_CHAIN = 1000  # below, offers that are gone cost nothing worth a new chain
_MOST_FILES = 100  # of a chain: the newest prices are read without the years before


def load_all(root: Path, *, newest_chains: bool = False) -> list[History]:
    """Return the history of every source below a folder, in the order of their names.

    Args:
        root: The folder of all sources.
        newest_chains: Read only what the newest snapshots need.
    """
    folders = sorted(folder for folder in root.iterdir() if folder.is_dir()) if root.is_dir() else []
    return [load(root, folder.name, newest_chain=newest_chains) for folder in folders if _files(folder)]


def load(root: Path, source: str, *, newest_chain: bool = False) -> History:
    """Return the history of one source; a file that cannot be read is told, with those that continue it.

    Args:
        root: The folder of all sources.
        source: The source's short name.
        newest_chain: Read only what the newest snapshot needs.
    """
    days: list[Day] = []
    problems: list[str] = []
    files = _files(root / source)
    first = max((index for index, path in enumerate(files) if _FULL in path.name), default=0)
    for path in files[first if newest_chain else 0 :]:
        try:
            days.append(_read(path, days[-1] if days else None))
        except UnusableInputError as error:
            problems.append(error.message)
    if newest_chain and first and not days:  # nothing of it can be read: older prices are better than none
        return load(root, source)
    return History(source=source, days=days, problems=problems)


def append(root: Path, snapshot: Snapshot) -> Path | None:
    """Keep a snapshot, whole or not at all.

    Args:
        root: The folder of all sources.
        snapshot: What was read.

    Returns:
        The new file; None where the newest snapshot of the source is of the same moment already.

    Raises:
        RentbenchError: A newer one is there already, or the file cannot be written.
    """
    folder = root / snapshot.source
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"{folder} cannot be made: {error.strerror}"
        raise RentbenchError(msg, hint="check the folder's owner, and the free space") from error
    with _locked(folder):
        files = _files(folder)
        chain = load(root, snapshot.source, newest_chain=True).days
        before = chain[-1:]
        if before:
            newest, moment = parse_time(before[0].retrieved_at), parse_time(snapshot.retrieved_at)
            if moment == newest:
                return None
            if moment < newest:
                msg = f"{snapshot.source} holds a newer snapshot already, of {before[0].retrieved_at}"
                raise RentbenchError(
                    msg, hint=f"this one is of {snapshot.retrieved_at}; the history only grows"
                )
        goes_on = before and before[0].path == files[-1] and len(chain) < _MOST_FILES
        previous = before[0] if goes_on and not _mostly_gone(before[0], snapshot) else None
        name = f"{parse_time(snapshot.retrieved_at):%Y%m%dT%H%M%S.%fZ}{'' if previous else _FULL}{_SUFFIX}"
        write_new(folder / name, _encode(snapshot, previous))
        return folder / name


def _files(folder: Path) -> list[Path]:
    names = sorted(os.listdir(folder)) if folder.is_dir() else []  # noqa: PTH208 - names are enough
    return [folder / name for name in names if _NAME.fullmatch(name)]


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a folder, so that of two updates at a time one comes after the other."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        flock(descriptor, LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _row(offer: Offer) -> tuple[Any, ...]:
    return tuple(getattr(offer, name) for name in COLUMNS)


def _mostly_gone(day: Day, snapshot: Snapshot) -> bool:
    """Say whether a chain carries more offers that are gone than offers that are there."""
    rows = set(day.chain.rows[: len(day.states)])
    return len(rows) > _SMALL_CHAIN and len(rows.intersection(map(_row, snapshot.offers))) < len(rows) / 2


def _encode(snapshot: Snapshot, previous: Day | None) -> bytes:
    rows = list(previous.chain.rows[: len(previous.states)]) if previous else []
    known = {row: index for index, row in enumerate(rows)}
    listed = {_row(offer): offer for offer in snapshot.offers}
    added = [row for row in listed if row not in known]
    rows += added
    amounts, states = array("q", bytes(8 * len(rows))), bytearray(len(rows))
    for index, row in enumerate(rows):
        offer = listed.get(row)
        if offer is not None:
            amounts[index] = int(offer.amount * MICRO) if offer.amount else 0
            states[index] = STATES.index(offer.stock)
    header = {
        "format": _FORMAT,
        "source": snapshot.source,
        "source_version": snapshot.source_version,
        "retrieved_at": snapshot.retrieved_at,
        "continues": {"file": previous.path.name, "sha256": previous.sha256} if previous else None,
        "new": {name: [row[column] for row in added] for column, name in enumerate(COLUMNS)},
        "refused": [
            {"reason": one.reason, "count": one.count, "example": one.example} for one in snapshot.refused
        ],
    }
    line = json.dumps(header, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
    columns = _little_endian(amounts), bytes(states)
    if previous:
        old = _little_endian(previous.amounts), previous.states
        columns = _xor(columns[0], old[0]), _xor(columns[1], old[1])
    # No time of writing in it: the same snapshot gives the same bytes.
    return gzip.compress(line + columns[0] + columns[1], 6, mtime=0)


def _read(path: Path, previous: Day | None) -> Day:
    raw = read_bytes(path)
    line, _, columns = _unpack(path, raw).partition(b"\n")
    try:
        header = json.loads(line)
        if header["format"] != _FORMAT:
            _refuse(path, f"has format {header['format']}, which this rentbench does not know")
        continues = header["continues"]
        continued = (continues["file"], continues["sha256"]) if continues is not None else None
        added = list(zip(*(header["new"][name] for name in COLUMNS), strict=True))
        for name, allowed in COLUMNS.items():
            held = set(header["new"][name])
            if not (held <= allowed or {type(value) for value in held} <= allowed):
                _refuse(path, f"has an offer whose {name} is no {name}")
        refused = tuple(Refused(**one) for one in header["refused"])
        retrieved_at, version = header["retrieved_at"], header["source_version"]
        parse_time(retrieved_at)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        _refuse(path, f"is no snapshot of prices: {error!r}")
    except UnusableInputError as error:
        _refuse(path, f"is no snapshot of prices: {error.message}")
    if continued:
        if previous is None or continued[1] != previous.sha256:
            _refuse(path, f"continues {continued[0]}, which is missing or was changed")
        chain = previous.chain
    else:
        previous, chain = None, Chain()
    count = (len(previous.states) if previous else 0) + len(added)
    if len(columns) != 9 * count:
        _refuse(path, "is cut off or too long")
    amounts, states = columns[: 8 * count], columns[8 * count :]
    if previous:
        amounts = _xor(amounts, _little_endian(previous.amounts))
        states = _xor(states, previous.states)
    if max(states, default=0) >= len(STATES) or max(amounts[7::8], default=0) >= 0x80:  # the sign
        _refuse(path, "has a state or a price that cannot be")
    # Only now, since nothing is wrong with it: what a file adds stays.
    chain.rows += added
    return Day(
        path=path,
        sha256=sha256_bytes(raw),
        retrieved_at=retrieved_at,
        source_version=version,
        chain=chain,
        amounts=_from_little_endian(amounts),
        states=states,
        refused=refused,
    )


def _unpack(path: Path, raw: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)  # gzip, with its checksum
    try:
        content = unpacker.decompress(raw, _MOST_BYTES)
    except zlib.error as error:
        _refuse(path, f"cannot be unpacked: {error}")
    if not unpacker.eof or unpacker.unused_data:
        _refuse(path, "is cut off or too long")
    return content


def _xor(new: bytes, old: bytes) -> bytes:
    """Return new ^ old, with zeros where old ends; as two large integers, which takes microseconds."""
    value = int.from_bytes(new, "little") ^ int.from_bytes(old, "little")
    return value.to_bytes(len(new), "little")


def _little_endian(amounts: array[int]) -> bytes:
    if sys.byteorder == "big":
        amounts = array("q", amounts)
        amounts.byteswap()
    return amounts.tobytes()


def _from_little_endian(raw: bytes) -> array[int]:
    amounts = array("q", raw)
    if sys.byteorder == "big":
        amounts.byteswap()
    return amounts


def _refuse(path: Path, what: str) -> NoReturn:
    msg = f"{path} {what}"
    raise UnusableInputError(msg)
