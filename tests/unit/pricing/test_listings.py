"""Rows of listings: amounts as sources write them, and what is no offer."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rentbench.core.validation import check
from rentbench.pricing.listings import Listing, gpus_of, provider_name
from rentbench.pricing.offers import Stock
from rentbench.pricing.snapshots import Snapshot


def listing() -> Listing:
    return Listing(source="acme", source_version=None, retrieved_at="2026-12-01T00:00:00Z")


def add(to: Listing, **changes: object) -> None:
    row: dict[str, object] = {
        "provider": "acme", "offer": "h200", "region": "eu", "amount": 3, "gpu_count": 1, "gpu_name": "H200",
    }  # fmt: skip
    to.add_machine(**(row | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("amount", "price"),
    [
        (3, "3"), (2.65, "2.65"), ("2.65", "2.65"), (" 2.65 ", "2.65"), (Decimal("1.0000004"), "1"),
        (0, None), ("0.00", None), ("", None), ("  ", None), (None, None), (1e-9, None),
    ],
)  # fmt: skip
def test_amounts(amount: object, price: str | None) -> None:
    rows = listing()
    add(rows, amount=amount)
    (offer,) = rows.snapshot().offers
    assert offer.amount == (Decimal(price) if price else None)


@pytest.mark.parametrize(
    "amount", ["$2.65", "2,65", "n/a", "nan", float("nan"), float("inf"), -1, True, [], 1e12]
)
def test_what_is_no_amount_is_counted(amount: object) -> None:
    rows = listing()
    add(rows, amount=amount)
    add(rows, amount=amount)
    snapshot = rows.snapshot()
    assert snapshot.offers == ()
    (refused,) = snapshot.refused
    assert (refused.count, refused.example) == (2, "h200")
    assert refused.reason.startswith(("price is", "the price is"))


def test_a_spot_offer_without_a_price_is_none() -> None:
    rows = listing()
    add(rows, amount="0.00", tier="spot")
    add(rows, amount="", tier="spot")
    assert rows.snapshot().offers == ()
    assert rows.snapshot().refused == ()


@pytest.mark.parametrize(
    ("written", "count"), [(8, 8), (8.0, 8), ("8.0", 8), (" 8 ", 8), ("", None), (None, None), (0, None)]
)
def test_numbers_of_gpus(written: object, count: int | None) -> None:
    assert gpus_of(written) == count


@pytest.mark.parametrize("written", ["12.5", -1, 1e9, "eight", True])
def test_what_is_no_number_of_gpus(written: object) -> None:
    rows = listing()
    add(rows, gpu_count=written)
    assert rows.snapshot().offers == ()
    assert "number of GPUs" in rows.snapshot().refused[0].reason


def test_of_equal_offers_the_cheapest_that_can_be_had_stays() -> None:
    rows = listing()
    for amount, stock in [
        (3, Stock.NOT_TOLD),
        (2, Stock.OUT_OF_STOCK),
        (4, Stock.IN_STOCK),
        (5, Stock.IN_STOCK),
    ]:
        add(rows, amount=amount, stock=stock)
    add(rows, amount=1, region="us")
    add(rows, amount=1, gpu_count=2)
    first, *others = rows.snapshot().offers
    assert (first.amount, first.stock) == (Decimal(4), Stock.IN_STOCK)
    assert len(others) == 2


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("vastai", "vast"),
        ("Vast.ai", "vast-ai"),
        ("lambdalabs", "lambda"),
        ("Lambda Labs", "lambda"),
        ("AWS", "aws"),
    ],
)
def test_providers_have_one_name(said: str, name: str) -> None:
    assert provider_name(said) == name


texts = st.text(max_size=40) | st.sampled_from(["\ud800", " " * 600 + "x", "x" * 600])
numbers = st.none() | st.floats() | st.integers() | texts


@given(st.lists(st.tuples(texts, texts, numbers, numbers, texts, numbers), max_size=6))
def test_any_rows_give_a_valid_snapshot(rows: list[tuple[object, ...]]) -> None:
    listed = listing()
    for offer, region, amount, count, gpu, memory in rows:
        memory_gb = memory if isinstance(memory, float) else None
        add(
            listed,
            offer=offer,
            region=region,
            amount=amount,
            gpu_count=count,
            gpu_name=gpu,
            gpu_memory_gb=memory_gb,
        )
        listed.add_model(provider="acme", model=str(offer), tokens="input", amount=amount)
    snapshot = listed.snapshot()
    document = snapshot.as_document()
    assert [str(one) for one in check(document, "prices")] == []
    assert Snapshot.from_document(document) == snapshot
