"""Other tools' output, in our units: `vllm bench serve`, nccl-tests, guidellm, aiperf.

What a tool does not say stays out: none of these says which GPU it ran on, so that is asked for. A run in
which nothing worked has no latencies: zeros are what such files hold, and are not read.
"""

from __future__ import annotations

import math
import re
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Literal

from rentbench.core.errors import InvalidDocumentError
from rentbench.references.documents import Case, Measured, Statistic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = [
    "ENOUGH_REQUESTS",
    "aiperf_cases",
    "guidellm_cases",
    "is_all_reduce",
    "nccl_cases",
    "run_day",
    "vllm_cases",
]

# Below, what completed is no sample of the load; the suite llm-serving has the same limit.
ENOUGH_REQUESTS = 0.95

_TIMES = {
    "ttft": "time_to_first_token_ms",
    "tpot": "time_per_output_token_ms",
    "itl": "inter_token_latency_ms",
    "e2el": "end_to_end_latency_ms",
}
_STATISTICS: tuple[Statistic, ...] = ("mean", "median", "p90", "p95", "p99")
_RATES = {
    "output_throughput": ("output_tokens_per_second", "tokens/s"),
    "total_token_throughput": ("total_tokens_per_second", "tokens/s"),
    "request_throughput": ("requests_per_second", "requests/s"),
}

# A message size as nccl-tests prints it; 64 bits have no more digits.
_WHOLE = re.compile(r"\d{1,20}", re.ASCII)

_Status = Literal["ok", "partial", "failed"]


def run_day(text: object) -> str | None:
    """Return the day that a tool names: `20261130-213150`, or ISO 8601; None where it is neither."""
    if not isinstance(text, str):
        return None
    try:
        if re.fullmatch(r"\d{8}-\d{6}", text):
            return datetime.strptime(text[:8], "%Y%m%d").date().isoformat()  # noqa: DTZ007 - a day, no moment
        return date.fromisoformat(text[:10]).isoformat()
    except ValueError:
        return None


def vllm_cases(content: Mapping[str, Any]) -> list[Case]:
    """Return the one case in a result of `vllm bench serve`.

    Raises:
        InvalidDocumentError: Its times are not in milliseconds, or its counts are missing.
    """
    if any(key in content for key in ("median_ttft", "median_tpot", "p99_ttft")):
        msg = "times without the ending _ms are in seconds here, which is another tool's form"
        raise InvalidDocumentError(msg, hint="import a result of vllm bench serve itself")
    completed, wanted = _count(content, "completed"), _count(content, "num_prompts")
    status, note = _status(completed, wanted)
    parameters = {
        name: content[key]
        for key, name in (("max_concurrency", "concurrency"), ("request_rate", "request_rate"))
        if isinstance(content.get(key), str | int | float)
    }
    measured: list[Measured] = []
    if status != "failed":
        measured = [
            Measured(metric=metric, value=value, unit=unit)
            for key, (metric, unit) in _RATES.items()
            if (value := _above_zero(content.get(key))) is not None
        ]
        for short, metric in _TIMES.items():
            for statistic in _STATISTICS:
                value = _above_zero(content.get(f"{statistic}_{short}_ms"))
                if value is not None:
                    measured.append(Measured(metric=metric, value=value, unit="ms", statistic=statistic))
    return [
        Case(parameters=parameters | {"prompts": wanted}, status=status, note=note, measurements=measured)
    ]


def nccl_cases(text: str) -> list[Case]:
    """Return a case a message size from the output of an nccl-tests program, out of place.

    Lines of NCCL's own between the rows, prefixes of mpirun, the old form without the column `root`, and
    sizes that were measured twice are minded. One GPU sends nothing: its bus bandwidth of 0 is left out.

    Raises:
        InvalidDocumentError: It holds no table.
    """
    ranks = len(set(re.findall(r"Rank\s+(\d+)\b", text))) or None
    cases: dict[int, Case] = {}
    for line in text.splitlines():
        cells = re.sub(r"^\[\d+,\d+\]<std\w+>:", "", line).split()
        if len(cells) < 12 or not all(map(_WHOLE.fullmatch, cells[:2])) or cells[0] == "0":
            continue
        numbers = [_float(cell) for cell in cells]
        # From the right: time, algbw, busbw, errors, twice; what is left of them varies by version.
        microseconds, algorithm, bus, wrong = numbers[-8], numbers[-7], numbers[-6], numbers[-5]
        is_wrong = wrong is not None and wrong >= 1
        measured = [
            Measured(metric=metric, value=value, unit=unit)
            for metric, value, unit in (
                ("time", microseconds, "µs"),
                ("algorithm_bandwidth", algorithm, "GB/s"),
                ("bus_bandwidth", bus, "GB/s"),
            )
            if value
        ]
        size = int(cells[0])
        cases[size] = Case(
            parameters={"bytes": size, "ranks": ranks},
            status="failed" if is_wrong else "ok",
            note="wrong elements in the result" if is_wrong else None,
            measurements=[] if is_wrong else measured,
        )
    if not cases:
        msg = "there is no table of nccl-tests in it"
        raise InvalidDocumentError(msg, hint="import what all_reduce_perf prints")
    return [cases[size] for size in sorted(cases)]


def is_all_reduce(cases: Sequence[Case]) -> bool:
    """Say whether a table of nccl-tests is of an all-reduce, which it does not name.

    The relation of bus to algorithm bandwidth tells: 2(n − 1)/n for an all-reduce of n ranks, 1 or (n − 1)/n
    for other operations.
    """
    largest = cases[-1]
    figures = {one.metric: one.value for one in largest.measurements}
    ranks = largest.parameters["ranks"]
    if (
        not isinstance(ranks, int)
        or ranks < 3
        or not {"algorithm_bandwidth", "bus_bandwidth"} <= figures.keys()
    ):
        return False
    factor = 2 * (ranks - 1) / ranks
    return abs(figures["bus_bandwidth"] / figures["algorithm_bandwidth"] / factor - 1) < 0.01


def guidellm_cases(content: Mapping[str, Any]) -> list[Case]:
    """Return a case a benchmark in guidellm's report; distributions are those of successful requests.

    Raises:
        InvalidDocumentError: It holds no benchmark.
    """
    rates = {
        "output_tokens_per_second": ("output_tokens_per_second", "tokens/s"),
        "tokens_per_second": ("total_tokens_per_second", "tokens/s"),
        "requests_per_second": ("requests_per_second", "requests/s"),
    }
    times = {
        "time_to_first_token_ms": "time_to_first_token_ms",
        "time_per_output_token_ms": "time_per_output_token_ms",
        "inter_token_latency_ms": "inter_token_latency_ms",
    }
    cases = []
    for index, benchmark in enumerate(content.get("benchmarks") or []):
        metrics = benchmark["metrics"]
        totals = metrics.get("request_totals") or benchmark.get("run_stats", {}).get("requests_made") or {}
        status, note = _status(_count(totals, "successful"), _count(totals, "total"))
        measured: list[Measured] = []
        if status != "failed":
            for key, (metric, unit) in rates.items():
                value = _above_zero(_successful(metrics, key).get("mean"))
                if value is not None:
                    measured.append(Measured(metric=metric, value=value, unit=unit, statistic="mean"))
            for key, metric in times.items():
                measured += _distribution(metric, _successful(metrics, key))
        cases.append(
            Case(
                parameters={"benchmark": index, **_strategy(benchmark)},
                status=status,
                note=note,
                measurements=measured,
            )
        )
    if not cases:
        msg = "the report holds no benchmarks"
        raise InvalidDocumentError(msg, hint="run guidellm again, and see why none was made")
    return cases


def aiperf_cases(content: Mapping[str, Any]) -> list[Case]:
    """Return the one case in `profile_export_aiperf.json`.

    Raises:
        InvalidDocumentError: It has no output token throughput.
    """
    rates = {
        "output_token_throughput": ("output_tokens_per_second", "tokens/s"),
        "total_token_throughput": ("total_tokens_per_second", "tokens/s"),
        "request_throughput": ("requests_per_second", "requests/s"),
    }
    times = {
        "time_to_first_token": "time_to_first_token_ms",
        "inter_token_latency": "inter_token_latency_ms",
        "request_latency": "end_to_end_latency_ms",
    }
    measured = []
    for key, (metric, unit) in rates.items():
        block = _block(content, key)
        if not str(block.get("unit", unit)).endswith(("/s", "/sec")):
            msg = f"{key} is in {block.get('unit')}, not in {unit}"
            raise InvalidDocumentError(msg)
        value = _above_zero(block.get("avg"))
        if value is not None:
            measured.append(Measured(metric=metric, value=value, unit=unit))
    for key, metric in times.items():
        block = _block(content, key)
        if block and block.get("unit") != "ms":
            msg = f"{key} is in {block.get('unit')}, not in ms"
            raise InvalidDocumentError(msg)
        measured += _distribution(metric, block | {"mean": block.get("avg"), "median": block.get("p50")})
    succeeded = _block(content, "request_count").get("avg") or 0
    failed = _block(content, "error_request_count").get("avg") or 0
    status, note = _status(int(succeeded), int(succeeded + failed))
    return [
        Case(
            parameters={},
            status=status,
            note=note,
            measurements=[] if status == "failed" else measured,
        )
    ]


def _status(completed: int, wanted: int) -> tuple[_Status, str | None]:
    if completed >= wanted > 0:
        return "ok", None
    note = f"{completed} of {wanted} requests completed"
    return ("partial" if wanted and completed / wanted >= ENOUGH_REQUESTS else "failed"), note


def _count(content: Mapping[str, Any], key: str) -> int:
    value = content.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        msg = f"{key} is missing, so nothing says how many requests worked"
        raise InvalidDocumentError(msg)
    return value


def _above_zero(value: object) -> float | None:
    """Return a figure; None where it is missing, or the zero that stands for missing in such files."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        return None
    return float(value)


def _float(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _successful(metrics: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    block = metrics.get(key)
    found = block.get("successful") if isinstance(block, dict) else None
    return found if isinstance(found, dict) else {}


def _block(content: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = content.get(key)
    return found if isinstance(found, dict) else {}


def _distribution(metric: str, block: Mapping[str, Any]) -> Iterator[Measured]:
    percentiles = block.get("percentiles")
    named = {**block, **percentiles} if isinstance(percentiles, dict) else block
    for statistic in _STATISTICS:
        value = _above_zero(named.get(statistic))
        if value is not None:
            yield Measured(metric=metric, value=value, unit="ms", statistic=statistic)


def _strategy(benchmark: Mapping[str, Any]) -> dict[str, str | float]:
    """Return how requests were sent; newer reports say it in `config`, older ones in `args`."""
    for place in ("config", "args"):
        strategy = (benchmark.get(place) or {}).get("strategy")
        if isinstance(strategy, dict):
            found: Sequence[tuple[str, str]] = (
                ("type_", "strategy"),
                ("streams", "concurrency"),
                ("rate", "rate"),
            )
            return {
                name: strategy[key] for key, name in found if isinstance(strategy.get(key), str | int | float)
            }
    return {}
