"""`rentbench import`: from another tool's file to a labelled document."""

import json
from collections.abc import Callable
from pathlib import Path

RESULT = {
    "date": "20261130-213150", "model_id": "m", "num_prompts": 8, "completed": 8, "max_concurrency": 4,
    "output_throughput": 100.0, "median_ttft_ms": 20.0,
}  # fmt: skip


def test_a_result_is_imported_once(rentbench: Callable, tmp_path: Path) -> None:
    source = tmp_path / "result.json"
    source.write_text(json.dumps(RESULT))
    arguments = ("import", source, "--gpu", "H200", "--gpus", 1, "--output", tmp_path / "out")
    outcome = rentbench(*arguments, "--json")
    assert outcome.code == 0
    (path,) = json.loads(outcome.out)
    assert rentbench("validate", path).code == 0
    again = rentbench(*arguments)
    assert again.code != 0
    assert "is not overwritten" in again.err


def test_a_mistake_in_one_file_leaves_nothing(rentbench: Callable, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps(RESULT))
    bad.write_text("{}")
    outcome = rentbench("import", good, bad, "--output", tmp_path / "out")
    assert outcome.code == 1
    assert "--as: published, vllm-bench" in outcome.err
    assert not (tmp_path / "out").exists()
