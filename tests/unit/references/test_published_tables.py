"""Published tables become documents that say what is printed, with their label."""

import json
from pathlib import Path
from typing import Any

import pytest

from rentbench.core.documents import read_document
from rentbench.core.errors import InvalidDocumentError, RentbenchError
from rentbench.core.gpus import identify
from rentbench.core.manifests import load_suites
from rentbench.references.documents import Case, Device, Measured, Reference, keep
from rentbench.references.importing import read_references

COMMITTED = Path(__file__).parents[3] / "results" / "published"
SOURCE = "a hub page, single runs"

DDP: dict[str, Any] = {
    "source": SOURCE, "run_date": "2026-10-26", "machine": "4x RTX A6000 48 GB, every pair PHB",
    "torch": "2.11.0",
    "price_run_day_usd_per_machine_hour": 2.64, "gpus": 4,
    "price_today": {"usd_per_gpu_hour": 0.57, "read_at": "2026-11-04T04:00:00Z"},
    "one_gpu_row_price": "one GPU's share",
    "rows": [["355M", "1 GPU", 27109, 1.0, 6.76, 5.84], ["355M", "4 GPUs, both", 99152, 3.66, 7.4, 6.39]],
    "one_gpu_tokens_per_s_with_accumulation_4": {"355M": 27893},
    "allreduce": {
        "bus_bandwidth_gb_s": {"4 GPUs": 4.3, "2 GPUs": 3.9}, "flat_from_mb": 8, "flat_to_mb": 1024,
        "NCCL_P2P_LEVEL=SYS": 2.3,
    },
    "known_inconsistency": "355M 'both': 3.66 is against plain one GPU",
    "torch_note": "two machines of one type",
}  # fmt: skip
FINETUNE: dict[str, Any] = {
    "source": SOURCE, "run_date": "2026-10-28", "gpu": "L40S 48 GB", "model": "Qwen/Qwen2.5-1.5B-Instruct",
    "price_run_day_usd_per_hour": 1.14,
    "price_today": {"usd_per_gpu_hour": 0.54, "on": "a 2-GPU machine", "read_at": "2026-11-04T04:00:00Z"},
    "rows": [
        {
            "method": "full", "micro_batch": 4, "trainable_m": 1543.7, "train_s": 210, "tokens_per_s": 3595,
            "peak_gib": 36.9, "loss_before": 1.103, "loss_after": 1.065, "cost_run_day": 0.066,
            "cost_today": 0.031,
        },
        {
            "method": "full", "micro_batch": 8, "trainable_m": 1543.7, "status": "oom",
            "note": "failed in backward with 39.6 GiB already allocated",
        },
    ],
}  # fmt: skip


def read(folder: Path, content: dict[str, Any]) -> list[dict[str, Any]]:
    path = folder / "table.json"
    path.write_text(json.dumps(content))
    return [reference.as_document() for reference in read_references(path)]


def test_training_keeps_what_is_printed_with_a_note(tmp_path: Path) -> None:
    training, link = read(tmp_path, DDP)
    assert (training["label"], training["suite"], training["run_date"]) == (
        "published",
        "ddp-training",
        "2026-10-26",
    )
    one, both = training["cases"]
    assert one["parameters"] == {"model": "355M", "ranks": 1, "variant": "plain"}
    assert both["measurements"][1]["value"] == 3.66
    assert both["note"] == DDP["known_inconsistency"]
    assert one["note"] is None
    assert [cost["value"] for cost in both["costs"]] == [7.4, 6.39]
    assert training["price"]["per"] == "machine-hour"
    assert training["price_today"]["retrieved_at"] == "2026-11-04T04:00:00Z"
    assert [case["parameters"]["variant"] for case in link["cases"]] == ["default", "default", "p2p_sys"]


def test_out_of_memory_stays_a_row_with_its_words(tmp_path: Path) -> None:
    (document,) = read(tmp_path, FINETUNE)
    good, bad = document["cases"]
    assert {one["metric"]: one["value"] for one in good["measurements"]}[
        "trainable_parameters"
    ] == 1_543_700_000
    assert (bad["status"], bad["measurements"], bad["costs"]) == ("out_of_memory", [], [])
    assert "39.6 GiB" in bad["note"]
    assert document["price_today"]["gpu_count"] == 2


@pytest.mark.parametrize("content", [{"rows": []}, {}, DDP | {"rows": [["355M"]]}, FINETUNE | {"rows": [{}]}])
def test_what_is_no_table_is_told(content: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InvalidDocumentError):
        read(tmp_path, content)


def test_a_reference_is_never_written_over_another(tmp_path: Path) -> None:
    reference = Reference(
        label="published",
        title="x",
        suite=None,
        source="a page",
        device=Device(gpu_name="L4"),
        cases=[Case(parameters={}, measurements=[Measured(metric="tflops", value=1.5, unit="TFLOPS")])],
    )
    path = keep(reference, tmp_path / "new")
    assert read_document(path)["id"] == path.stem == "published-l4"
    with pytest.raises(RentbenchError, match="not overwritten"):
        keep(reference, tmp_path / "new")


@pytest.mark.skipif(not COMMITTED.is_dir(), reason="this copy has no results")
def test_committed_references_use_the_names_of_suites_and_gpus() -> None:
    suites = load_suites()
    documents = [read_document(path) for path in sorted(COMMITTED.glob("*.json"))]
    assert len(documents) == 11
    for document in documents:
        device = document["device"]
        assert identify(device["gpu_name"], memory_gb=device["gpu_memory_gb"]).gpu is not None
        suite = suites.get(document["suite"])
        for case in document["cases"]:
            for one in case["measurements"]:
                if suite and one["metric"] in suite.metrics:
                    assert one["unit"] == suite.metrics[one["metric"]].unit
