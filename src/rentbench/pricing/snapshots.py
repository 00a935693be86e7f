"""Snapshots: what one source offered when it was read, and what is odd about it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from rentbench.pricing.offers import Offer, Stock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Refused", "Snapshot", "UnknownGpu"]


@dataclass(frozen=True, kw_only=True)
class Refused:
    """Rows of a listing that are no offers.

    Attributes:
        reason: Why.
        count: How many.
        example: What one of them is called.
    """

    reason: str
    count: int
    example: str


@dataclass(frozen=True, kw_only=True)
class UnknownGpu:
    """A GPU's name that the table has no single answer to.

    Attributes:
        name: As the provider calls it.
        provider: Which provider.
        reason: Why there is no answer.
        on_purpose: Whether the table says itself that it is no entry.
        offers: How many offers have it.
    """

    name: str
    provider: str
    reason: str
    on_purpose: bool
    offers: int


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """One reading of one source.

    Attributes:
        source: Short name of the source, `gpuhunt-aws`.
        source_version: What the source calls its own state; None where it says nothing.
        retrieved_at: When it was read, or made, RFC 3339 UTC.
        offers: Each offer once.
        refused: What else was listed.
    """

    source: str
    source_version: str | None
    retrieved_at: str
    offers: Sequence[Offer]
    refused: Sequence[Refused] = ()

    def as_document(self) -> dict[str, Any]:
        """Return the document of kind `prices` that says the same."""
        return {
            "document": "prices",
            "schema_version": 1,
            "source": self.source,
            "source_version": self.source_version,
            "retrieved_at": self.retrieved_at,
            "offers": [_offer_document(offer) for offer in self.offers],
            "refused": [
                {"reason": one.reason, "count": one.count, "example": one.example} for one in self.refused
            ],
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Snapshot:
        """Return the snapshot that a valid document of kind `prices` describes."""
        return cls(
            source=document["source"],
            source_version=document["source_version"],
            retrieved_at=document["retrieved_at"],
            offers=tuple(_offer(entry) for entry in document["offers"]),
            refused=tuple(Refused(**entry) for entry in document["refused"]),
        )

    def unknown_gpus(self) -> list[UnknownGpu]:
        """Return the names that the table of GPUs has no single answer to, the most frequent first."""
        counts: Counter[tuple[str, str, str, bool]] = Counter()
        for offer in self.offers:
            if offer.gpu_name is not None and (found := offer.identified).gpu is None:
                counts[offer.gpu_name, offer.provider, found.reason, found.on_purpose] += 1
        return [
            UnknownGpu(name=name, provider=provider, reason=reason, on_purpose=on_purpose, offers=count)
            for (name, provider, reason, on_purpose), count in counts.most_common()
        ]

    def spot_above_on_demand(self) -> list[tuple[Offer, Offer]]:
        """Return the spot offers that cost more than the same machine on demand, each with that one."""
        on_demand = {offer.identity: offer for offer in self.offers if offer.tier == "on-demand"}
        pairs = []
        for offer in self.offers:
            if offer.tier == "spot":
                same = on_demand.get(offer.identity)
                if same and same.amount and offer.amount and offer.amount > same.amount:
                    pairs.append((offer, same))
        return pairs


def _offer_document(offer: Offer) -> dict[str, Any]:
    return {
        "provider": offer.provider,
        "offer": offer.offer,
        "region": offer.region,
        "tier": offer.tier,
        "amount": None if offer.amount is None else float(offer.amount),
        "currency": offer.currency,
        "per": offer.per,
        "gpu_count": offer.gpu_count,
        "gpu_name": offer.gpu_name,
        "gpu_memory_gb": offer.gpu_memory_gb,
        "tokens": offer.tokens,
        "stock": offer.stock.value,
    }


def _offer(entry: Mapping[str, Any]) -> Offer:
    amount = entry["amount"]
    return Offer(
        **{key: value for key, value in entry.items() if key not in ("amount", "stock")},
        amount=None if amount is None else Decimal(repr(amount)),
        stock=Stock(entry["stock"]),
    )
