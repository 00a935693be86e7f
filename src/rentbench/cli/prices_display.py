"""How prices are shown: tables and lines for people, plain data for programs."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rentbench.cli.console import print_line, print_table
from rentbench.core.ids import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rentbench.pricing.snapshots import Snapshot
    from rentbench.pricing.today import Point, Quote
    from rentbench.pricing.update import Outcome

__all__ = ["age", "outcome_data", "point_data", "print_outcome", "print_points", "print_quotes", "quote_data"]

_NAMES_SHOWN = 20


def age(moment: str) -> str:
    """Return a moment with how many days ago it was, where that is more than one, or that it is to come."""
    days = (datetime.now(UTC) - parse_time(moment)).total_seconds() / 86_400
    if days <= -1.5:
        return f"{moment[:10]}, {-days:.0f} days ahead of this computer's clock"
    return f"{moment[:10]}, {days:.0f} days ago" if days >= 1.5 else moment[:16].replace("T", " ")


def print_quotes(gpus: Mapping[str, Quote], models: Iterable[Quote]) -> None:
    """Print today's prices of GPUs and of API models."""
    print_table(
        ("GPU", "USD per GPU-hour", "", "provider", "machine type", "region", "source", "read"),
        (
            (
                key,
                _amount(quote),
                quote.condition,
                quote.offer.provider,
                quote.offer.offer,
                quote.offer.region or "",
                quote.source,
                ("stale: " if quote.is_stale(datetime.now(UTC)) else "") + age(quote.retrieved_at),
            )
            for key, quote in gpus.items()
        ),
        right=("USD per GPU-hour",),
    )
    rows = [
        (quote.offer.offer, _amount(quote), quote.offer.provider, age(quote.retrieved_at)) for quote in models
    ]
    if rows:
        columns = ("model", "USD per 1M input tokens", "provider", "read")
        print_table(columns, rows, right=("USD per 1M input tokens",))


def quote_data(gpu: str | None, quote: Quote) -> dict[str, Any]:
    """Return a quote as data; `gpu` is its key, None for an API model."""
    now = datetime.now(UTC)
    return {
        "gpu": gpu,
        "provider": quote.offer.provider,
        "offer": quote.offer.offer,
        "region": quote.offer.region,
        "tier": quote.offer.tier,
        "usd": None if quote.usd is None else float(quote.usd),
        "per": "gpu-hour" if gpu else "1M-tokens",
        "gpu_count": quote.offer.gpu_count,
        "condition": quote.condition,
        "price": quote.run_price(),
        "source": quote.source,
        "retrieved_at": quote.retrieved_at,
        "age_days": round(quote.age_days(now), 2),
        "stale": quote.is_stale(now),
    }


def print_points(points: Iterable[Point]) -> None:
    """Print what a GPU cost over time."""
    print_table(
        ("read", "source", "USD per GPU-hour", "offers"),
        (
            (point.retrieved_at, point.source, f"{point.usd_per_gpu_hour:.4f}", str(point.offers))
            for point in points
        ),
        right=("USD per GPU-hour", "offers"),
    )


def point_data(point: Point) -> dict[str, Any]:
    """Return a point of a GPU's history as data."""
    return asdict(point) | {"usd_per_gpu_hour": float(point.usd_per_gpu_hour)}


def print_outcome(outcome: Outcome) -> None:
    """Print what became of a source: what was kept, what was no offer, what is not sure, what is odd."""
    if outcome.error is not None:
        print_line(f"{outcome.source}: {outcome.error.message}", style="red", error=True)
        return
    if outcome.snapshot is not None:
        _print_snapshot(outcome.snapshot, outcome.result)


def outcome_data(outcome: Outcome) -> dict[str, Any]:
    """Return what became of a source as data."""
    snapshot, error = outcome.snapshot, outcome.error
    return {
        "source": outcome.source,
        "result": outcome.result,
        "offers": len(snapshot.offers) if snapshot else None,
        "retrieved_at": snapshot.retrieved_at if snapshot else None,
        "path": str(outcome.path) if outcome.path else None,
        "error": {"message": error.message, "hint": error.hint} if error else None,
        "refused": _as_data(snapshot.refused if snapshot else ()),
        "unknown_gpus": _as_data(snapshot.unknown_gpus() if snapshot else ()),
        "spot_above_on_demand": len(snapshot.spot_above_on_demand()) if snapshot else None,
    }


def _as_data(records: Sequence[Any]) -> list[dict[str, Any]]:
    return [asdict(record) for record in records]


def _amount(quote: Quote) -> str:
    return "—" if quote.usd is None else f"{quote.usd:.4f}"


def _print_snapshot(snapshot: Snapshot, result: str) -> None:
    became = {"kept": "kept", "unchanged": "nothing new", "empty": "no offers; not kept"}[result]
    print_line(f"{snapshot.source}: {len(snapshot.offers)} offers, read {snapshot.retrieved_at}: {became}")
    for refused in snapshot.refused:
        print_line(f"  {refused.count} rows are no offers: {refused.reason} ({refused.example})")
    unknown = [gpu for gpu in snapshot.unknown_gpus() if not gpu.on_purpose]
    for gpu in unknown[:_NAMES_SHOWN]:
        print_line(f"  {gpu.offers} offers of a GPU that is not sure: {gpu.name}: {gpu.reason}")
    if len(unknown) > _NAMES_SHOWN:
        print_line(f"  and {len(unknown) - _NAMES_SHOWN} more such names")
    odd = snapshot.spot_above_on_demand()
    if odd:
        spot, on_demand = odd[0]
        place = f" in {spot.region}" if spot.region else ""
        example = f"{spot.offer}{place}: {spot.amount} against {on_demand.amount}"
        print_line(f"  {len(odd)} spot prices are above on demand, such as {example}")
