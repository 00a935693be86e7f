"""Size and speed of a year of prices: 30,000 offers a day, of which a third move and a few come and go.

A short history is measured here and scaled; `RENTBENCH_PRICE_DAYS=365 pytest -s` on it measures a year.
"""

from __future__ import annotations

import os
import random
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from rentbench.pricing.offers import Offer
from rentbench.pricing.snapshots import Snapshot
from rentbench.pricing.store import append, load
from rentbench.pricing.today import price_series

if TYPE_CHECKING:
    from pathlib import Path

DAYS = int(os.environ.get("RENTBENCH_PRICE_DAYS", "8"))
OFFERS, MOVING, COMING = 30_000, 0.3, 150
GPUS = ("H100-SXM", "A100-80GB-SXM", "L40S", "RTX4090", "L4", "T4")


def offer(number: int, chance: random.Random) -> Offer:
    return Offer(
        provider=("aws", "gcp", "vast")[number % 3],
        offer=f"type-{number % 2500}-{number // 30_000}",
        region=f"region-{number // 2500}",
        tier="on-demand",
        amount=Decimal(chance.randint(20_000, 40_000_000)) / 1_000_000,
        currency="USD",
        per="machine-hour",
        gpu_count=1 + number % 8,
        gpu_name=GPUS[number % len(GPUS)],
    )


@pytest.mark.slow
def test_a_year_of_prices_is_small_and_quick(tmp_path: Path) -> None:
    chance = random.Random(1)
    offers = [offer(number, chance) for number in range(OFFERS)]
    for day in range(DAYS):
        for number, one in enumerate(offers):
            if chance.random() < MOVING and one.amount:
                moved = (one.amount * Decimal(str(chance.uniform(0.9, 1.1)))).quantize(Decimal("0.000001"))
                offers[number] = replace(one, amount=moved)
        for number in range(COMING):
            offers[chance.randrange(OFFERS)] = offer(OFFERS * (day + 1) + number, chance)
        moment = f"{datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day):%Y-%m-%dT%H:%M:%SZ}"
        append(tmp_path, Snapshot(source="all", source_version=None, retrieved_at=moment, offers=offers))
    sizes = [path.stat().st_size for path in sorted(tmp_path.rglob("*.gz"))]
    seconds = min(timed(tmp_path) for _ in range(3))
    began = time.process_time()
    assert len(price_series([load(tmp_path, "all")], "l40s-48gb")) == DAYS
    series = time.process_time() - began
    # The first day of a chain is larger than the others; there are four chains in a year.
    year_mb = (sum(sizes) if DAYS >= 365 else 4 * sizes[0] + 361 * sum(sizes[1:]) / (DAYS - 1)) / 1e6
    print(f"\n{DAYS} days: {sum(sizes) / 1e6:.1f} MB, loaded in {seconds:.2f} s of processor time")
    print(f"a year: {year_mb:.0f} MB; one GPU's series of {DAYS} days: {series:.2f} s")
    assert year_mb < 100
    if DAYS >= 365:
        assert seconds < 2


def timed(root: Path) -> float:
    began = time.process_time()
    assert len(load(root, "all").days) == DAYS
    return time.process_time() - began
