"""The run document: what is known goes in, what is not gets a reason, and nothing private stays."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rentbench.core.errors import ErrorKind
from rentbench.core.validation import check
from rentbench.driver.failures import Failure
from rentbench.driver.records import Measurement, RunRecord

DIGEST = "sha256:" + "a" * 64
OTHER = "sha256:" + "b" * 64
HOST = {
    "kind": "local",
    "engine_version": "20.10.24",
    "engine_api_version": "1.41",
    "runtime": "runc",
    "storage_driver": "overlay2",
    "cgroup_version": "2",
}
FAILURE = Failure(kind=ErrorKind.CRASHED, message="it fell over on host-of-mine", log_tail="at host-of-mine")


def record(reference: str = "rentbench/cpu:latest", **changes: Any) -> RunRecord:
    made = RunRecord(suite="gemm", preset="smoke", reference=reference, gpus="none", host=HOST, **changes)
    made.mark("queued")
    return made


def image(*digests: str, **labels: str) -> Any:
    return SimpleNamespace(id=DIGEST, labels=labels, attrs={"RepoDigests": list(digests)})


def failed(made: RunRecord, failure: Failure = FAILURE) -> dict[str, Any]:
    def redact(text: str) -> str:
        return text.replace("host-of-mine", "<host>")

    return made.document(status="failed", failure=failure, measurement=None, redact=redact)


def test_a_run_without_anything_is_a_valid_document_that_says_why() -> None:
    document = failed(record())
    assert check(document, "run") == []
    reasons = {entry["path"] for entry in document["unavailable"]}
    assert {"/measurement", "/image/digest", "/image/image_id", "/container", "/price"} <= reasons


def test_failures_are_redacted() -> None:
    document = failed(record())
    assert "host-of-mine" not in str(document)
    assert document["error"]["message"] == "it fell over on <host>"


def test_endless_messages_are_cut_to_what_the_schema_takes() -> None:
    endless = Failure(
        kind=ErrorKind.CRASHED, message="m" * 100_000, hint="h" * 100_000, log_tail="l" * 100_000
    )
    assert check(failed(record(), endless), "run") == []


@pytest.mark.parametrize(
    ("reference", "digests", "expected"),
    [
        ("rentbench/cpu:latest", [], None),
        ("rentbench/cpu:latest", [f"rentbench/cpu@{DIGEST}"], DIGEST),
        ("localhost:5000/cpu:1", [f"other@{OTHER}", f"localhost:5000/cpu@{DIGEST}"], DIGEST),
        ("rentbench/cpu", [f"other@{OTHER}"], None),
        (f"registry.example/cpu@{DIGEST}", [f"registry.example/cpu@{OTHER}"], DIGEST),
    ],
)
def test_the_digest_is_that_of_the_reference(
    reference: str, digests: list[str], expected: str | None
) -> None:
    document = failed(record(reference, image=image(*digests)))
    assert document["image"]["digest"] == expected
    assert check(document, "run") == []


def test_a_label_that_is_no_recipe_id_is_left_out() -> None:
    assert record(image=image(**{"rentbench.recipe": DIGEST})).recipe_id == DIGEST
    assert record(image=image(**{"rentbench.recipe": ""})).recipe_id is None
    assert record(image=image(**{"rentbench.recipe": "sha256:short"})).recipe_id is None
    assert record(image=image()).recipe_id is None


@pytest.mark.parametrize(
    ("gpus", "share"), [("all", {"used": 2, "machine": 8}), ("none", {"used": 0, "machine": 8})]
)
def test_the_share_of_the_machine_is_told(gpus: str, share: dict[str, int]) -> None:
    made = record(machine_gpus=8)
    made.gpus = gpus
    measurement = Measurement(
        id=made.id, sha256=DIGEST, document={"host": {"gpus": [{"name": "x"}, {"name": "x"}]}}
    )
    document = made.document(status="ok", failure=None, measurement=measurement, redact=str)
    assert document["gpu_share"] == share
    assert check(document, "run") == []


def test_labels_are_enough_to_conclude_later() -> None:
    made = record()
    assert made.labels() == {
        "rentbench.suite": "gemm",
        "rentbench.preset": "smoke",
        "rentbench.reference": "rentbench/cpu:latest",
        "rentbench.gpus": "none",
        "rentbench.queued": made.begun,
    }
