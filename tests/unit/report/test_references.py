"""Figures from elsewhere on the site: as printed, with their label, apart from our own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rentbench.core.manifests import load_suites
from rentbench.report.draw import ChartCache
from rentbench.report.export import index, write_data
from rentbench.report.pages import pages
from rentbench.report.references import load_references, reference_table
from rentbench.report.site import read_site
from rentbench.report.templating import environment

if TYPE_CHECKING:
    from rentbench.report.model import Rejected

EXAMPLES = Path(__file__).resolve().parents[3] / "schema" / "examples" / "published"
NOW = "2026-12-01T00:00:00Z"
HOSTILE = "<script>alert(1)</script>"


def document(**changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "document": "published",
        "schema_version": 1,
        "id": "published-figures",
        "label": "published",
        "title": "Copies",
        "suite": "gemm",
        "source": {"name": "A blog post", "tool": None, "sha256": None},
        "run_date": "2026-10-26",
        "device": {"gpu_name": "RTX A6000", "gpu_count": 4, "gpu_memory_gb": 48, "detail": None},
        "model": None,
        "software": {},
        "price": {
            "amount": 2.64,
            "currency": "USD",
            "per": "machine-hour",
            "gpu_count": 4,
            "source": "A blog post",
            "retrieved_at": "2026-10-26T00:00:00Z",
        },
        "price_today": None,
        "cases": [
            {
                "parameters": {"model": "124M"},
                "status": "ok",
                "note": None,
                "measurements": [
                    {
                        "metric": "bandwidth",
                        "statistic": "median",
                        "unit": "GB/s",
                        "value": 64912,
                    },
                    {"metric": "speed_up", "statistic": "value", "unit": "ratio", "value": 1.99},
                ],
                "costs": [{"figure": "usd_per_billion_tokens", "price": "run_day", "value": 7.4}],
            },
            {
                "parameters": {"model": "355M"},
                "status": "out_of_memory",
                "note": "in backward",
                "measurements": [],
                "costs": [],
            },
        ],
        "notes": ["single run"],
    }
    return {**made, **changes}


def collection(tmp_path: Path, *documents: dict[str, Any]) -> Path:
    folder = tmp_path / "results" / "published"
    folder.mkdir(parents=True)
    for one in documents:
        (folder / f"{one['id']}.json").write_text(json.dumps(one))
    return tmp_path / "results"


def test_a_table_has_every_figure_as_printed_and_says_why_one_is_missing(tmp_path: Path) -> None:
    (reference,) = load_references(collection(tmp_path, document()), [])
    table = reference_table(reference, load_suites()["gemm"])
    assert table.columns == (
        "model",
        "Memory bandwidth (median), GB/s",
        "speed up",
        "usd per billion tokens, at the run day's price",
        "note",
    )
    assert table.rows == (
        ("124M", "64,912", "1.99", "7.40", ""),
        ("355M", "—", "—", "—", "out of memory; in backward"),
    )
    assert [table.is_figure(column) for column in range(5)] == [False, True, True, True, False]
    assert reference.device == "4 × RTX A6000"
    assert reference.prices == ["price of the run day: 2.64 USD per machine-hour for 4 GPUs (2026-10-26)"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", ""),
        (json.dumps(document(run_date="2026-02-30")), "no real day"),
        (json.dumps(document(id="another-name")), "is not its id"),
        (json.dumps({"schema_version": 1}), ""),
    ],
)
def test_what_cannot_be_used_is_left_out_and_told(tmp_path: Path, text: str, reason: str) -> None:
    root = collection(tmp_path, document())
    (root / "published" / "bad.json").write_text(text)
    rejected: list[Rejected] = []
    assert [reference.id for reference in load_references(root, rejected)] == ["published-figures"]
    (refused,) = rejected
    assert refused.path == "published/bad.json"
    assert reason in refused.reason
    assert read_site(root, NOW).collection.rejected == (refused,)


def test_the_examples_of_the_schema_can_be_shown(tmp_path: Path) -> None:
    root = tmp_path / "published"
    root.mkdir()
    for path in (EXAMPLES / "valid").glob("*.json"):
        content = json.loads(path.read_text())
        (root / f"{content['id']}.json").write_text(path.read_text())
    rejected: list[Rejected] = []
    found = load_references(tmp_path, rejected)
    assert (len(found), rejected) == (len(list(root.iterdir())), [])
    for reference in found:
        table = reference_table(reference, None)
        assert all(len(row) == len(table.columns) for row in table.rows)


def test_pages_show_them_apart_and_escaped(tmp_path: Path) -> None:
    hostile = document(id="published-hostile", title=HOSTILE, suite="cold-start", notes=[HOSTILE])
    site = read_site(collection(tmp_path, document(), hostile), NOW)
    made = pages(site, environment(), ChartCache())
    suite = made["suites/gemm.md"]
    assert "## Published elsewhere" in suite
    assert "they are in no ranking and no chart of ours" in suite
    assert "64,912" in suite
    assert "published" in suite.partition("A blog post")[0]
    assert "## Published elsewhere" not in made["suites/preflight.md"]
    # A suite that this installation does not have is on the page of all.
    everything = made["published.md"]
    assert 'id="published-hostile"' in everything
    assert HOSTILE not in everything
    assert "&lt;script&gt;" in everything
    assert site.suites["gemm"].standings == []


def test_their_documents_are_among_the_data(tmp_path: Path) -> None:
    site = read_site(collection(tmp_path, document()), NOW)
    write_data(site, tmp_path / "data")
    assert json.loads((tmp_path / "data" / "published" / "published-figures.json").read_text()) == document()
    assert index(site)["published"] == [
        {
            "id": "published-figures",
            "label": "published",
            "suite": "gemm",
            "document": "data/published/published-figures.json",
        }
    ]


def test_without_any_there_is_no_page_and_no_entry(tmp_path: Path) -> None:
    site = read_site(tmp_path / "nothing", NOW)
    assert "published.md" not in pages(site, environment(), ChartCache())
    write_data(site, tmp_path / "data")
    assert not (tmp_path / "data" / "published").exists()
