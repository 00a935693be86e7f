"""Today's prices: the cheapest that can be had, and what must be said with it."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from rentbench.core.errors import RentbenchError
from rentbench.core.validation import check
from rentbench.pricing.history import History
from rentbench.pricing.offers import Offer, Stock
from rentbench.pricing.snapshots import Snapshot
from rentbench.pricing.store import append, load_all
from rentbench.pricing.today import api_prices, gpu_prices, price_series
from support.results import example

NOW = datetime(2026, 11, 10, 4, tzinfo=UTC)
L40S = Offer(
    provider="acme",
    offer="l40s",
    region="eu",
    tier="on-demand",
    amount=Decimal("1.14"),
    currency="USD",
    per="gpu-hour",
    gpu_count=1,
    gpu_name="L40S",
    gpu_memory_gb=48,
)
MODEL = replace(
    L40S, offer="bge-m3", region=None, amount=Decimal("0.01"), per="1M-tokens", gpu_count=None, gpu_name=None,
    gpu_memory_gb=None, tokens="input",
)  # fmt: skip


def variant(**changes: Any) -> Offer:
    amount = changes.pop("amount", None)
    changed = replace(L40S, **changes)
    return changed if amount is None else replace(changed, amount=Decimal(amount))


def kept(root: Path, **sources: list[tuple[str, list[Offer]]]) -> list[History]:
    for source, days in sources.items():
        for day, offers in days:
            append(
                root,
                Snapshot(
                    source=source, source_version=None, retrieved_at=f"2026-11-{day}T04:00:00Z", offers=offers
                ),
            )
    return load_all(root)


def test_the_cheapest_share_of_a_machine_is_shown_with_its_size(tmp_path: Path) -> None:
    pair = variant(offer="l40s-x2", amount="1.08", per="machine-hour", gpu_count=2)
    quote = gpu_prices(kept(tmp_path, acme=[("04", [L40S, pair])]))["l40s-48gb"]
    assert quote.usd == Decimal("0.54")
    assert quote.condition == "on a machine with 2 GPUs"
    assert (quote.source, quote.retrieved_at) == ("acme", "2026-11-04T04:00:00Z")


def test_equal_prices_go_to_the_smaller_machine(tmp_path: Path) -> None:
    pair = variant(offer="a-l40s-x2", amount="2.28", per="machine-hour", gpu_count=2)
    assert gpu_prices(kept(tmp_path, acme=[("04", [pair, L40S])]))["l40s-48gb"].condition == ""


def test_not_in_stock_is_said_only_where_nothing_can_be_had(tmp_path: Path) -> None:
    gone = variant(offer="cheap", amount="0.3", stock=Stock.OUT_OF_STOCK)
    assert gpu_prices(kept(tmp_path / "a", acme=[("04", [gone, L40S])]))["l40s-48gb"].usd == Decimal("1.14")
    quote = gpu_prices(kept(tmp_path / "b", acme=[("04", [gone])]))["l40s-48gb"]
    assert (quote.usd, quote.condition, quote.run_price()) == (None, "Not in stock", None)
    untold = replace(L40S, amount=None)
    assert (
        gpu_prices(kept(tmp_path / "c", acme=[("04", [untold])]))["l40s-48gb"].condition == "price not told"
    )


def test_age_and_staleness(tmp_path: Path) -> None:
    quote = gpu_prices(kept(tmp_path, acme=[("04", [L40S])]))["l40s-48gb"]
    assert quote.age_days(NOW) == 6
    assert not quote.is_stale(NOW)
    assert quote.is_stale(NOW.replace(day=12))
    assert quote.is_stale(NOW, after_days=5)


def test_an_old_source_speaks_only_where_no_newer_one_does(tmp_path: Path) -> None:
    a6000 = variant(offer="a6000", gpu_name="RTX A6000", amount="0.66")
    histories = kept(
        tmp_path,
        old=[("01", [variant(amount="0.2"), a6000])],
        week=[("05", [variant(amount="0.9")])],
        new=[("12", [L40S])],
    )
    quotes = gpu_prices(histories)
    assert (quotes["l40s-48gb"].source, quotes["l40s-48gb"].usd) == ("week", Decimal("0.9"))
    assert quotes["rtx-a6000-48gb"].source == "old"


def test_what_takes_no_part(tmp_path: Path) -> None:
    others = [
        variant(offer="euro", currency="EUR", amount="0.1"),
        variant(offer="spot", tier="spot", amount="0.1"),
        variant(offer="unknown", gpu_name="H101", amount="0.1"),
        MODEL,
    ]
    histories = kept(tmp_path, acme=[("04", [L40S, *others])])
    assert {key: quote.usd for key, quote in gpu_prices(histories).items()} == {"l40s-48gb": Decimal("1.14")}
    assert gpu_prices(histories, tier="spot")["l40s-48gb"].usd == Decimal("0.1")
    assert gpu_prices(histories, provider="other") == {}


def test_prices_of_models(tmp_path: Path) -> None:
    histories = kept(
        tmp_path, acme=[("04", [L40S, MODEL, replace(MODEL, tokens="output", amount=Decimal(1))])]
    )
    (quote,) = api_prices(histories, tokens="input").values()
    assert quote.usd == Decimal("0.01")
    assert quote.condition == ""
    with pytest.raises(RentbenchError, match="is no machine"):
        _ = MODEL.usd_per_gpu_hour


def test_prices_over_time(tmp_path: Path) -> None:
    histories = kept(
        tmp_path,
        acme=[
            ("01", [L40S]),
            ("02", [variant(amount="1.2"), variant(offer="b", amount="1.0")]),
            ("03", [MODEL]),
        ],
        other=[("01", [variant(amount="2")])],
    )
    series = [
        (one.retrieved_at[8:10], one.source, one.usd_per_gpu_hour, one.offers)
        for one in price_series(histories, "l40s-48gb")
    ]
    assert series == [
        ("01", "acme", Decimal("1.14"), 1),
        ("01", "other", Decimal(2), 1),
        ("02", "acme", Decimal("1.0"), 2),
    ]


def test_a_run_freezes_the_price_as_its_schema_wants_it(tmp_path: Path) -> None:
    pair = variant(offer="l40s-x2", amount="1.08", per="machine-hour", gpu_count=2)
    quote = gpu_prices(kept(tmp_path, acme=[("04", [pair])]))["l40s-48gb"]
    document = example("run", "rented")
    document["price"] = quote.run_price()
    assert document["price"]["per"] == "machine-hour"
    assert check(document, "run") == []
