"""The snapshots in results/prices: whole, valid, and what the files beside them say."""

from decimal import Decimal
from pathlib import Path

import pytest

from rentbench.core.validation import check
from rentbench.pricing.sources.contracts import ContractsSource
from rentbench.pricing.store import load_all
from rentbench.pricing.today import api_prices, gpu_prices, price_series

PRICES = Path(__file__).parents[3] / "results" / "prices"

pytestmark = pytest.mark.skipif(not PRICES.is_dir(), reason="this copy has no results")


def test_every_snapshot_is_whole_and_valid() -> None:
    histories = load_all(PRICES)
    assert histories
    for history in histories:
        assert history.problems == []
        latest = history.latest
        assert latest is not None
        assert check(latest.as_document(), "prices") == []


def test_the_files_that_were_written_by_hand_are_what_is_kept() -> None:
    kept = {
        (history.source, day.retrieved_at): set(day.offers())
        for history in load_all(PRICES)
        for day in history.days
    }
    written = [snapshot for path in PRICES.rglob("*.toml") for snapshot in ContractsSource(path=path).read()]
    assert len(written) == 6
    for snapshot in written:
        assert kept[snapshot.source, snapshot.retrieved_at] == set(snapshot.offers)


def test_published_prices_of_the_run_day_and_of_today() -> None:
    histories = load_all(PRICES)
    a6000 = {
        point.retrieved_at[:10]: point.usd_per_gpu_hour for point in price_series(histories, "rtx-a6000-48gb")
    }
    assert a6000["2026-10-26"] == Decimal("0.66")
    assert a6000["2026-11-04"] == Decimal("0.57")
    assert Decimal("0.54") in {point.usd_per_gpu_hour for point in price_series(histories, "l40s-48gb")}
    assert gpu_prices(histories, provider="aws")["h100-sxm-80gb"].condition == "on a machine with 8 GPUs"
    assert api_prices(histories, tokens="input")["runcrate", "BAAI/bge-m3"].usd == Decimal("0.01")
