"""Sources that are files: SkyPilot's catalogues, gpuhunt's catalogues, one's own prices."""

import importlib
import io
import os
import re
import shutil
import sys
import zipfile
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from rentbench.core.errors import (
    DependencyMissingError,
    InvalidDocumentError,
    RentbenchError,
    UnusableInputError,
)
from rentbench.pricing.offers import Offer
from rentbench.pricing.snapshots import Snapshot
from rentbench.pricing.sources.contracts import ContractsSource
from rentbench.pricing.sources.gpuhunt_catalogs import ONLINE, GpuhuntSource
from rentbench.pricing.sources.skypilot import SkypilotSource
from rentbench.pricing.update import update
from support.price_server import Fault, PriceServer

FIXTURES = Path(__file__).parents[2] / "fixtures" / "prices"


def snapshots(read: object) -> dict[str, Snapshot]:
    return {one.source: one for one in read if isinstance(one, Snapshot)}  # type: ignore[attr-defined]


def gpu_keys(snapshot: Snapshot) -> dict[str, str | None]:
    return {
        f"{offer.offer} {offer.region}": gpu.key if (gpu := offer.identified.gpu) else None
        for offer in snapshot.offers
    }


def found(snapshot: Snapshot, offer: str, *, tier: str = "on-demand") -> Offer:
    (one,) = (one for one in snapshot.offers if one.offer == offer and one.tier == tier)
    return one


@pytest.fixture(scope="module")
def skypilot() -> dict[str, Snapshot]:
    return snapshots(SkypilotSource(catalogs=FIXTURES / "skypilot").read())


def test_vast_cards_are_told_apart(skypilot: dict[str, Snapshot]) -> None:
    assert gpu_keys(skypilot["skypilot-vast"]) == {
        "2x-H200-32-65536 , US, NA": "h200-sxm-141gb",
        "1x-H100_NVL-32-65536 Bulgaria, BG, EU": "h100-nvl-94gb",
        "1x-H100_SXM-32-65536 Texas, US, NA": "h100-sxm-80gb",
        "2x-A100_SXM4-32-65536 Slovenia, SI, EU": "a100-sxm-40gb",
        "1x-A100_PCIE-32-65536 Oklahoma, US, NA": "a100-pcie-80gb",
        "1x-RTX_4090-32-65536 Germany, DE, EU": "rtx-4090-24gb",
        "1x-RTX_4090-32-65536 Hong Kong, HK, AS": None,
        "2x-RTX_3060_Ti-32-65536 Michigan, US, NA": "rtx-3060-ti-8gb",
        "2x-RTX_5090-32-65536 Hafnarfjarðarkaupstaður, IS, EU": "rtx-5090-32gb",
    }
    (unknown,) = skypilot["skypilot-vast"].unknown_gpus()
    assert unknown.name == "RTX_4090"
    assert "not with 51.5" in unknown.reason


def test_a_zero_is_no_spot_price_and_one_above_on_demand_is_told(skypilot: dict[str, Snapshot]) -> None:
    vast = skypilot["skypilot-vast"]
    assert [offer.offer for offer in vast.offers if offer.tier == "spot"] == ["2x-RTX_5090-32-65536"]
    ((spot, on_demand),) = vast.spot_above_on_demand()
    assert (spot.amount, on_demand.amount) == (Decimal("1.1"), Decimal("0.93"))


def test_prices_are_of_the_whole_machine(skypilot: dict[str, Snapshot]) -> None:
    runpod = skypilot["skypilot-runpod"]
    assert found(runpod, "2x_A100-80GB_SECURE").usd_per_gpu_hour == Decimal("1.39")
    assert found(skypilot["skypilot-vast"], "2x-H200-32-65536").usd_per_gpu_hour == Decimal("2.59")
    assert set(gpu_keys(runpod).values()) == {"a100-pcie-80gb"}


def test_of_two_zones_the_cheaper_one_stays(skypilot: dict[str, Snapshot]) -> None:
    assert found(skypilot["skypilot-runpod"], "1x_A100-80GB_SECURE").amount == Decimal("1.35")


def test_blank_and_zero_are_no_price(skypilot: dict[str, Snapshot]) -> None:
    azure = skypilot["skypilot-azure"]
    assert found(azure, "Standard_ND96isr_H100_v5").amount is None
    assert found(azure, "Standard_NC40ads_H100_v5").amount is None
    assert found(azure, "Standard_NC40ads_H100_v5").usd_per_gpu_hour is None
    assert len(azure.spot_above_on_demand()) == 1  # 0.49 against 0.44
    assert {(refused.reason, refused.count) for refused in azure.refused} == {
        ("the machine has no GPU", 1),
        ("lists 12 GPUs of a machine with 8", 1),
    }
    assert set(gpu_keys(azure).values()) == {"h100-sxm-80gb", "h100-nvl-94gb", "a100-pcie-80gb"}


def test_lambdas_a100_depends_on_the_machine(skypilot: dict[str, Snapshot]) -> None:
    assert list(gpu_keys(skypilot["skypilot-lambda"]).values()) == ["a100-pcie-40gb", "a100-sxm-40gb"]


def test_the_newest_version_of_catalogues_is_read(tmp_path: Path) -> None:
    for version in ("v7", "v10"):
        shutil.copytree(FIXTURES / "skypilot" / "v8", tmp_path / version)
    os.utime(tmp_path / "v10" / "azure" / "vms.csv", (1_790_000_000, 1_790_000_000))
    (tmp_path / "v10" / "vast" / "vms.csv").write_text("InstanceType,Price\nx,1\n")
    (tmp_path / "v10" / "runpod" / "vms.csv").write_bytes(b"\xff\xfe")
    read = list(SkypilotSource(catalogs=tmp_path).read())
    azure = snapshots(read)["skypilot-azure"]
    assert azure.source_version == "v10"
    assert azure.retrieved_at == "2026-09-21T14:13:20Z"
    not_text, lacking = (str(one) for one in read if isinstance(one, RentbenchError))
    assert "no UTF-8" in not_text
    assert "lacks AcceleratorCount" in lacking


def test_a_catalogue_that_is_no_csv_is_told_and_the_next_one_read(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "skypilot", tmp_path, dirs_exist_ok=True)
    (broken,) = tmp_path.glob("*/runpod/vms.csv")
    names = broken.read_text(encoding="utf-8").splitlines()[0]
    broken.write_text(f'{names}\n"{"a quote that never ends, " * 10_000}', encoding="utf-8")
    read = list(SkypilotSource(catalogs=tmp_path).read())
    (told,) = (one for one in read if isinstance(one, RentbenchError))
    assert "cannot be read as CSV" in told.message
    assert {"skypilot-vast", "skypilot-lambda"} <= snapshots(read).keys()


def test_no_catalogues_of_skypilot(tmp_path: Path) -> None:
    with pytest.raises(RentbenchError, match="no catalogues of SkyPilot"):
        list(SkypilotSource(catalogs=tmp_path / "none").read())


def test_gpuhunts_catalogues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUHUNT_CATALOG_DIR", str(FIXTURES / "gpuhunt"))
    read = list(GpuhuntSource(providers=("aws", "runpod", "gcp")).read())
    aws, runpod = snapshots(read)["gpuhunt-aws"], snapshots(read)["gpuhunt-runpod"]
    assert gpu_keys(aws) == {
        "p5.48xlarge us-east-1": "h100-sxm-80gb",
        "g6e.xlarge us-east-1": "l40s-48gb",
        "g4ad.xlarge us-east-1": None,
    }
    assert [gpu.on_purpose for gpu in aws.unknown_gpus()] == [True]
    assert found(aws, "p5.48xlarge").usd_per_gpu_hour == Decimal("3.9")
    assert found(aws, "p5.48xlarge", tier="spot").usd_per_gpu_hour == Decimal("2.5")
    assert set(gpu_keys(runpod).values()) == {"h100-pcie-80gb", "h100-sxm-80gb"}
    assert [offer.gpu_count for offer in runpod.offers] == [1, 1, 2]
    (error,) = (one for one in read if isinstance(one, RentbenchError))
    assert error.message.startswith("gcp cannot be read: ")


def test_gpuhunts_published_catalogues(server: PriceServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUHUNT_CATALOG_DIR", raising=False)
    monkeypatch.setenv("GPUHUNT_CATALOG_URL", f"{server.url}/v3")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.write(FIXTURES / "gpuhunt" / "aws.csv", "aws.csv")
    server.faults["/v3/aws/version"] = [Fault(body=b"20261130-7")]
    server.faults["/v3/aws/20261130-7/catalog.zip"] = [Fault(body=packed.getvalue())]
    (aws,) = GpuhuntSource(providers=("aws",)).read()
    assert isinstance(aws, Snapshot)
    assert (aws.source_version, aws.retrieved_at) == ("20261130-7", "2026-11-30T00:00:00Z")
    assert len(aws.offers) == 4
    assert [path for _, path, _ in server.asked] == ["/v3/aws/version", "/v3/aws/20261130-7/catalog.zip"]


def test_no_provider_that_is_asked_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DAYTONA_API_KEY", "VULTR_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for provider, name in ONLINE.items():
        getattr(importlib.import_module(f"gpuhunt.providers.{provider}"), name).from_env()


def test_without_gpuhunt_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gpuhunt", None)
    monkeypatch.delitem(sys.modules, "gpuhunt._internal.catalog", raising=False)
    with pytest.raises(DependencyMissingError) as raised:
        list(GpuhuntSource().read())
    assert "rentbench[prices]" in str(raised.value.hint)


def test_gpuhunt_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUHUNT_CATALOG_DIR", raising=False)
    monkeypatch.setenv("GPUHUNT_CATALOG_URL", "http://127.0.0.1:9/v3")
    read = list(GpuhuntSource(providers=("aws", "oci")).read())
    assert [str(one) for one in read] == ["aws cannot be reached", "oci cannot be reached"]
    assert "stay" in str(read[0].hint)  # type: ignore[union-attr]


def test_gpuhunt_asks_a_marketplace(server: PriceServer, monkeypatch: pytest.MonkeyPatch) -> None:
    vastai = pytest.importorskip("gpuhunt.providers.vastai")
    monkeypatch.setattr(vastai, "bundles_url", f"{server.url}/api/v0/bundles/")
    offer = {
        "id": 1, "gpu_name": "RTX 4090", "num_gpus": 2, "gpu_ram": 24564, "cpu_cores": 32, "cpu_ram": 64000,
        "cpu_cores_effective": 16.0, "disk_space": 8, "storage_cost": 0.2, "dph_base": 0.8, "dph_total": 0.9,
        "geolocation": "Sweden, SE", "min_bid": 0.3,
    }  # fmt: skip
    server.answers["/api/v0/bundles/"] = {"offers": [offer, offer | {"id": 2, "dph_base": 0.7}]}
    (vast,) = GpuhuntSource(providers=("vastai",), now=lambda: "2026-12-01T00:00:00Z").read()
    assert isinstance(vast, Snapshot)
    assert vast.source == "gpuhunt-vast"
    # Two machines of one type in one place are one offer, at the cheaper price with its disk.
    machine = found(vast, "2x-RTX4090")
    assert machine.amount == Decimal("0.70222")
    assert machine.provider == "vast"
    assert found(vast, "2x-RTX4090", tier="spot").amount == Decimal("0.30222")


TOML = """
source = "acme-contract"
retrieved_at = "2026-11-04T04:00:00Z"

[[offer]]
provider = "acme"
offer = "a6000x4"
region = "eu"
amount = "2.28"
per = "machine-hour"
gpu_count = 4
gpu_name = "RTX A6000"

[[offer]]
provider = "acme"
offer = "bge-m3"
amount = 0.01
per = "1M-tokens"
tokens = "input"
"""
CSV = """\ufeffsource,retrieved_at,provider,offer,region,amount,currency,per,gpu_count,gpu_name,gpu_memory_gb
acme-contract,2026-11-04T04:00:00Z,acme,a6000x4,eu,2.28,,machine-hour,4,RTX A6000,48
acme-contract,2026-11-04T04:00:00Z,acme,h100x8,eu,20,EUR,machine-hour,8.0,H100-SXM,
"""


def write(folder: Path, name: str, text: str) -> ContractsSource:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return ContractsSource(path=path)


def test_prices_of_ones_own(tmp_path: Path) -> None:
    (toml,) = write(tmp_path, "own.toml", TOML).read()
    assert found(toml, "a6000x4").usd_per_gpu_hour == Decimal("0.57")
    assert found(toml, "bge-m3").amount == Decimal("0.01")
    (csv,) = write(tmp_path, "own.csv", CSV).read()
    assert found(csv, "a6000x4").amount == Decimal("2.28")
    assert found(csv, "h100x8").gpu_count == 8
    with pytest.raises(RentbenchError, match="priced in EUR"):
        _ = found(csv, "h100x8").usd_per_gpu_hour


def test_a_csv_from_a_spreadsheet(tmp_path: Path) -> None:
    names, *rows = CSV.splitlines()
    text = "\r\n".join([names.replace(",", " , "), *rows]) + "\r\n"
    (csv,) = write(tmp_path, "MY PRICES.CSV", text).read()
    assert found(csv, "a6000x4").amount == Decimal("2.28")


@pytest.mark.parametrize(
    ("moment", "result"), [(-1, "kept"), (0.5, "kept"), (400, "failed"), (-20_000, "failed")]
)
def test_a_date_that_cannot_be_is_not_kept(moment: float, result: str, tmp_path: Path) -> None:
    read = f"{datetime.now(UTC) + timedelta(days=moment):%Y-%m-%dT%H:%M:%SZ}"
    source = write(tmp_path, "own.toml", re.sub(r"2026-11-04T[^\"]*Z", read, TOML, count=1))
    (outcome,) = update([source], tmp_path / "prices")
    assert outcome.result == result
    assert outcome.error is None or (read in outcome.error.message and "clock" in str(outcome.error.hint))


@pytest.mark.parametrize(
    ("name", "old", "new", "told"),
    [
        ("own.toml", '"2.28"', "0", "/offers/0/amount"),
        ("own.toml", '"2.28"', '"2,28"', "offer 1: amount is"),
        ("own.toml", "gpu_count = 4\n", "", "/offers/0/gpu_count"),
        ("own.toml", 'per = "machine-hour"', 'per = "hour"', "/offers/0/per"),
        ("own.toml", 'per = "machine-hour"', "", "offer 1 lacks per"),
        ("own.toml", "2026-11-04", "2026-13-04", "/retrieved_at"),
        ("own.toml", "[[offer]]", "[offer]", "array of tables|is no valid TOML"),
        ("own.csv", "2.28", "", "offer 1 lacks amount"),
        ("own.csv", ",4,RTX", ",four,RTX", "offer 1: gpu_count is"),
        ("own.csv", ",4,RTX", ",4.5,RTX", "/offers/0/gpu_count"),
        ("own.csv", "\nacme-contract", "\nother", "one source"),
        ("own.csv", "H100-SXM,", "H100-SXM,80,more,cells", "more cells"),
        ("own.csv", ",per,", ",amount,", "has the columns"),
        ("own.csv", "retrieved_at,", "retrieved at,", "has the columns"),
    ],
)  # fmt: skip
def test_a_mistake_in_ones_own_prices_is_told(
    name: str, old: str, new: str, told: str, tmp_path: Path
) -> None:
    text = TOML if name.endswith("toml") else CSV
    assert old in text
    with pytest.raises((InvalidDocumentError, UnusableInputError), match=told):
        list(write(tmp_path, name, text.replace(old, new, 1)).read())
