"""From a source's rows to offers: units are stated, amounts read as written, and what is no offer is counted.

What sources do, and what is made of it (docs/prices.md has the cases behind it):

- A price may be a number, a text, blank, null or 0. Blank, null and 0 are no price: the offer stays, its
  amount is null. Of a spot price that is missing nothing stays: there is no such offer.
- The same machine type may be listed once a zone, or once a machine: the cheapest one stays.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from rentbench.core.errors import UsageError
from rentbench.core.gpus import gpus_of_machine
from rentbench.core.ids import slug
from rentbench.pricing.numbers import exact, rounded
from rentbench.pricing.offers import Offer, Per, Stock, Tier, Tokens
from rentbench.pricing.snapshots import Refused, Snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Listing", "gpus_of", "provider_name"]

# A millionth of a dollar: finer than any price that is listed, and a whole number of them fits eight bytes.
PRICE_DECIMALS = 6
_MOST_GPUS = 1024
_LARGEST_PRICE = Decimal("1e9")
_TEXT_LENGTH = 512

# Some sources have names of their own for providers.
_PROVIDERS = {"vastai": "vast", "lambdalabs": "lambda", "lambda-labs": "lambda", "lambda-cloud": "lambda"}


def provider_name(text: str) -> str:
    """Return the one short name of a provider, whatever a source calls it."""
    name = slug(text)[:63].strip("-")
    return _PROVIDERS.get(name, name)


def gpus_of(value: object) -> int | None:
    """Return a number of GPUs that a source writes as 8, 8.0, "8" or "8.0"; None where there are none.

    Raises:
        UsageError: It is no whole number.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    number = exact("number of GPUs", value)  # type: ignore[arg-type]
    if number != int(number) or not 0 <= number <= _MOST_GPUS:
        msg = f"the number of GPUs is {number}"
        raise UsageError(msg)
    return int(number) or None


@dataclass
class Listing:
    """Collects the offers of one source, as its rows are read.

    Attributes:
        source: Short name of the source.
        source_version: What the source calls its own state.
        retrieved_at: When it was read, RFC 3339 UTC.
    """

    source: str
    source_version: str | None
    retrieved_at: str
    _offers: dict[tuple[Any, ...], Offer] = field(default_factory=dict)
    _refused: Counter[str] = field(default_factory=Counter)
    _examples: dict[str, str] = field(default_factory=dict)

    def add_machine(
        self,
        *,
        provider: str,
        offer: str,
        region: str | None,
        amount: object,
        gpu_count: object,
        gpu_name: str | None,
        gpu_memory_gb: float | None = None,
        tier: Tier = "on-demand",
        per: Per = "machine-hour",
        currency: str = "USD",
        stock: Stock = Stock.NOT_TOLD,
    ) -> bool:
        """Add a machine type, or count why it is none.

        Args:
            provider: As the source calls it.
            offer: The machine type.
            region: As the provider calls it.
            amount: As the source writes it, in whole units of the currency.
            gpu_count: As the source writes it.
            gpu_name: As the provider calls it.
            gpu_memory_gb: Of one GPU.
            tier: How it is sold.
            per: What the source's amount is for.
            currency: ISO 4217.
            stock: Whether it can be had.

        Returns:
            Whether it is a machine with GPUs.
        """
        try:
            count, price = gpus_of(gpu_count), self._price(amount)
        except UsageError as error:
            self.refuse(error.message, offer)
            return False
        name, card = _text(offer), _text(gpu_name)
        if name is None or card is None or count is None:
            lacking = "machine has no GPU" if count is None else "machine type or its GPU has no name"
            self.refuse(f"the {lacking}", offer)
            return False
        right = gpus_of_machine(provider_name(provider), name)
        if right not in (None, count):
            self.refuse(f"lists {count} GPUs of a machine with {right}", offer)
            return False
        if price is None and tier == "spot":
            return True
        self._keep(
            Offer(
                provider=provider_name(provider),
                offer=name,
                region=_text(region),
                tier=tier,
                amount=price,
                currency=currency,
                per=per,
                gpu_count=count,
                gpu_name=card,
                gpu_memory_gb=gpu_memory_gb if gpu_memory_gb and 0.5 <= gpu_memory_gb <= 10_000 else None,
                stock=stock,
            )
        )
        return True

    def add_model(
        self, *, provider: str, model: str, tokens: Tokens, amount: object, currency: str = "USD"
    ) -> None:
        """Add an API model's price for a million tokens; nothing where there is none.

        Args:
            provider: As the source calls it.
            model: As the API calls it.
            tokens: Which tokens the price is for.
            amount: As the source writes it, for a million tokens.
            currency: ISO 4217.
        """
        try:
            price = self._price(amount)
        except UsageError as error:
            self.refuse(error.message, model)
            return
        name = _text(model)
        if name is None:
            self.refuse("the model has no name", "(no name)")
            return
        if price is None:
            self.refuse(f"the model has no price for {tokens} tokens", model)
            return
        self._keep(
            Offer(
                provider=provider_name(provider),
                offer=name,
                region=None,
                tier="on-demand",
                amount=price,
                currency=currency,
                per="1M-tokens",
                gpu_count=None,
                gpu_name=None,
                tokens=tokens,
            )
        )

    def refuse(self, reason: str, example: object) -> None:
        """Count a row that is no offer."""
        said = _text(reason) or "(no reason)"
        self._refused[said] += 1
        self._examples.setdefault(said, _text(str(example)) or "(no name)")

    def snapshot(self) -> Snapshot:
        """Return what was collected."""
        return Snapshot(
            source=self.source,
            source_version=self.source_version,
            retrieved_at=self.retrieved_at,
            offers=tuple(self._offers.values()),
            refused=tuple(
                Refused(reason=reason, count=count, example=self._examples[reason])
                for reason, count in self._refused.most_common(1000)
            ),
        )

    def _price(self, amount: object) -> Decimal | None:
        if amount is None or (isinstance(amount, str) and not amount.strip()):
            return None
        number = exact("price", amount)  # type: ignore[arg-type]
        if number < 0 or number > _LARGEST_PRICE:
            msg = "the price is negative" if number < 0 else "the price is beyond all that is meant"
            raise UsageError(msg)
        return rounded(number, PRICE_DECIMALS).normalize() or None

    def _keep(self, offer: Offer) -> None:
        """Keep the cheapest of equal offers; it can be had where one of them can."""
        identity = (offer.tier, *offer.identity)
        known = self._offers.get(identity)
        if known is not None:
            stock = min(known.stock, offer.stock, key=_STOCK_ORDER.__getitem__)
            cheapest = min(
                (known, offer), key=lambda one: (_STOCK_ORDER[one.stock], one.amount or _LARGEST_PRICE)
            )
            offer = replace(cheapest, stock=stock)
        self._offers[identity] = offer


def _text(value: str | None) -> str | None:
    """Return a text as documents hold it: bounded, encodable, and None where it is empty."""
    return (value or "").encode("utf-8", "replace").decode()[:_TEXT_LENGTH].strip() or None


_STOCK_ORDER: Mapping[Stock, int] = {Stock.IN_STOCK: 0, Stock.NOT_TOLD: 1, Stock.OUT_OF_STOCK: 2}
