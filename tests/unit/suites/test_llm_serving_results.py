"""Result files of the load client in every layout: vLLM's by release, others' in seconds, broken ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
from serving_results import ResultError, read_bench


def written(**changes: Any) -> str:
    """Return a good result as vLLM 0.26 writes it; a change to `...` leaves the key out."""
    document: dict[str, Any] = {
        "date": "20261130-213218",
        "backend": "vllm",
        "num_prompts": 4,
        "request_rate": "inf",
        "max_concurrency": 2,
        "duration": 2.0,
        "completed": 4,
        "failed": 0,
        "total_input_tokens": 2048,
        "total_output_tokens": 1024,
        "request_throughput": 2.0,
        "request_goodput": None,
        "output_throughput": 512.0,
        "total_token_throughput": 1536.0,
        "max_concurrent_requests": 4,
        "mean_ttft_ms": 21.0,
        "median_ttft_ms": 20.0,
        "std_ttft_ms": 5.6,
        "p90_ttft_ms": 30.0,
        "p99_ttft_ms": 40.0,
        "mean_tpot_ms": 4.1,
        "median_tpot_ms": 4.0,
        "p99_tpot_ms": 4.7,
        "median_itl_ms": 3.9,
        "median_e2el_ms": 1040.0,
        **changes,
    }
    return json.dumps({name: value for name, value in document.items() if value is not ...})


def test_rates_follow_from_the_counts() -> None:
    bench = read_bench(written())
    assert (bench.output_rate, bench.total_rate, bench.request_rate) == (512.0, 1536.0, 2.0)
    assert bench.user_rate == 250.0
    assert bench.milliseconds["p99", "ttft"] == 40.0


def test_the_median_may_be_the_50th_percentile() -> None:
    bench = read_bench(written(median_ttft_ms=..., p50_ttft_ms=20.5))
    assert bench.milliseconds["median", "ttft"] == 20.5


def test_percentiles_that_were_not_asked_for_are_absent() -> None:
    bench = read_bench(written(p99_ttft_ms=..., **{"p99.9_ttft_ms": 44.0}))
    assert ("p99", "ttft") not in bench.milliseconds
    assert bench.milliseconds["p99.9", "ttft"] == 44.0


def test_seconds_become_milliseconds() -> None:
    bench = read_bench(written(median_ttft_ms=..., median_ttft=0.265, p99_tpot_ms=..., p99_tpot=0.0372))
    assert bench.milliseconds["median", "ttft"] == pytest.approx(265.0)
    assert bench.milliseconds["p99", "tpot"] == pytest.approx(37.2)


@pytest.mark.parametrize("name", ["request_goodput", "request_goodput:"])
def test_goodput_has_two_spellings(name: str) -> None:
    assert read_bench(written(**{"request_goodput": ..., name: 1.5})).goodput == 1.5


def test_no_goals_give_no_goodput() -> None:
    assert read_bench(written()).goodput is None


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_finite_number_is_named_and_absent(word: str) -> None:
    bench = read_bench(written().replace('"median_tpot_ms": 4.0', f'"median_tpot_ms": {word}'))
    assert bench.unknown == ("median_tpot_ms",)
    assert ("median", "tpot") not in bench.milliseconds
    assert bench.user_rate is None


def test_zeros_of_a_run_without_answers_are_no_latencies() -> None:
    zeros = {f"median_{name}_ms": 0.0 for name in ("ttft", "tpot", "itl", "e2el")}
    bench = read_bench(
        written(
            completed=0,
            failed=4,
            duration=0.005,
            total_input_tokens=0,
            total_output_tokens=0,
            output_throughput=0.0,
            **zeros,
        )
    )
    assert (bench.requested, bench.completed) == (4, 0)
    assert bench.milliseconds == {}
    assert bench.user_rate is None


def test_a_latency_of_zero_among_others_is_absent() -> None:
    assert ("median", "tpot") not in read_bench(written(median_tpot_ms=0.0)).milliseconds


def test_older_releases_do_not_count_failures() -> None:
    bench = read_bench(written(failed=..., completed=3))
    assert (bench.requested, bench.completed) == (4, 3)


def test_latencies_of_single_requests_leave_failed_ones_out() -> None:
    bench = read_bench(
        written(
            completed=2,
            ttfts=[0.02, 0.0, 0.04],
            itls=[[0.01, 0.01], [], [0.02, 0.04]],
            output_lens=[3, 0, 3],
            errors=["", "Bad Request", ""],
        )
    )
    assert bench.request_samples["ttft"] == [20.0, 40.0]
    assert bench.request_samples["e2el"] == pytest.approx([40.0, 100.0])
    assert bench.request_samples["tpot"] == pytest.approx([10.0, 30.0])
    assert bench.errors == ("Bad Request",)


def test_a_byte_order_mark_is_no_fault() -> None:
    assert read_bench(b"\xef\xbb\xbf" + written().encode()).completed == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no JSON"),
        ("[1]", "a list"),
        (written(completed=5), "5 requests completed of 4"),
        (written(duration=0.0), "duration"),
        (written(output_throughput=900.0), "are not 900.0 tokens/s"),
        (written(total_output_tokens="many"), "total_output_tokens"),
        ('{"elapsed_time": 78.4, "num_requests": 32, "tokens_per_second": 888.5}', "completed"),
    ],
)
def test_what_is_no_result_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(ResultError, match=said):
        read_bench(text)
