"""Other tools' output: units, what is missing, and runs that failed."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rentbench.core.errors import InvalidDocumentError, RentbenchError, UsageError
from rentbench.references.documents import Device
from rentbench.references.importing import read_references
from rentbench.references.tools import nccl_cases, run_day

VLLM: dict[str, Any] = {
    "date": "20261130-213150", "backend": "vllm", "model_id": "Qwen2.5-7B", "num_prompts": 192,
    "request_rate": "inf", "max_concurrency": 32, "duration": 9.5, "completed": 192, "failed": 0,
    "request_throughput": 20.18, "output_throughput": 5165.9, "total_token_throughput": 15497.7,
    "mean_ttft_ms": 185.3, "median_ttft_ms": 201.8, "p99_ttft_ms": 344.7, "median_tpot_ms": 5.35,
    "p99.9_ttft_ms": 400.0,
}  # fmt: skip
GUIDELLM: dict[str, Any] = {
    "metadata": {"version": 2, "guidellm_version": "0.4.0"},
    "benchmarks": [
        {
            "config": {"strategy": {"type_": "concurrent", "streams": 8}},
            "metrics": {
                "request_totals": {"successful": 100, "errored": 0, "incomplete": 0, "total": 100},
                "output_tokens_per_second": {"successful": {"mean": 1500.5, "median": 1490.0}},
                "requests_per_second": {"successful": {"mean": 6.0}},
                "time_to_first_token_ms": {
                    "successful": {"mean": 60.0, "median": 58.0, "percentiles": {"p90": 80.0, "p99": 95.0}}
                },
            },
        },
        {
            "args": {"strategy": {"type_": "constant", "rate": 10.0}},
            "metrics": {
                "request_totals": {"successful": 0, "errored": 50, "incomplete": 0, "total": 50},
                "output_tokens_per_second": {"successful": {"mean": 0.0}},
            },
        },
    ],
}
AIPERF: dict[str, Any] = {
    "schema_version": "1.0", "aiperf_version": "0.12.0", "start_time": "2026-11-30T10:00:00",
    "input_config": {"endpoint": {"model_names": ["Qwen2.5-7B"]}},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 1500.0},
    "request_throughput": {"unit": "requests/sec", "avg": 6.0},
    "request_count": {"unit": "requests", "avg": 97.0},
    "error_request_count": {"unit": "requests", "avg": 3.0},
    "time_to_first_token": {"unit": "ms", "avg": 60.0, "p50": 58.0, "p90": 80.0, "p99": 95.0, "std": 3.0},
}  # fmt: skip
RANKS = "".join(f"#   Rank  {rank} Pid 1 on localhost device  {rank} [0x00] A100\n" for rank in range(4))
NCCL = f"""# nThread 1 nGpus 4 minBytes 8 maxBytes 33554432
{RANKS}#  size count type redop time algbw busbw error time algbw busbw error
hostname:3442:3442 [0] NCCL INFO Launch mode Parallel
           0             0   float     sum    35.20    0.00    0.00    N/A    34.05    0.00    0.00    N/A
[1,0]<stdout>:   1048576    262144   float   sum   74.78   14.02   21.03   N/A   76.17   13.77   24.09  5e-07
    33554432    8388608     float   sum   -1    374.3   89.65   134.48      0    372.8   90.00  135.00      0
    67108864   16777216     float   sum   -1    584.5   90.00   135.00      7    581.9   90.00  135.00      0
# Avg bus bandwidth    : 68.4048
"""


def imported(folder: Path, content: dict[str, Any] | str, **options: Any) -> dict[str, Any]:
    path = folder / "output.txt"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    (reference,) = read_references(path, **options)
    return reference.as_document()


def figures(case: dict[str, Any]) -> dict[tuple[str, str], float]:
    return {(one["metric"], one["statistic"]): one["value"] for one in case["measurements"]}


def test_vllm(tmp_path: Path) -> None:
    document = imported(tmp_path, VLLM, device=Device(gpu_name="H200", gpu_count=1))
    assert (document["label"], document["run_date"]) == ("imported", "2026-11-30")
    assert document["source"]["tool"] == "vllm bench serve"
    assert document["device"] == {"gpu_name": "H200", "gpu_count": 1, "gpu_memory_gb": None, "detail": None}
    (case,) = document["cases"]
    assert case["parameters"] == {"concurrency": 32, "request_rate": "inf", "prompts": 192}
    assert figures(case) == {
        ("output_tokens_per_second", "value"): 5165.9,
        ("total_tokens_per_second", "value"): 15497.7,
        ("requests_per_second", "value"): 20.18,
        ("time_to_first_token_ms", "mean"): 185.3,
        ("time_to_first_token_ms", "median"): 201.8,
        ("time_to_first_token_ms", "p99"): 344.7,
        ("time_per_output_token_ms", "median"): 5.35,
    }


@pytest.mark.parametrize(
    ("changes", "status", "measured"),
    [
        ({"completed": 187}, "partial", True),
        ({"completed": 3, "failed": 189}, "failed", False),
        (
            {"completed": 0, "mean_ttft_ms": 0.0, "median_ttft_ms": 0.0, "output_throughput": 0.0},
            "failed",
            False,
        ),
    ],
)
def test_vllm_runs_that_failed_have_no_figures(
    changes: dict[str, Any], status: str, measured: bool, tmp_path: Path
) -> None:
    (case,) = imported(tmp_path, VLLM | changes)["cases"]
    assert (case["status"], bool(case["measurements"])) == (status, measured)
    assert "of 192 requests completed" in case["note"]


def test_seconds_are_not_taken_for_milliseconds(tmp_path: Path) -> None:
    with pytest.raises(InvalidDocumentError, match="in seconds"):
        imported(tmp_path, VLLM | {"median_ttft": 0.265})


def test_guidellm(tmp_path: Path) -> None:
    document = imported(tmp_path, GUIDELLM)
    assert document["source"]["tool"] == "guidellm 0.4.0"
    good, bad = document["cases"]
    assert good["parameters"] == {"benchmark": 0, "strategy": "concurrent", "concurrency": 8}
    assert figures(good)["output_tokens_per_second", "mean"] == 1500.5
    assert figures(good)["time_to_first_token_ms", "p99"] == 95.0
    assert (bad["status"], bad["measurements"], bad["parameters"]["rate"]) == ("failed", [], 10.0)
    with pytest.raises(InvalidDocumentError, match="no benchmarks"):
        imported(tmp_path, {"benchmarks": []})


def test_aiperf(tmp_path: Path) -> None:
    document = imported(tmp_path, AIPERF)
    assert (document["model"], document["run_date"]) == ("Qwen2.5-7B", "2026-11-30")
    (case,) = document["cases"]
    assert case["status"] == "partial"
    assert figures(case)["time_to_first_token_ms", "median"] == 58.0
    with pytest.raises(InvalidDocumentError, match="is in sec"):
        imported(tmp_path, AIPERF | {"time_to_first_token": {"unit": "sec", "avg": 1.0}})


def test_nccl_tests(tmp_path: Path) -> None:
    document = imported(tmp_path, NCCL)
    assert document["suite"] is None, "the largest row was wrong, so nothing tells the operation"
    small, good, wrong = document["cases"]
    assert small["parameters"] == {"bytes": 1048576, "ranks": 4}
    assert figures(small)["bus_bandwidth", "value"] == 21.03
    assert figures(good) == {
        ("time", "value"): 374.3,
        ("algorithm_bandwidth", "value"): 89.65,
        ("bus_bandwidth", "value"): 134.48,
    }
    assert (wrong["status"], wrong["measurements"]) == ("failed", [])
    right = imported(tmp_path, NCCL.replace("135.00      7", "135.00      0"))
    assert right["suite"] == "allreduce"


def test_one_gpu_has_no_bus_bandwidth() -> None:
    cells = "33554432 8388608 float none -1 19.56 1715.44 0.00 0 0.78 43046.10 0.00 N/A"
    (case,) = nccl_cases(cells)
    assert [one.metric for one in case.measurements] == ["time", "algorithm_bandwidth"]


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("20261130-213150", "2026-11-30"),
        ("2026-11-30T10:00:00", "2026-11-30"),
        ("20261330-000000", None),
        (5, None),
        ("", None),
    ],
)
def test_days(text: object, day: str | None) -> None:
    assert run_day(text) == day


@pytest.mark.parametrize(
    ("content", "options", "told"),
    [
        ("hello", {}, "no form that is known"),
        ("hello", {"form": "vllm-bench"}, "no JSON object"),
        ("hello", {"form": "nccl-tests"}, "no table of nccl-tests"),
        ("{}", {"form": "mlperf"}, "forms: published, vllm-bench"),
        ('{"num_prompts": 1, "completed": "1"}', {}, "completed is missing"),
        ('{"benchmarks": [5]}', {}, "another form than guidellm"),
        ('{"benchmarks": []}', {}, "{file}: the report holds no benchmarks"),
        ('{"num_prompts": 1, "completed": 1', {}, "{file} ends too early"),
        ("\ufeff{}", {}, "starts with a byte order mark"),
        (json.dumps(AIPERF | {"request_throughput": {"unit": "requests/min", "avg": 2}}), {}, "requests/min"),
        (f"busbw {'9' * 5000} {' 1' * 12}", {}, "no table of nccl-tests"),
    ],
)
def test_what_cannot_be_imported_is_told(
    content: str, options: dict[str, str], told: str, tmp_path: Path
) -> None:
    with pytest.raises((RentbenchError, UsageError)) as raised:
        imported(tmp_path, content, **options)
    assert told.removeprefix("{file}") in f"{raised.value.message} {raised.value.hint}"
    assert not told.startswith("{file}") or raised.value.message.startswith(str(tmp_path))


def test_a_single_model_name_is_read_whole(tmp_path: Path) -> None:
    document = imported(
        tmp_path, json.dumps(AIPERF | {"input_config": {"endpoint": {"model_names": "m/7b"}}})
    )
    assert document["model"] == "m/7b"


def test_what_is_no_figure_in_a_table_is_left_out() -> None:
    (case,) = nccl_cases("1024 256 float sum -1 10.0 nan -5.0 0 10.0 1.0 1.0 0\n")
    assert [(one.metric, one.value) for one in case.measurements] == [("time", 10.0)]


values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(sorted(VLLM)), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(
    base=st.sampled_from([VLLM, GUIDELLM, AIPERF]),
    key=st.sampled_from(sorted({*VLLM, *GUIDELLM, *AIPERF})),
    value=values,
)
def test_any_change_gives_a_document_or_an_error(
    base: dict[str, Any], key: str, value: object, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("x")
    with contextlib.suppress(RentbenchError):
        assert imported(folder, base | {key: value})["label"] == "imported"
