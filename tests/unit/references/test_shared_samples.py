"""Real outputs of other tools, and published tables, where the shared folder lies beside the repository."""

import os
from pathlib import Path

import pytest

from rentbench.core.documents import read_document
from rentbench.references.importing import read_references

SHARED = Path(os.environ.get("RENTBENCH_SHARED", Path(__file__).resolve().parents[4] / "shared"))
COMMITTED = Path(__file__).parents[3] / "results" / "published"

pytestmark = pytest.mark.skipif(not (SHARED / "samples").is_dir(), reason="no shared samples here")


def test_runs_of_vllm() -> None:
    statuses = {}
    for path in sorted((SHARED / "samples" / "vllm-bench").glob("*.json")):
        (reference,) = read_references(path)
        (case,) = reference.as_document()["cases"]
        statuses[path.stem] = case["status"]
    assert all(status == ("ok" if "-ok-" in name else "failed") for name, status in statuses.items())
    assert len(statuses) == 8


@pytest.mark.parametrize(
    ("name", "suite", "bandwidth"),
    [("nccl_allreduce.log", "allreduce", 235.26), ("nccl_reduce.log", None, None)],
)
def test_logs_of_nccl_tests(name: str, suite: str | None, bandwidth: float | None) -> None:
    (reference,) = read_references(SHARED / "samples" / "nccl" / name)
    document = reference.as_document()
    assert document["suite"] == suite
    last = document["cases"][-1]
    assert last["parameters"] == {"bytes": 8589934592, "ranks": 8}
    if bandwidth:
        assert {one["metric"]: one["value"] for one in last["measurements"]}["bus_bandwidth"] == bandwidth


@pytest.mark.skipif(not COMMITTED.is_dir(), reason="this copy has no results")
@pytest.mark.parametrize("name", ["ddp", "finetune", "llm", "others"])
def test_published_tables_are_committed_as_they_are(name: str) -> None:
    for reference in read_references(SHARED / "facts" / f"published-{name}.json"):
        document = reference.as_document()
        assert read_document(COMMITTED / f"{document['id']}.json") == document
