"""Listings of real providers, where the folder of shared samples lies beside the repository."""

import json
import os
from decimal import Decimal
from pathlib import Path

import pytest

from rentbench.pricing.snapshots import Snapshot
from rentbench.pricing.sources.lambda_cloud import read_instance_types
from rentbench.pricing.sources.skypilot import read_catalogue

SHARED = Path(os.environ.get("RENTBENCH_SHARED", Path(__file__).resolve().parents[4] / "shared"))
PRICING = SHARED / "samples" / "pricing"
NOW = "2026-11-30T00:00:00Z"

pytestmark = pytest.mark.skipif(not PRICING.is_dir(), reason="no shared samples here")


def catalogue(cloud: str) -> Snapshot:
    text = (PRICING / f"skypilot_catalog_v8_{cloud}_rows.csv").read_text(encoding="utf-8-sig")
    return read_catalogue(text, cloud=cloud, version="v8", retrieved_at=NOW)


def test_every_name_of_lambda_has_an_answer() -> None:
    answer = json.loads((PRICING / "lambda_instance_types_response.json").read_text())
    snapshot = read_instance_types(answer, retrieved_at=NOW)
    assert {gpu.name for gpu in snapshot.unknown_gpus() if not gpu.on_purpose} <= {"Tesla V100 (16 GB)"}
    for offer in snapshot.offers:
        cents = answer["data"][offer.offer]["instance_type"]["price_cents_per_hour"]
        assert offer.amount == Decimal(cents) / 100
    (gh200,) = (offer for offer in snapshot.offers if offer.offer == "gpu_1x_gh200")
    assert not gh200.can_be_had


def test_every_name_of_vast_has_an_answer() -> None:
    snapshot = catalogue("vast")
    unknown = {gpu.name: gpu.reason for gpu in snapshot.unknown_gpus()}
    assert set(unknown) == {"RTX_4090", "Tesla_V100"}
    # A card with twice its memory at the price of the usual one is no RTX 4090.
    assert "not with 51.5" in unknown["RTX_4090"]
    assert unknown["Tesla_V100"] == "can be v100-sxm-16gb or v100-pcie-16gb"
    assert not [offer for offer in snapshot.offers if offer.tier == "spot"]


def test_every_name_of_runpod_has_an_answer() -> None:
    snapshot = catalogue("runpod")
    assert snapshot.unknown_gpus() == []
    assert {offer.usd_per_gpu_hour for offer in snapshot.offers} == {Decimal("1.39")}
