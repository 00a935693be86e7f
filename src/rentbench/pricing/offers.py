"""Offers: a machine type, or an API model, at a price in a region: the one form of all listings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from rentbench.core.errors import RentbenchError
from rentbench.core.gpus import Identified, identify
from rentbench.pricing.bills import usd_per_gpu_hour

if TYPE_CHECKING:
    from decimal import Decimal

__all__ = ["CurrencyError", "Offer", "Per", "Stock", "Tier", "Tokens"]

Tier: TypeAlias = Literal["on-demand", "spot", "reserved"]
Per: TypeAlias = Literal["gpu-hour", "machine-hour", "1M-tokens"]
Tokens: TypeAlias = Literal["input", "output", "total"]


class Stock(StrEnum):
    """What a listing says of whether an offer can be had."""

    IN_STOCK = "in_stock"
    OUT_OF_STOCK = "out_of_stock"
    NOT_TOLD = "not_told"


class CurrencyError(RentbenchError):
    """Amounts of different currencies would meet; nothing here converts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """One offer of a listing.

    Attributes:
        provider: Short name: `aws`, `vast`.
        offer: The provider's name of the machine type, or of the API model.
        region: As the provider calls it; None where there is none, or all have one price.
        tier: How it is sold.
        amount: The price; None where it is listed without one. Never zero, which some write for none.
        currency: ISO 4217.
        per: What the amount is for.
        gpu_count: GPUs of the machine, also where the amount is for one of them; None for API models.
        gpu_name: As the provider calls it; None for API models.
        gpu_memory_gb: Memory of one GPU as the provider says it; None where it does not.
        tokens: Which tokens an API's price is for; None for machines.
        stock: Whether it can be had.
    """

    provider: str
    offer: str
    region: str | None
    tier: Tier
    amount: Decimal | None
    currency: str
    per: Per
    gpu_count: int | None
    gpu_name: str | None
    gpu_memory_gb: float | None = None
    tokens: Tokens | None = None
    stock: Stock = Stock.NOT_TOLD

    @property
    def identity(self) -> tuple[str | int | None, ...]:
        """What makes it the same offer on another day, but for how it is sold."""
        return self.provider, self.offer, self.region, self.gpu_count, self.tokens

    @property
    def can_be_had(self) -> bool:
        """Whether it has a price, and the listing does not say that it is out of stock."""
        return self.amount is not None and self.stock is not Stock.OUT_OF_STOCK

    @property
    def identified(self) -> Identified:
        """What the table of GPUs says of its card."""
        return identify(
            self.gpu_name or "", memory_gb=self.gpu_memory_gb, provider=self.provider, offer=self.offer
        )

    @property
    def usd_per_gpu_hour(self) -> Decimal | None:
        """Price of one GPU for an hour: a share of the machine's where that is sold whole.

        Raises:
            CurrencyError: It is priced in another currency.
            RentbenchError: It is no machine.
        """
        if self.gpu_count is None or self.per == "1M-tokens":
            msg = f"{self.provider}'s {self.offer} is no machine"
            raise RentbenchError(msg)
        if self.currency != "USD":
            msg = f"{self.provider}'s {self.offer} is priced in {self.currency}"
            raise CurrencyError(msg, hint="no rate of exchange is assumed; state a price in USD")
        if self.amount is None or self.per == "gpu-hour":
            return self.amount
        return usd_per_gpu_hour(usd_per_machine_hour=self.amount, gpus=self.gpu_count)

    def run_price(self, *, source: str, retrieved_at: str) -> dict[str, Any] | None:
        """Return the price as a run freezes it (`price` of a run document); None without a price.

        Args:
            source: Where the price was read.
            retrieved_at: When, RFC 3339 UTC.
        """
        if self.amount is None:
            return None
        return {
            "amount": float(self.amount),
            "currency": self.currency,
            "per": self.per,
            "gpu_count": self.gpu_count,
            "source": source,
            "retrieved_at": retrieved_at,
        }
