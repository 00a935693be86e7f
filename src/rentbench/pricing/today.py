"""Today's prices: the cheapest offer of each GPU in the newest snapshots, and what has to be said with it.

What pages print: the price of a GPU-hour with its source and the time it was read; "on a machine with N
GPUs" where the GPU is not sold alone; "Not in stock" where it is listed but cannot be had; the age of a
price that is older than a week. Ages are for whoever reads (`age_days`); which offer is the cheapest does
not depend on the clock, so that a site that is built twice is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rentbench.core.ids import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from decimal import Decimal

    from rentbench.pricing.history import History
    from rentbench.pricing.offers import Offer, Tier, Tokens
    from rentbench.pricing.snapshots import Snapshot

__all__ = ["STALE_AFTER_DAYS", "Point", "Quote", "api_prices", "gpu_prices", "price_series"]

STALE_AFTER_DAYS = 7


@dataclass(frozen=True, kw_only=True)
class Quote:
    """The best that a snapshot says of a GPU or a model.

    Attributes:
        offer: The offer; the cheapest one that can be had, else one that cannot.
        usd: Price of a GPU-hour, or of a million tokens, in USD; None where it is not in stock.
        source: Where it was read.
        retrieved_at: When, RFC 3339 UTC.
    """

    offer: Offer
    usd: Decimal | None
    source: str
    retrieved_at: str

    @property
    def in_stock(self) -> bool:
        """Whether it can be had, as far as the source says."""
        return self.usd is not None

    @property
    def condition(self) -> str:
        """What must be said beside the price; empty where nothing must."""
        if self.offer.amount is None:
            return "price not told"
        if not self.in_stock:
            return "Not in stock"
        gpus = self.offer.gpu_count
        return f"on a machine with {gpus} GPUs" if gpus is not None and gpus > 1 else ""

    def age_days(self, now: datetime) -> float:
        """Return how many days ago it was read."""
        return (now - parse_time(self.retrieved_at)) / timedelta(days=1)

    def is_stale(self, now: datetime, *, after_days: float = STALE_AFTER_DAYS) -> bool:
        """Say whether its age has to be shown as a warning."""
        return self.age_days(now) > after_days

    def run_price(self) -> dict[str, Any] | None:
        """Return it as a run freezes its price; None where it is not in stock."""
        return (
            self.offer.run_price(source=self.source, retrieved_at=self.retrieved_at)
            if self.in_stock
            else None
        )


@dataclass(frozen=True, kw_only=True)
class Point:
    """One day of a GPU's history at one source.

    Attributes:
        retrieved_at: When the source was read, RFC 3339 UTC.
        source: Which source.
        usd_per_gpu_hour: The cheapest that could be had.
        offers: Of how many.
    """

    retrieved_at: str
    source: str
    usd_per_gpu_hour: Decimal
    offers: int


def gpu_prices(
    histories: Iterable[History], *, tier: Tier = "on-demand", provider: str | None = None
) -> dict[str, Quote]:
    """Return today's quote of every GPU that is listed, by its key.

    Of a GPU, only sources take part that were read within a week of the newest one that lists it.
    Offers in other currencies, and names that the table of GPUs does not know, take no part.

    Args:
        histories: All sources.
        tier: How it is sold.
        provider: Only this provider's offers.
    """
    quotes: dict[str, Quote] = {}
    newest: dict[str, datetime] = {}
    for snapshot in _by_freshness(histories):
        listed: dict[str, Quote] = {}
        moment = parse_time(snapshot.retrieved_at)
        for offer in snapshot.offers:
            if offer.tier != tier or offer.currency != "USD" or provider not in (None, offer.provider):
                continue
            if offer.gpu_name is None or (gpu := offer.identified.gpu) is None:
                continue
            quote = _quote(offer, offer.usd_per_gpu_hour, snapshot)
            listed[gpu.key] = _better(listed.get(gpu.key), quote)
        for key, quote in listed.items():
            if newest.setdefault(key, moment) - moment <= timedelta(days=STALE_AFTER_DAYS):
                quotes[key] = _better(quotes.get(key), quote)
    return dict(sorted(quotes.items()))


def api_prices(histories: Iterable[History], *, tokens: Tokens) -> dict[tuple[str, str], Quote]:
    """Return today's price of a million tokens of every API model, by provider and model.

    Args:
        histories: All sources.
        tokens: Which tokens the price is for.
    """
    quotes: dict[tuple[str, str], Quote] = {}
    for snapshot in _by_freshness(histories):
        for offer in snapshot.offers:
            if offer.per == "1M-tokens" and offer.tokens == tokens and offer.currency == "USD":
                quotes.setdefault((offer.provider, offer.offer), _quote(offer, offer.amount, snapshot))
    return dict(sorted(quotes.items()))


def price_series(histories: Iterable[History], gpu_key: str, *, tier: Tier = "on-demand") -> list[Point]:
    """Return what a GPU cost over time: the cheapest offer of each snapshot of each source, oldest first.

    Args:
        histories: All sources, with all of their days.
        gpu_key: Key of the GPU's entry in the table.
        tier: How it is sold.
    """
    points = [
        Point(
            retrieved_at=day.retrieved_at, source=history.source, usd_per_gpu_hour=found[0], offers=found[1]
        )
        for history in histories
        for day in history.days
        if (found := day.cheapest(gpu_key, tier))
    ]
    return sorted(points, key=lambda point: (point.retrieved_at, point.source))


def _by_freshness(histories: Iterable[History]) -> list[Snapshot]:
    """Return the newest snapshot of each source, newest first; equal ones by name."""
    newest = [snapshot for history in histories if (snapshot := history.latest)]
    return sorted(newest, key=lambda one: (parse_time(one.retrieved_at), one.source), reverse=True)


def _quote(offer: Offer, price: Decimal | None, snapshot: Snapshot) -> Quote:
    return Quote(
        offer=offer,
        usd=price if offer.can_be_had else None,
        source=snapshot.source,
        retrieved_at=snapshot.retrieved_at,
    )


def _better(known: Quote | None, quote: Quote) -> Quote:
    """Return the quote to show: one that can be had, then the cheapest, then on the smallest machine."""
    return quote if known is None or _rank(quote) < _rank(known) else known


def _rank(quote: Quote) -> tuple[bool, Decimal | int, int, tuple[str, ...]]:
    identity = tuple(str(part) for part in quote.offer.identity)
    return quote.usd is None, quote.usd or 0, quote.offer.gpu_count or 0, (quote.source, *identity)
