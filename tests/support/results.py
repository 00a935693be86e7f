"""Documents and result folders for tests, made from the examples of the schemas."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import Any

from rentbench.core.documents import read_document, render_document, sha256_bytes, write_document
from rentbench.core.gpus import gpu_folder
from rentbench.core.ids import folder_name

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLES = REPOSITORY / "schema" / "examples"


def example(kind: str, name: str) -> dict[str, Any]:
    """Return a valid example, free to be changed."""
    return read_document(EXAMPLES / kind / "valid" / f"{name}.json")


def at(document: Any, pointer: str) -> Any:
    """Return what a JSON pointer without escapes names."""
    for part in pointer.split("/")[1:]:
        document = document[int(part)] if isinstance(document, list) else document[part]
    return document


def changed(document: dict[str, Any], pointer: str, value: Any) -> dict[str, Any]:
    """Return a copy of a document with one value set."""
    result = copy.deepcopy(document)
    around, _, last = pointer.rpartition("/")
    container = at(result, around)
    container[int(last) if isinstance(container, list) else last] = value
    return result


def write_root(root: Path) -> Path:
    """Make a folder that `RENTBENCH_ROOT` can name: the schemas, the suite `example`, the image `example`."""
    shutil.copytree(REPOSITORY / "schema", root / "schema", ignore=shutil.ignore_patterns("examples"))
    for kind in ("suite", "image"):
        folder = root / f"{kind}s" / "example"
        folder.mkdir(parents=True)
        shutil.copy(EXAMPLES / kind / "valid" / "example.toml", folder / f"{kind}.toml")
    return root


def write_result(
    results: Path, *, measurement: dict[str, Any] | None = None, run: bool = True
) -> tuple[Path, dict[str, Any]]:
    """Write a result folder as a container and the driver leave it: two documents and an artifact."""
    measurement = measurement or example("measurement", "smoke-on-cpu")
    samples = b'{"case": 0, "metric": "steady_tflops", "values": [0.5, 0.52, 0.54, 0.56]}\n'
    measurement["artifacts"] = [
        {
            "name": "samples.jsonl",
            "sha256": sha256_bytes(samples),
            "bytes": len(samples),
            "description": "every single reading",
        }
    ]
    folder = results.joinpath(
        measurement["suite"]["name"],
        gpu_folder(measurement["host"]["gpus"]),
        folder_name(measurement["started"], measurement["id"]),
    )
    folder.mkdir(parents=True)
    (folder / "samples.jsonl").write_bytes(samples)
    write_document(folder / "measurement.json", measurement)
    if run:
        document = example("run", "local")
        document["measurement"] = {
            "id": measurement["id"],
            "sha256": sha256_bytes(render_document(measurement)),
        }
        write_document(folder / "run.json", document)
    return folder, measurement
