"""When a cell of llm-serving counts, and what server logs and counters tell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from serving_api import Counters, base_url, read_counters
from serving_checks import judge, lag_milliseconds
from serving_client import Cell, Target, bench_arguments, seed_of
from serving_log import explain, explain_requests, read_stages
from serving_model import tokenizer_document, write_random_model
from serving_results import Bench

from rentbench.core.errors import ErrorKind

CELL = Cell(prompts=320, concurrency=64, input_tokens=512, output_tokens=256, seed=1)
START_LOG = Path(__file__).parents[2] / "fixtures" / "llm_serving" / "start.log"
BUSY = "Free memory on device (1/4 GiB) on startup is less than desired GPU memory utilization (1, 4 GiB)"


def bench(**changes: object) -> Bench:
    values: dict[str, object] = {
        "requested": 320,
        "completed": 320,
        "duration_seconds": 10.0,
        "input_tokens": 320 * 512,
        "output_tokens": 320 * 256,
        "milliseconds": {("mean", "e2el"): 2000.0},
        "request_samples": {},
        "goodput": None,
        "errors": (),
        "unknown": (),
        **changes,
    }
    return Bench(**values)  # type: ignore[arg-type]


def counted(**changes: float | None) -> Counters:
    values: dict[str, float | None] = {
        "prompt_tokens": 320 * 512,
        "generation_tokens": 320 * 256,
        "requests": 320,
        "prefix_cache_hits": 0,
        "prefix_cache_queries": 320 * 512,
        "latency_seconds": 320 * 1.99,
        "latency_count": 320,
        **changes,
    }
    return Counters(**values)


def failed(
    result: Bench,
    counters: Counters,
    *,
    cache_matters: bool = True,
    exact_output: bool = True,
    alone: bool = True,
) -> dict[str, bool]:
    """Return the checks that failed, each with whether it makes the cell invalid."""
    found = judge(result, CELL, counters, cache_matters=cache_matters, exact_output=exact_output, alone=alone)
    return {finding.name: finding.invalidates for finding in found if finding.passed is False}


def test_a_good_cell_passes_everything() -> None:
    findings = judge(bench(), CELL, counted(), cache_matters=True, exact_output=True, alone=True)
    assert {finding.name: finding.passed for finding in findings} == dict.fromkeys(
        (
            "requests_completed",
            "output_as_asked",
            "input_as_asked",
            "server_agrees",
            "prefix_cache_cold",
            "client_keeps_up",
        ),
        True,
    )


@pytest.mark.parametrize(
    ("hits", "invalid"), [(512, False), (5 * 512, False), (10 * 512, True), (160_000, True)]
)
def test_prompts_that_come_back_make_a_cell_invalid_and_a_coincidence_does_not(
    hits: int, invalid: bool
) -> None:
    assert failed(bench(), counted(prefix_cache_hits=hits)) == (
        {"prefix_cache_cold": True} if invalid else {}
    )


def test_the_published_recipe_may_hit_the_cache() -> None:
    assert failed(bench(), counted(prefix_cache_hits=100_000), cache_matters=False) == {}


def test_outputs_cut_at_the_context_limit_are_found() -> None:
    short = bench(output_tokens=320 * 4)
    counters = counted(generation_tokens=320 * 4)
    assert failed(short, counters) == {"output_as_asked": True}
    assert failed(short, counters, exact_output=False) == {"output_as_asked": False}


def test_empty_prompts_are_found() -> None:
    assert "input_as_asked" in failed(bench(input_tokens=320), counted(prompt_tokens=320))


@pytest.mark.parametrize("alone", [True, False])
def test_what_both_sides_count_differently_matters_where_we_are_alone(alone: bool) -> None:
    assert failed(bench(), counted(generation_tokens=320 * 128), alone=alone) == {"server_agrees": alone}


def test_a_server_that_counts_nothing_is_not_checked() -> None:
    nothing = read_counters("")
    findings = judge(bench(), CELL, nothing, cache_matters=True, exact_output=True, alone=False)
    unchecked = {finding.name for finding in findings if finding.passed is None}
    assert unchecked == {"server_agrees", "prefix_cache_cold", "client_keeps_up"}
    assert lag_milliseconds(bench(), nothing) is None


def test_a_slow_client_is_told() -> None:
    assert lag_milliseconds(bench(), counted()) == pytest.approx(10.0)
    assert failed(bench(), counted(latency_seconds=320 * 1.5)) == {"client_keeps_up": False}


def test_too_few_requests_are_invalid() -> None:
    result = bench(completed=313, input_tokens=313 * 512, output_tokens=313 * 256)
    counters = counted(requests=313, prompt_tokens=313 * 512, generation_tokens=313 * 256)
    assert failed(result, counters) == {"requests_completed": True}


def test_counters_are_added_up_over_engines_and_reasons() -> None:
    text = """# HELP vllm:request_success_total Count
vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 1.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="m"} 30.0
vllm:generation_tokens_total{engine="0",model_name="m"} 1e3
vllm:generation_tokens_total{engine="1",model_name="m"} 24
vllm:generation_tokens_created{engine="0",model_name="m"} 1.7e9
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 0.0
vllm:e2e_request_latency_seconds_sum{engine="0",model_name="m"} 3.5
"""
    before, now = read_counters(""), read_counters(text)
    assert (now.requests, now.generation_tokens, now.prefix_cache_hits) == (31.0, 1024.0, 0.0)
    assert now.prompt_tokens is None
    assert now.since(before).requests is None
    assert now.since(now).requests == 0.0


def test_the_stages_of_a_start() -> None:
    stages = read_stages(START_LOG.read_text())
    assert (stages.weights_seconds, stages.load_seconds, stages.memory_gib) == (1.52, 2.105, 14.2488)
    assert (stages.compile_seconds, stages.capture_seconds, stages.engine_seconds) == (21.37, 12.0, 53.9)
    assert stages.kv_cache_tokens == 1_985_616
    assert read_stages("nothing").sentence == "nothing"


@pytest.mark.parametrize(
    ("log", "kind"),
    [
        ("OSError: [Errno 98] Address already in use", ErrorKind.USAGE),
        (
            "User-specified max_model_len (8192) is greater than the derived max_model_len (2048)",
            ErrorKind.USAGE,
        ),
        (
            "(0.22 GiB KV cache is needed, which is larger than the available KV cache memory (0.1 GiB)",
            ErrorKind.OOM,
        ),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", ErrorKind.OOM),
        (BUSY, ErrorKind.GPU_BUSY),
        ("RuntimeError: Failed to infer device type, please set", ErrorKind.UNSUPPORTED_PLATFORM),
        ("ModuleNotFoundError: No module named 'vllm'", ErrorKind.DEPENDENCY_MISSING),
        ("RuntimeError: Engine core initialization failed. See root cause above.", ErrorKind.CRASHED),
    ],
)
def test_why_a_server_ended(log: str, kind: str) -> None:
    assert explain(f"INFO: starting\n{log}\n", 1).kind == kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("Unauthorized", ErrorKind.MODEL_ACCESS),
        ("Too Many Requests", ErrorKind.NETWORK),
        ("Bad Request", ErrorKind.USAGE),
        ("aiohttp.client_exceptions.ServerDisconnectedError: Server disconnected", ErrorKind.NETWORK),
        ("", ErrorKind.WRONG_RESULT),
    ],
)
def test_why_requests_failed(error: str, kind: ErrorKind) -> None:
    assert explain_requests([error]).kind == kind


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("https://api.example.com/v1/", "https://api.example.com"),
        ("https://example.com/llm/v1", "https://example.com/llm"),
    ],
)
def test_an_endpoint_may_be_given_with_v1(endpoint: str, url: str) -> None:
    assert base_url(endpoint) == url


@pytest.mark.parametrize(
    "endpoint", ["localhost:8000", "file:///etc/passwd", "https://me:secret@host/v1", "http://"]
)
def test_what_is_no_endpoint_is_refused(endpoint: str) -> None:
    with pytest.raises(ValueError, match="endpoint"):
        base_url(endpoint)


def test_every_cell_repeat_and_warm_up_has_a_seed_of_its_own() -> None:
    names = [
        (repeat, *cell)
        for repeat in range(3)
        for cell in [("fresh", 1, 16), ("fresh", 8, 64), ("warm-up", 1)]
    ]
    seeds = {seed_of(42, *name) for name in names}
    assert len(seeds) == len(names)
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert seed_of(42, *names[0]) == seed_of(42, *names[0]) != seed_of(43, *names[0])


def test_the_client_sends_no_prompt_of_the_cell_before_it() -> None:
    target = Target(url="http://h:1", model="m", tokenizer="t", api="chat", ignore_eos=False)
    arguments = bench_arguments(CELL, target, Path("/x/bench.json"))
    assert arguments[arguments.index("--ready-check-timeout-sec") + 1] == "0"
    assert arguments[arguments.index("--endpoint") + 1] == "/v1/chat/completions"
    assert "--ignore-eos" not in arguments


def test_the_tokenizer_reads_its_own_text_back_as_the_same_tokens(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    write_random_model("tiny", tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    size = json.loads((tmp_path / "config.json").read_text())["vocab_size"]
    assert tokenizer.vocab_size == size
    first = size - len(tokenizer_document(size)["model"]["merges"]) + 105
    for begin in range(first, size - 512, 5003):
        tokens = list(range(begin, begin + 512))
        assert tokenizer.encode(tokenizer.decode(tokens), add_special_tokens=False) == tokens


def test_a_vocabulary_has_exactly_the_size_of_the_model() -> None:
    document = tokenizer_document(152_064)
    assert sorted(document["model"]["vocab"].values()) == list(range(152_064))
    with pytest.raises(ValueError, match="three syllables"):
        tokenizer_document(100)
