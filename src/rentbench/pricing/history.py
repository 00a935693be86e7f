"""The snapshots of a source in memory: what is constant once a chain, what moves in arrays a day."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from decimal import Decimal
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args

from rentbench.core.gpus import identify
from rentbench.pricing.offers import Offer, Per, Stock, Tier, Tokens
from rentbench.pricing.snapshots import Refused, Snapshot

if TYPE_CHECKING:
    from array import array
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["COLUMNS", "MICRO", "STATES", "Chain", "Day", "History"]

# What is constant of an offer, and what each column may hold: types, or the words themselves.
COLUMNS: dict[str, set[object]] = {
    "provider": {str},
    "offer": {str},
    "region": {str, NoneType},
    "tier": set(get_args(Tier)),
    "currency": {str},
    "per": set(get_args(Per)),
    "gpu_count": {int, NoneType},
    "gpu_name": {str, NoneType},
    "gpu_memory_gb": {int, float, NoneType},
    "tokens": {*get_args(Tokens), None},
}
STATES: tuple[Stock | None, ...] = (None, Stock.IN_STOCK, Stock.OUT_OF_STOCK, Stock.NOT_TOLD)
# 1 for the states in which an offer can be had.
_CAN_BE_HAD = bytes(state in (1, 3) for state in range(256))
MICRO = Decimal(1_000_000)


class Chain:
    """What is constant of the offers of a chain, in the order in which they first came.

    Attributes:
        rows: By column; a file adds to them, and none is ever taken away.
    """

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []
        self._by_gpu: dict[str, list[int]] = {}
        self._sorted = 0
        self._priced: dict[tuple[str, str, int], dict[int, list[int]]] = {}

    def indices(self, gpu_key: str) -> Sequence[int]:
        """Return where the offers of a GPU are, by its key in the table."""
        for index in range(self._sorted, len(self.rows)):
            row = dict(zip(COLUMNS, self.rows[index], strict=True))
            gpu = identify(
                row["gpu_name"] or "",
                memory_gb=row["gpu_memory_gb"],
                provider=row["provider"],
                offer=row["offer"],
            ).gpu
            if gpu is not None:
                self._by_gpu.setdefault(gpu.key, []).append(index)
        self._sorted = len(self.rows)
        return self._by_gpu.get(gpu_key, ())

    def priced(self, gpu_key: str, tier: Tier) -> Mapping[int, Sequence[int]]:
        """Return where a GPU's offers in USD are, by how many GPUs their price is for."""
        indices = self.indices(gpu_key)
        known = gpu_key, tier, len(indices)
        if known not in self._priced:
            groups: dict[int, list[int]] = {}
            for index in indices:
                row = dict(zip(COLUMNS, self.rows[index], strict=True))
                if row["tier"] == tier and row["currency"] == "USD" and row["gpu_count"]:
                    groups.setdefault(row["gpu_count"] if row["per"] == "machine-hour" else 1, []).append(
                        index
                    )
            self._priced[known] = groups
        return self._priced[known]


@dataclass(frozen=True, kw_only=True)
class Day:
    """One snapshot of a source, as it is kept.

    Attributes:
        path: Its file.
        sha256: The file's hash.
        retrieved_at: When the source was read, RFC 3339 UTC.
        source_version: What the source called its own state.
        chain: The offers of its chain; the first `len(states)` are this day's.
        amounts: Price of each, in millionths of its currency; 0 for none.
        states: One byte each: 0 not listed, 1 in stock, 2 out of stock, 3 not told.
        refused: What else was listed.
    """

    path: Path
    sha256: str
    retrieved_at: str
    source_version: str | None
    chain: Chain = field(repr=False)
    amounts: array[int] = field(repr=False)
    states: bytes = field(repr=False)
    refused: Sequence[Refused] = field(repr=False)

    def offers(self) -> list[Offer]:
        """Return what was offered that day."""
        return [
            self._offer(index, stock)
            for index, state in enumerate(self.states)
            if (stock := STATES[state]) is not None
        ]

    def offers_of(self, gpu_key: str) -> list[Offer]:
        """Return what was offered that day of one GPU, by its key in the table."""
        return [
            self._offer(index, stock)
            for index in self.chain.indices(gpu_key)
            if index < len(self.states) and (stock := STATES[self.states[index]]) is not None
        ]

    def cheapest(self, gpu_key: str, tier: Tier) -> tuple[Decimal, int] | None:
        """Return the lowest price in USD of an hour of one GPU, and of how many offers.

        What `offers_of` would give, but without making offers: a year of them takes a second, not a minute.

        Args:
            gpu_key: Key of the GPU's entry in the table.
            tier: How it is sold.
        """
        prices: list[Decimal] = []
        offers, count = 0, len(self.states)
        can_be_had = self.states.translate(_CAN_BE_HAD)
        for divisor, indices in self.chain.priced(gpu_key, tier).items():
            listed = indices[: bisect_left(indices, count)]
            micro = [amount for index in listed if can_be_had[index] and (amount := self.amounts[index])]
            if micro:
                prices.append(Decimal(min(micro)) / MICRO / divisor)
                offers += len(micro)
        return (min(prices), offers) if prices else None

    def _offer(self, index: int, stock: Stock) -> Offer:
        amount = self.amounts[index]
        return Offer(
            **dict(zip(COLUMNS, self.chain.rows[index], strict=True)),
            amount=Decimal(amount) / MICRO if amount else None,
            stock=stock,
        )


@dataclass(frozen=True, kw_only=True)
class History:
    """The snapshots of one source, oldest first.

    Attributes:
        source: Its short name.
        days: What could be read.
        problems: What could not, and why.
    """

    source: str
    days: Sequence[Day]
    problems: Sequence[str] = ()

    @property
    def latest(self) -> Snapshot | None:
        """The newest snapshot; None where there is none."""
        if not self.days:
            return None
        day = self.days[-1]
        return Snapshot(
            source=self.source,
            source_version=day.source_version,
            retrieved_at=day.retrieved_at,
            offers=day.offers(),
            refused=day.refused,
        )
