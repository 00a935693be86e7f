"""`rentbench prices`: read, keep, show; without a network the old prices stay, with their age."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rentbench.core.documents import read_document
from rentbench.core.validation import check
from rentbench.pricing.sources.contracts import ContractsSource
from rentbench.pricing.store import append
from support.price_server import Fault, PriceServer, price_server

OWN = """
source = "own"
retrieved_at = "2026-11-04T04:00:00Z"
[[offer]]
provider = "acme"
offer = "l40s-x2"
region = "eu"
amount = "1.08"
per = "machine-hour"
gpu_count = 2
gpu_name = "L40S"
[[offer]]
provider = "acme"
offer = "h200"
amount = "3.1"
per = "gpu-hour"
gpu_count = 1
gpu_name = "H200"
stock = "out_of_stock"
[[offer]]
provider = "acme"
offer = "bge-m3"
amount = "0.0105"
per = "1M-tokens"
tokens = "input"
"""
TYPES = "/api/v1/instances/types"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[PriceServer]:
    with price_server() as state:
        monkeypatch.setenv("RUNCRATE_API_KEY", state.key)
        monkeypatch.setenv("RUNCRATE_API_URL", state.url)
        monkeypatch.setenv("RUNCRATE_MODELS_URL", state.url)
        state.answers[TYPES] = {
            "data": [{"id": "a", "gpu_type": "L40S", "gpu_count": 1, "hourly_rate": 1.14}]
        }
        state.answers["/v1/models"] = {"data": [{"id": "qwen", "pricing": {"input": 0.05}}]}
        yield state


@pytest.fixture
def folder(rentbench: Callable, tmp_path: Path) -> Path:
    own = tmp_path / "own.toml"
    own.write_text(OWN)
    outcome = rentbench("prices", "update", "--contract", own, "--prices", tmp_path / "prices")
    assert outcome.code == 0, outcome.err
    assert outcome.out == "own: 3 offers, read 2026-11-04T04:00:00Z: kept\n"
    return tmp_path / "prices"


def test_todays_prices_are_shown_with_condition_and_age(rentbench: Callable, folder: Path) -> None:
    shown = rentbench("prices", "show", "--prices", folder)
    assert shown.code == 0
    rows = {line.split()[0]: line for line in shown.out.splitlines() if line.strip()}
    assert "0.5400" in rows["l40s-48gb"]
    assert "on a machine with 2 GPUs" in rows["l40s-48gb"]
    assert "stale: 2026-11-04, " in rows["l40s-48gb"]
    assert "Not in stock" in rows["h200-sxm-141gb"]
    assert "0.0105" in rows["bge-m3"]


def test_todays_prices_as_json(rentbench: Callable, folder: Path) -> None:
    wanted = ("--gpu", "l40s-48gb", "--gpu", "t4-16gb", "--gpu", "h200-sxm-141gb")
    shown = json.loads(rentbench("prices", "show", *wanted, "--prices", folder, "--json").out)
    l40s, h200 = shown["gpus"]
    assert (l40s["usd"], l40s["condition"], l40s["stale"]) == (0.54, "on a machine with 2 GPUs", True)
    assert l40s["price"] == {
        "amount": 1.08,
        "currency": "USD",
        "per": "machine-hour",
        "gpu_count": 2,
        "source": "own",
        "retrieved_at": "2026-11-04T04:00:00Z",
    }
    assert (h200["usd"], h200["condition"], h200["price"]) == (None, "Not in stock", None)
    assert shown["not_offered"] == ["t4-16gb"]


def test_a_snapshot_is_exported_as_a_valid_document(
    rentbench: Callable, folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "own.json"
    path.write_text(rentbench("prices", "export", "own", "--prices", folder).out)
    assert check(read_document(path), "prices") == []
    assert rentbench("validate", path).code == 0


def test_a_spot_price_above_on_demand_is_told(rentbench: Callable, tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    row = "own,2026-11-04T04:00:00Z,acme,l4,{},gpu-hour,1,L4,{}\n"
    names = "source,retrieved_at,provider,offer,amount,per,gpu_count,gpu_name,tier\n"
    own.write_text(names + row.format("0.44", "on-demand") + row.format("0.49", "spot"))
    outcome = rentbench("prices", "update", "--contract", own, "--prices", tmp_path / "prices")
    assert "1 spot prices are above on demand, such as l4: 0.49 against 0.44\n" in outcome.out


def test_prices_that_a_wrong_clock_dated_say_so(rentbench: Callable, tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(OWN.replace("2026-11-04", "2999-11-04"))
    (snapshot,) = ContractsSource(path=own).read()
    append(tmp_path / "prices", snapshot)
    shown = rentbench("prices", "show", "--prices", tmp_path / "prices", "--gpu", "l40s-48gb").out
    assert "days ahead of this computer's clock" in shown


def test_history_of_a_gpu(rentbench: Callable, folder: Path) -> None:
    assert "0.5400" in rentbench("prices", "history", "l40s-48gb", "--prices", folder).out
    (point,) = json.loads(rentbench("prices", "history", "l40s-48gb", "--prices", folder, "--json").out)
    assert point["usd_per_gpu_hour"] == 0.54


def test_an_update_from_a_service(rentbench: Callable, server: PriceServer, folder: Path) -> None:
    outcome = rentbench("prices", "update", "--source", "runcrate", "--prices", folder, "--json")
    assert outcome.code == 0
    told = json.loads(outcome.out)
    assert [(one["source"], one["result"], one["offers"]) for one in told["outcomes"]] == [
        ("runcrate", "kept", 1),
        ("runcrate-models", "kept", 1),
    ]
    assert set(told["newest"]) == {"own", "runcrate", "runcrate-models"}
    assert server.key not in outcome.out + outcome.err


def test_without_a_network_the_old_prices_stay(
    rentbench: Callable, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUHUNT_CATALOG_URL", "http://127.0.0.1:9/v3")
    monkeypatch.setattr("rentbench.pricing.sources.gpuhunt_catalogs.ONLINE", {})
    before = {path: path.read_bytes() for path in folder.rglob("*.gz")}
    outcome = rentbench("prices", "update", "--source", "gpuhunt", "--prices", folder)
    assert outcome.code == 3
    assert "aws cannot be reached" in outcome.err
    assert outcome.err.count("hint: check the network") == 1
    assert "kept so far: own 2026-11-04, " in outcome.err
    assert {path: path.read_bytes() for path in folder.rglob("*.gz")} == before


def test_what_fails_beside_what_works_is_partial(
    rentbench: Callable, server: PriceServer, folder: Path
) -> None:
    server.faults["/v1/models"] = [Fault(status=500, body=b'{"error": "broken"}')]
    outcome = rentbench("prices", "update", "--source", "runcrate", "--prices", folder)
    assert outcome.code == 4
    assert "answered 500: broken" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("update", "--source", "nowhere"), 2, "sources: gpuhunt, skypilot"),
        (("update", "--source", "lambda"), 2, "set LAMBDA_API_KEY"),
        (("update", "--contract", "missing.toml"), 3, "is not there"),
        (("show",), 2, "rentbench prices update"),
        (("show", "--tier", "free"), 2, "tiers: on-demand, spot, reserved"),
        (("history", "h100"), 2, "h100-sxm-80gb"),
        (("export", "own"), 2, "no prices"),
    ],
)
def test_what_is_wrong_is_told(
    arguments: tuple[str, ...],
    code: int,
    told: str,
    rentbench: Callable,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("LAMBDA_API_KEY", raising=False)
    outcome = rentbench("prices", *arguments, "--prices", tmp_path / "none")
    assert outcome.code == code
    assert told in outcome.err


def test_a_broken_file_is_told_and_the_rest_is_shown(rentbench: Callable, folder: Path) -> None:
    (folder / "other").mkdir()
    (folder / "other" / "20261101T000000.000000Z.full.prices.gz").write_bytes(b"no gzip")
    shown = rentbench("prices", "show", "--prices", folder)
    assert shown.code == 0
    assert "warning: " in shown.err
    assert "cannot be unpacked" in shown.err
    assert "l40s-48gb" in shown.out
