"""Snapshots on disk: they come back as they were, each file whole and for ever, and a fault costs little."""

import gzip
import hashlib
import random
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rentbench.core.errors import RentbenchError
from rentbench.pricing import store
from rentbench.pricing.offers import Offer, Stock
from rentbench.pricing.snapshots import Refused, Snapshot
from rentbench.pricing.store import append, load, load_all

DAY_ONE = datetime(2026, 1, 1, tzinfo=UTC)


def moment(day: int) -> str:
    return f"{DAY_ONE + timedelta(days=day):%Y-%m-%dT%H:%M:%SZ}"


def offer(number: int, amount: str | None = "1.5", stock: Stock = Stock.IN_STOCK) -> Offer:
    return Offer(
        provider="acme",
        offer=f"type-{number}",
        region="Hafnarfjarðarkaupstaður, IS, EU",
        tier="spot" if number % 2 else "on-demand",
        amount=Decimal(amount) if amount else None,
        currency="USD",
        per="machine-hour",
        gpu_count=number % 8 + 1,
        gpu_name="H200",
        gpu_memory_gb=141,
        stock=stock,
    )


def snapshot(day: int, offers: list[Offer], source: str = "acme") -> Snapshot:
    return Snapshot(
        source=source,
        source_version="v1",
        retrieved_at=moment(day),
        offers=tuple(offers),
        refused=(Refused(reason="the machine has no GPU", count=3, example="cpu"),),
    )


def as_set(offers: object) -> set[Offer]:
    return set(offers)  # type: ignore[call-overload]


@st.composite
def days_of_offers(draw: st.DrawFn) -> list[list[Offer]]:
    prices = st.none() | st.integers(1, 10**12).map(lambda micro: str(Decimal(micro) / 1_000_000))
    day = st.dictionaries(
        st.integers(0, 30), st.tuples(prices, st.sampled_from(Stock)), min_size=1, max_size=20
    )
    return [
        [offer(number, amount, stock) for number, (amount, stock) in chosen.items()]
        for chosen in draw(st.lists(day, min_size=1, max_size=8))
    ]


@given(days=days_of_offers())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
def test_any_history_comes_back(days: list[list[Offer]], tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("prices")
    for number, offers in enumerate(days):
        append(root, snapshot(number, offers))
    history = load(root, "acme")
    assert history.problems == []
    assert [as_set(day.offers()) for day in history.days] == [as_set(offers) for offers in days]
    assert [day.retrieved_at for day in history.days] == [moment(number) for number in range(len(days))]
    newest = load(root, "acme", newest_chain=True).latest
    assert newest is not None
    assert as_set(newest.offers) == as_set(days[-1])
    assert newest.refused == snapshot(0, []).refused


def test_files_are_never_changed_and_the_same_snapshot_gives_the_same_bytes(tmp_path: Path) -> None:
    hashes: dict[str, str] = {}
    for root in (tmp_path / "one", tmp_path / "two"):
        for day in range(5):
            path = append(root, snapshot(day, [offer(number, str(1 + day)) for number in range(10)]))
            assert path is not None
            for file in path.parent.iterdir():
                digest = hashlib.sha256(file.read_bytes()).hexdigest()
                assert hashes.setdefault(file.name, digest) == digest
    assert len(hashes) == 5
    assert sum(".full." in name for name in hashes) == 1


def test_the_same_moment_is_nothing_new_and_an_older_one_is_refused(tmp_path: Path) -> None:
    append(tmp_path, snapshot(3, [offer(1)]))
    assert append(tmp_path, snapshot(3, [offer(1, "9")])) is None
    with pytest.raises(RentbenchError, match="newer snapshot already"):
        append(tmp_path, snapshot(2, [offer(1)]))


def test_a_broken_file_costs_the_rest_of_its_chain(tmp_path: Path) -> None:
    paths = [append(tmp_path, snapshot(day, [offer(1, str(day + 1))])) for day in range(4)]
    assert paths[1] is not None
    paths[1].write_bytes(paths[1].read_bytes()[:-9])
    history = load(tmp_path, "acme")
    assert [day.retrieved_at for day in history.days] == [moment(0)]
    assert "is cut off" in history.problems[0]
    assert "missing or was changed" in history.problems[1]
    # The next one begins a chain of its own.
    path = append(tmp_path, snapshot(4, [offer(1, "7")]))
    assert path is not None
    assert ".full." in path.name
    newest = load(tmp_path, "acme", newest_chain=True)
    assert newest.problems == []
    assert newest.latest is not None
    assert newest.latest.offers[0].amount == 7
    path.write_bytes(b"")
    assert load(tmp_path, "acme", newest_chain=True).days[-1].retrieved_at == moment(0), (
        "older is better than none"
    )


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (b'"format":1', b'"format":9', "format 9"),
        (b'"tier":["spot"]', b'"tier":["free"]', "whose tier is no tier"),
        (b'"gpu_count":[2]', b'"gpu_count":"2"', "is no gpu_count|no snapshot"),
        (b'"provider":["acme"]', b'"provider":[["acme"]]', "no snapshot|no provider"),
        (b'"retrieved_at":"2026-01-01', b'"retrieved_at":"2026-31-01', "no snapshot|no real moment"),
        (b'"new":', b'"old":', "no snapshot"),
        (b'"continues":null', b'"continues":"x"', "no snapshot"),
        (b"\x00\x01", b"\x80\x01", "cannot be"),
        (b"\x00\x01", b"\x00\x07", "cannot be"),
        (b"\n", b"\n\x00", "cut off or too long"),
    ],
)
def test_a_strange_file_is_told(old: bytes, new: bytes, told: str, tmp_path: Path) -> None:
    path = append(tmp_path, snapshot(0, [offer(1)]))
    assert path is not None
    content = gzip.decompress(path.read_bytes())
    assert old in content
    path.write_bytes(gzip.compress(content.replace(old, new, 1)))
    history = load(tmp_path, "acme")
    assert history.days == []
    (problem,) = history.problems
    assert re.search(told, problem)


@given(content=st.binary(max_size=200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
def test_any_bytes_are_told(content: bytes, tmp_path: Path) -> None:
    folder = tmp_path / "acme"
    folder.mkdir(exist_ok=True)
    for wrapped in (content, gzip.compress(content), gzip.compress(b'{"format":1}\n' + content)):
        (folder / "20260101T000000.000000Z.full.prices.gz").write_bytes(wrapped)
        assert len(load(tmp_path, "acme").problems) == 1


def test_a_chain_ends_after_a_number_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_MOST_FILES", 3)
    names = [path.name for day in range(7) if (path := append(tmp_path, snapshot(day, [offer(day)])))]
    assert [".full." in name for name in names] == [True, False, False, True, False, False, True]
    assert len(load(tmp_path, "acme").days) == 7
    assert len(load(tmp_path, "acme", newest_chain=True).days) == 1


def test_a_chain_ends_when_most_of_its_offers_are_gone(tmp_path: Path) -> None:
    append(tmp_path, snapshot(0, [offer(number) for number in range(1500)]))
    path = append(tmp_path, snapshot(1, [offer(number) for number in range(1000, 1700)]))
    assert path is not None
    assert ".full." in path.name


def _append_many(root: Path, start: int) -> None:
    for day in range(start, start + 40, 2):
        try:
            append(root, snapshot(day, [offer(number, str(day + 1)) for number in range(50)]))
        except RentbenchError:  # the other one was faster by a day
            continue


def test_two_updates_at_a_time_leave_one_history(tmp_path: Path) -> None:
    # A lock belongs to an open file: threads that each open the folder are kept apart like processes.
    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(_append_many, tmp_path, start) for start in (0, 1)]:
            done.result()
    history = load(tmp_path, "acme")
    assert history.problems == []
    assert len(history.days) >= 20
    assert [day.offers()[0].amount for day in history.days] == [
        int(day.path.name[6:8]) + 31 * (int(day.path.name[4:6]) - 1) for day in history.days
    ]


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "acme").write_text("a file where the folder should be")
    with pytest.raises(RentbenchError, match="acme cannot be made"):
        append(tmp_path, snapshot(1, [offer(1, "2")]))


def test_sources_are_found_by_their_folders(tmp_path: Path) -> None:
    assert load_all(tmp_path / "none") == []
    append(tmp_path, snapshot(0, [offer(1)], source="b"))
    append(tmp_path, snapshot(0, [offer(1)], source="a"))
    (tmp_path / "empty").mkdir()
    (tmp_path / "README.md").write_text("notes")
    assert [history.source for history in load_all(tmp_path)] == ["a", "b"]


def test_offers_of_one_gpu(tmp_path: Path) -> None:
    other = [replace(offer(number), gpu_name="L40S", gpu_memory_gb=48) for number in range(10, 13)]
    append(tmp_path, snapshot(0, [offer(1), *other]))
    append(tmp_path, snapshot(1, [offer(1), offer(2), *other[:1]]))
    first, second = load(tmp_path, "acme").days
    assert [len(day.offers_of("l40s-48gb")) for day in (first, second)] == [3, 1]
    assert [len(day.offers_of("h200-sxm-141gb")) for day in (first, second)] == [1, 2]


def test_the_cheapest_is_that_of_the_offers(tmp_path: Path) -> None:
    chance = random.Random(7)
    for day in range(5):
        offers = [
            replace(
                offer(
                    number,
                    str(chance.randint(1, 50)) if chance.random() < 0.8 else None,
                    chance.choice(list(Stock)),
                ),
                per=chance.choice(["gpu-hour", "machine-hour"]),
                currency=chance.choice(["USD", "USD", "EUR"]),
            )
            for number in range(60)
        ]
        append(tmp_path, snapshot(day, offers))
    for kept in load(tmp_path, "acme").days:
        for tier in ("on-demand", "spot"):
            prices = [
                price
                for one in kept.offers_of("h200-sxm-141gb")
                if one.tier == tier and one.currency == "USD" and one.can_be_had
                if (price := one.usd_per_gpu_hour) is not None
            ]
            assert kept.cheapest("h200-sxm-141gb", tier) == (min(prices), len(prices))
    assert kept.cheapest("l4-24gb", "spot") is None


def test_a_history_is_read_in_any_order_of_writing_of_its_offers(tmp_path: Path) -> None:
    offers = [offer(number) for number in range(30)]
    for day in range(6):
        random.Random(day).shuffle(offers)
        append(tmp_path, snapshot(day, offers[: 20 + day]))
    for day, kept in enumerate(load(tmp_path, "acme").days):
        assert len(kept.offers()) == 20 + day
