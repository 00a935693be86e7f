"""Sources that are services: Runcrate and Lambda, as documented, and when they fail."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from email.utils import format_datetime

import pytest

from rentbench.core.errors import RentbenchError
from rentbench.pricing.http import SourceError, get_json
from rentbench.pricing.offers import Stock
from rentbench.pricing.snapshots import Snapshot
from rentbench.pricing.sources.lambda_cloud import LambdaSource
from rentbench.pricing.sources.runcrate import RuncrateSource
from support.price_server import Fault, PriceServer

TYPES = "/api/v1/instances/types"
NOW = "2026-12-01T03:00:00Z"


def machine(kind: str, count: int, rate: float | None, region: str = "us") -> dict[str, object]:
    return {
        "id": f"stoic-{kind}x{count}-{region}", "gpu_type": kind, "gpu_count": count, "cpu_cores": 16,
        "memory_gb": 64, "storage_gb": 500, "region": region, "deployment_type": "vm", "hourly_rate": rate,
    }  # fmt: skip


def runcrate(server: PriceServer, *, key: str | None = "rc_live_test") -> list[Snapshot | RentbenchError]:
    source = RuncrateSource(
        api_key=key, api_url=server.url, models_url=server.url, sleep=lambda _: None, now=lambda: NOW
    )
    return list(source.read())


@pytest.fixture
def answering(server: PriceServer) -> PriceServer:
    server.answers[TYPES] = {
        "data": [
            machine("RTX A6000", 1, 0.66),
            machine("RTX A6000", 4, 2.64),
            machine("L40S", 2, 1.08),
            machine("H200", 1, None),
            machine("CPU", 0, 0.05),
            {"id": "odd", "gpu_type": "L4", "gpu_count": 1},
        ]
    }
    server.answers["/v1/models"] = {
        "data": [
            {"id": "BAAI/bge-m3", "pricing": {"input": "0.01"}},
            {"id": "qwen", "pricing": {"input": 0.05, "output": 0.2}},
            {"id": "free", "pricing": {"input": 0}},
            {"id": "no-price"},
        ]
    }
    return server


def test_machine_types_of_runcrate(answering: PriceServer) -> None:
    machines, _ = runcrate(answering)
    assert isinstance(machines, Snapshot)
    prices = {offer.offer: offer.usd_per_gpu_hour for offer in machines.offers}
    # The rate of four is four times that of one: it is the machine's, and so is that of two L40S.
    assert prices == {
        "stoic-RTX A6000x1-us": Decimal("0.66"),
        "stoic-RTX A6000x4-us": Decimal("0.66"),
        "stoic-L40Sx2-us": Decimal("0.54"),
        "stoic-H200x1-us": None,
    }
    assert {one.reason for one in machines.refused} == {"the machine has no GPU", "lacks hourly_rate"}
    assert machines.unknown_gpus() == []
    assert {headers["Authorization"] for _, path, headers in answering.asked if path == TYPES} == {
        "Bearer rc_live_test"
    }


@pytest.mark.parametrize(
    ("rates", "per"),
    [
        ([(1, 1.0), (8, 8.0)], "machine-hour"),
        ([(1, 1.0), (8, 7.2)], "machine-hour"),
        ([(1, 1.0), (8, 1.0)], "gpu-hour"),
        ([(1, 1.0), (8, 0.9)], "gpu-hour"),
        ([(8, 8.0)], None),
        ([(1, 1.0), (2, 1.4)], None),
    ],
)
def test_what_a_rate_is_for_is_read_from_the_rates(
    rates: list[tuple[int, float]], per: str | None, server: PriceServer
) -> None:
    server.answers[TYPES] = [machine("L40S", count, rate) for count, rate in rates]
    machines, _ = runcrate(server)
    assert isinstance(machines, Snapshot)
    large = [offer.per for offer in machines.offers if offer.gpu_count != 1]
    assert large == ([] if per is None else [per])
    if per is None:
        assert "nothing says" in machines.refused[0].reason


def test_models_of_runcrate(answering: PriceServer) -> None:
    _, models = runcrate(answering)
    assert isinstance(models, Snapshot)
    prices = {(offer.offer, offer.tokens): offer.amount for offer in models.offers}
    assert prices == {
        ("BAAI/bge-m3", "input"): Decimal("0.01"),
        ("qwen", "input"): Decimal("0.05"),
        ("qwen", "output"): Decimal("0.2"),
    }
    assert sum(one.count for one in models.refused) == 2


@pytest.mark.parametrize("own", [None, {"data": [{"id": "qwen"}]}, {"data": "?"}])
def test_models_come_from_the_website_where_their_api_has_no_prices(
    own: object, answering: PriceServer
) -> None:
    answering.answers["/api/models/catalog"] = [{"id": "qwen", "pricing": {"input": 0.05}}]
    answering.answers["/v1/models"] = own
    _, models = runcrate(answering)
    assert isinstance(models, Snapshot)
    assert [offer.amount for offer in models.offers] == [Decimal("0.05")]


def test_runcrate_without_a_key_reads_what_is_public(server: PriceServer) -> None:
    server.answers["/api/gpu-pricing"] = [
        {"gpu_type": "RTX A4000", "region": "us", "hourly_rate": "1.04"},
        {"gpu_type": "RTX A4000", "region": "eu", "hourly_rate": 0.2},
        {"gpu": "unknown shape", "price": 3},
    ]
    machines, models = runcrate(server, key=None)
    assert isinstance(machines, Snapshot)
    assert [offer.amount for offer in machines.offers] == [Decimal("1.04"), Decimal("0.2")]
    assert machines.refused[0].reason == "lacks hourly_rate"
    assert isinstance(models, RentbenchError)
    assert "404: not found" in models.message


@pytest.mark.parametrize(
    ("fault", "told", "tries"),
    [
        (Fault(status=401, body=b'{"error": {"code": "x", "message": "bad key"}}'), "401: bad key", 1),
        (Fault(status=402, body=b'{"error": "no credits"}'), "402: no credits", 1),
        (Fault(status=500, body=b'{"detail": "provider_unavailable"}'), "500: provider_unavailable", 1),
        (Fault(status=503, body=b""), "answered 503", 4),
        (Fault(status=429, body=b'{"title": "slow down"}', headers={"retry-after": "2"}), "slow down", 4),
        (Fault(body=b"<html>", headers={"content-type": "text/html; x"}), "html that is no JSON", 1),
        (Fault(body=b'{"data": 5}'), "form that is not known", 1),
        (Fault(body=b"[1]"), "form that is not known", 1),
        (Fault(body=b"[" * 100_000), "that is no JSON", 1),
        (Fault(body=b"{", cut=True), "cannot be reached", 4),
        (Fault(status=302, headers={"location": "http://127.0.0.1:9/"}), "answered 302", 1),
    ],
)  # fmt: skip
def test_faults_are_told(fault: Fault, told: str, tries: int, answering: PriceServer) -> None:
    answering.faults[TYPES] = [fault] * 10
    machines, models = runcrate(answering)
    assert isinstance(machines, SourceError)
    assert told in machines.message
    assert isinstance(models, Snapshot), "one that fails keeps no other from being read"
    assert [path for _, path, _ in answering.asked].count(TYPES) == tries
    assert "rc_live_test" not in f"{machines.message} {machines.hint}"


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_what_passes_is_waited_for(status: int, answering: PriceServer) -> None:
    answering.faults[TYPES] = [Fault(status=status), Fault(body=b"{", cut=True), Fault(status=status)]
    machines, _ = runcrate(answering)
    assert isinstance(machines, Snapshot)


def test_a_wait_is_as_long_as_asked_for_and_never_endless(server: PriceServer) -> None:
    server.answers["/x"] = []
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    server.faults["/x"] = [
        Fault(status=429, headers={"retry-after": "7"}),
        Fault(status=429, headers={"retry-after": soon}),
        Fault(status=429, headers={"retry-after": "86400"}),
    ]
    waits: list[float] = []
    assert get_json(f"{server.url}/x", name="x", sleep=waits.append) == []
    assert waits[0] == 7
    assert 20 < waits[1] <= 30
    assert waits[2] == 60


@pytest.mark.parametrize("key", ["rc_secret\r", "rc_secret\n", "rc_se\ncret", "rc_secrét", " "])
def test_a_key_that_cannot_be_sent_is_told_and_not_shown(key: str, answering: PriceServer) -> None:
    for error in runcrate(answering, key=key):
        assert isinstance(error, SourceError)
        assert "API key" in str(error.hint)
        assert "rc_se" not in error.message
    assert answering.asked == []


def test_no_network_is_told_with_what_to_do() -> None:
    with pytest.raises(SourceError, match="the service cannot be reached") as raised:
        get_json("http://127.0.0.1:9/x", name="the service", sleep=lambda _: None)
    assert "stay" in str(raised.value.hint)


LAMBDA = {
    "data": {
        "gpu_8x_h100_sxm5": {
            "instance_type": {
                "name": "gpu_8x_h100_sxm5",
                "gpu_description": "H100 (80 GB SXM5)",
                "price_cents_per_hour": 2392,
                "specs": {"gpus": 8},
            },
            "regions_with_capacity_available": [{"name": "us-west-3"}, {"name": "us-south-2"}],
        },
        "gpu_1x_gh200": {
            "instance_type": {
                "name": "gpu_1x_gh200",
                "gpu_description": "GH200 (96 GB)",
                "price_cents_per_hour": 149,
                "specs": {"gpus": 1},
            },
            "regions_with_capacity_available": [],
        },
    }
}


def test_lambda_tells_cents_and_stock(server: PriceServer) -> None:
    server.answers["/lambda/instance-types"] = LAMBDA
    source = LambdaSource(api_key="rc_live_test", api_url=f"{server.url}/lambda", now=lambda: NOW)
    (snapshot,) = source.read()
    assert [(one.offer, one.region, one.amount, one.stock) for one in snapshot.offers] == [
        ("gpu_8x_h100_sxm5", "us-west-3", Decimal("23.92"), Stock.IN_STOCK),
        ("gpu_8x_h100_sxm5", "us-south-2", Decimal("23.92"), Stock.IN_STOCK),
        ("gpu_1x_gh200", None, Decimal("1.49"), Stock.OUT_OF_STOCK),
    ]
    assert snapshot.offers[0].usd_per_gpu_hour == Decimal("2.99")
    assert snapshot.unknown_gpus() == []


def test_lambda_in_another_form(server: PriceServer) -> None:
    server.answers["/lambda/instance-types"] = json.loads(json.dumps(LAMBDA).replace("specs", "size"))
    with pytest.raises(SourceError, match="form that is not known"):
        list(LambdaSource(api_key="rc_live_test", api_url=f"{server.url}/lambda").read())
