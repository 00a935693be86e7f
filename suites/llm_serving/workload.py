"""vLLM serving a language model under a load, or a server elsewhere. README.md is the method."""

from __future__ import annotations

import json
import math
import time
from typing import TYPE_CHECKING, Any, Final

from serving_checks import FEWEST_COMPLETED_PERCENT, judge, lag_milliseconds
from serving_client import Cell, ClientError, seed_of
from serving_log import explain_requests
from serving_results import Bench, ResultError, read_bench
from serving_server import ServerError
from serving_setup import Serving, open_serving, tell_log

from rentbench.core.errors import ErrorKind

if TYPE_CHECKING:
    from rentbench.harness.context import Case, Context

_WARM_UP_CONCURRENCY: Final = 64
_SEE_THE_END_SECONDS: Final = 5.0
_LOG_LINES: Final = 60
_LATENCIES: Final = {
    "ttft_median_ms": ("median", "ttft"),
    "ttft_p90_ms": ("p90", "ttft"),
    "ttft_p99_ms": ("p99", "ttft"),
    "tpot_median_ms": ("median", "tpot"),
    "tpot_p90_ms": ("p90", "tpot"),
    "tpot_p99_ms": ("p99", "tpot"),
    "itl_median_ms": ("median", "itl"),
    "itl_p90_ms": ("p90", "itl"),
    "itl_p99_ms": ("p99", "itl"),
    "e2el_median_ms": ("median", "e2el"),
    "e2el_p90_ms": ("p90", "e2el"),
    "e2el_p99_ms": ("p99", "e2el"),
}


_serving: Serving | None = None


def prepare(context: Context) -> None:
    """Start the server, or find the one that was named; load the client; warm up."""
    global _serving
    try:
        _serving = open_serving(context)
        with context.phase("warm_up"):
            _warm_up(_serving, context)
    except (ServerError, ClientError) as error:
        finish(context)
        if error.kind == ErrorKind.UNSUPPORTED_PLATFORM and context.device == "cpu":
            context.skip(f"{error.message}; {error.hint}")
        context.fail(error.kind, error.message, error.hint)
    except ResultError as error:
        finish(context)
        context.fail(ErrorKind.WRONG_RESULT, str(error))
    except BaseException:
        finish(context)
        raise


def run(case: Case, context: Context) -> None:
    """Measure one cell."""
    if set(case) != {"recipe", "concurrency", "prompts"}:
        context.fail(ErrorKind.USAGE, "a case has the parameters recipe, concurrency and prompts")
    if _serving is None:
        prepare(context)
    assert _serving is not None  # noqa: S101  prepare() sees to it
    try:
        if _serving.restore(context):
            with context.phase("warm_up"):
                _warm_up(_serving, context)
        _measure(_serving, case, context)
    except (ServerError, ClientError) as error:
        tell_log(_serving.server, context)
        context.fail(error.kind, error.message, error.hint)
    except ResultError as error:
        context.fail(ErrorKind.WRONG_RESULT, str(error))


def finish(context: Context) -> None:
    """End server and client, and keep the server's log."""
    global _serving
    if _serving is not None:
        serving, _serving = _serving, None
        serving.close(context)


def _measure(serving: Serving, case: Case, context: Context) -> None:
    recipe, settings = str(case["recipe"]), context.settings
    own_seed = seed_of(context.seed, context.repeat, recipe, case["concurrency"], case["prompts"])
    cell = Cell(
        prompts=int(case["prompts"]),
        concurrency=int(case["concurrency"]),
        input_tokens=int(settings["input_tokens"]),
        output_tokens=int(settings["output_tokens"]),
        seed=int(settings["published_seed"]) if recipe == "published" else own_seed,
    )
    before = serving.api.counters()
    with context.phase("measure"):
        end = serving.client.run(cell, serving.target, limit_seconds=float(settings["cell_limit_seconds"]))
    bench = read_bench(end.result)
    name = f"bench-{recipe}-c{cell.concurrency}-n{cell.prompts}-{context.repeat}.json"
    context.artifact(
        name, _without_texts(end.result), "vllm bench serve's result, less texts and single gaps"
    )
    _require_completed(bench, serving, context)
    counted = serving.api.counters_after(before, bench.completed)
    _record(bench, context)
    context.record("client_cpu_seconds", end.cpu_seconds)
    for metric, value in (
        ("client_lag_ms", lag_milliseconds(bench, counted)),
        ("prefix_cache_hit_tokens", counted.prefix_cache_hits),
        ("server_ready_seconds", serving.server.ready_seconds if serving.server else None),
    ):
        if value is not None:
            context.record(metric, value)
    findings = judge(
        bench,
        cell,
        counted,
        cache_matters=recipe != "published",
        exact_output=serving.target.ignore_eos,
        alone=serving.server is not None,
    )
    where = f"{recipe}, concurrency {cell.concurrency}, repeat {context.repeat + 1}"
    for found in findings:
        detail = f"{where}: {found.detail}"
        context.check(found.name, found.passed, detail, value=found.value, limit=found.limit, unit=found.unit)
    reasons = [found.detail for found in findings if found.passed is False and found.invalidates]
    if bench.completed < bench.requested:
        reasons[0] = f"partial: {reasons[0]}"
    if reasons:
        context.invalidate("; ".join(reasons))


def _record(bench: Bench, context: Context) -> None:
    context.record("output_tokens_per_second", bench.output_rate)
    context.record("total_tokens_per_second", bench.total_rate)
    context.record("requests_per_second", bench.request_rate)
    context.record("requests_completed", bench.completed)
    if bench.user_rate is not None:
        context.record("user_tokens_per_second", bench.user_rate)
    for metric, (statistic, latency) in _LATENCIES.items():
        value = bench.milliseconds.get((statistic, latency))
        if value is not None:
            samples = bench.request_samples.get(latency) if statistic == "median" else None
            context.record(metric, value, samples=samples)


def _require_completed(bench: Bench, serving: Serving, context: Context) -> None:
    """Return if enough requests were answered for the figures to mean anything."""
    if 100 * bench.completed >= FEWEST_COMPLETED_PERCENT * bench.requested and bench.completed:
        return
    if serving.server is not None:
        # A server that died may take a moment to show it.
        until = time.monotonic() + _SEE_THE_END_SECONDS
        while serving.server.alive() and time.monotonic() < until:
            time.sleep(0.1)
        try:
            serving.server.require_alive()
        except ServerError as error:
            counts = f"{bench.completed} of {bench.requested} requests completed"
            message = f"{counts}, then {error.message}"
            raise ServerError(error.kind, message, hint=error.hint) from error
    failure = explain_requests(bench.errors)
    message = f"only {bench.completed} of {bench.requested} requests completed: {failure.message}"
    context.fail(failure.kind, message, failure.hint)


def _warm_up(serving: Serving, context: Context) -> None:
    """Send requests with prompts of their own, until every batch size has been seen."""
    prompts = int(context.settings["warm_up_prompts"])
    if not prompts:
        return
    cell = Cell(
        prompts=prompts,
        concurrency=min(prompts, _WARM_UP_CONCURRENCY),
        input_tokens=int(context.settings["input_tokens"]),
        output_tokens=int(context.settings["output_tokens"]),
        seed=seed_of(context.seed, context.repeat, "warm-up", serving.starts),
    )
    limit = float(context.settings["cell_limit_seconds"])
    bench = read_bench(serving.client.run(cell, serving.target, limit_seconds=limit).result)
    _require_completed(bench, serving, context)


def _without_texts(result: bytes) -> str:
    """Return the client's result without the long lists that repeat what else is kept."""
    document: dict[str, Any] = json.loads(result.decode("utf-8-sig"))
    kept = {name: _finite(value) for name, value in document.items() if not isinstance(value, list)}
    return json.dumps(kept, indent=1, allow_nan=False)


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value
