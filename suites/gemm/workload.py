"""Dense matrix products and memory bandwidth, on a cool card and on a hot one. README.md is the method."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any, Literal

import torch
from gemm_heat import Card, Readings
from gemm_products import LIMITS, Product, operations, set_precision, unsupported_reason
from gemm_transfers import Transfer

from rentbench.core.errors import ErrorKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from rentbench.harness.context import Case, Context

_FEWEST_TIMED = 5
_MOST_TIMED = 1000
# What libraries say when they have no kernel for a type or a shape on this card.
_NO_KERNEL = ("not_supported", "not supported", "only supported", "not implemented")


class _Repeat:
    """What the cases of one repeat share: the card's heat, and which results were right."""

    def __init__(self, context: Context) -> None:
        self.card = Card(context=context, heat=lambda: _heat_operation(context))
        self.judged = 0
        self.wrong: list[str] = []


_repeat: _Repeat | None = None


def prepare(context: Context) -> None:
    """Begin a repeat."""
    global _repeat
    _repeat = _Repeat(context)
    context.describe(
        data={"kind": "synthetic", "name": "normal distribution", "revision": None, "seed": context.seed}
    )


def run(case: Case, context: Context) -> None:
    """Measure one case."""
    if _repeat is None:
        prepare(context)
    operation = case.get("op")
    needed = {"op", "state", *(("dtype", "size") if operation == "matmul" else ("mebibytes",))}
    if set(case) != needed:
        context.fail(
            ErrorKind.USAGE, f"a case of op={operation} has the parameters {', '.join(sorted(needed))}"
        )
    with torch.no_grad():
        if operation == "matmul":
            _matmul(str(case["dtype"]), int(case["size"]), str(case["state"]), context)
        else:
            _transfer(str(operation), int(case["mebibytes"]), str(case["state"]), context)


def finish(context: Context) -> None:
    """Report what holds for the repeat as a whole."""
    if _repeat is None:
        return
    wrong, card = _repeat.wrong, _repeat.card
    _report("results_right", wrong, _repeat.judged, "results differ from their reference", "hard", context)
    if context.device == "cpu":
        for name in ("started_cool", "clocks_settled"):
            context.check(name, None, "on a CPU, burst and steady differ in nothing but their names")
        return
    _report("started_cool", card.too_warm, card.bursts, "burst cases began on a warm card", "soft", context)
    _report(
        "clocks_settled",
        card.unsettled,
        card.steadies,
        "steady cases were timed before the clocks had settled",
        "soft",
        context,
    )


def _report(
    name: str, bad: list[str], total: int, what: str, severity: Literal["soft", "hard"], context: Context
) -> None:
    if not total:
        context.check(name, None, f"none of 0 {what}: no such case was measured", severity=severity)
        return
    repeat = f"repeat {context.repeat + 1}: "
    which = f": {repeat}{'; '.join(bad)}" if bad else ""
    context.check(
        name,
        not bad,
        f"{len(bad)} of {total} {what}{which}",
        severity=severity,
        value=len(bad),
        limit=0,
        unit="count",
    )


def _matmul(dtype: str, size: int, state: str, context: Context) -> None:
    reason = unsupported_reason(dtype, _capability(context))
    if reason is not None:
        context.skip(reason)
    if size % 16:
        context.fail(ErrorKind.USAGE, f"size must be a multiple of 16, not {size}")
    name = f"{dtype} {size} {state}"
    set_precision(dtype)
    with context.phase("load"):
        product = Product(
            dtype, size, context.device, fast_accumulation=bool(context.settings["fp8_fast_accumulation"])
        )
        _try_once(product.multiply, dtype, context)
    seconds, readings = _measure(product.multiply, name, state, context)
    with context.phase("evaluate"):
        error = product.relative_error(int(context.settings["verified_rows"]))
    limits = LIMITS[dtype]
    _judge(
        limits.low <= error <= limits.high,
        name,
        f"the product's relative error is {error:.2g}; right is {limits.low:g} to {limits.high:g}",
        context,
    )
    work, metric = operations(size) / 1e12, "tops" if dtype == "int8" else "tflops"
    _record_rates(metric, work, seconds, context)
    context.record("relative_error", error)
    _record_readings(readings, context)


def _transfer(operation: str, mebibytes: int, state: str, context: Context) -> None:
    if context.device == "cpu" and operation in {"host_to_device", "device_to_host"}:
        context.skip("on a CPU, host and device are the same memory")
    name = f"{operation} {mebibytes} MiB {state}"
    with context.phase("load"):
        transfer = Transfer(operation, mebibytes, context.device)
    seconds, readings = _measure(transfer.move, name, state, context)
    with context.phase("evaluate"):
        right = transfer.is_right()
    _judge(right, name, "the target does not hold what the operation should have left there", context)
    _record_rates("bandwidth", transfer.bytes_moved / 1e9, seconds, context)
    _record_readings(readings, context)


def _measure(
    call: Callable[[], object], name: str, state: str, context: Context
) -> tuple[list[float], Readings]:
    """Return the seconds of each timed call, and the card's readings beside them."""
    assert _repeat is not None  # noqa: S101  run() sees to it
    settings, timer, card = context.settings, context.timer, _repeat.card

    def cold_call() -> None:
        timer.flush_cache()
        call()

    if state == "burst":
        start = card.start_cool(name)
        with context.phase("warm_up"):
            first = timer.time_calls(
                call, iterations=int(settings["burst_warm_up_iterations"]), before_each=timer.flush_cache
            )
        fitting = int(float(settings["burst_limit_seconds"]) / statistics.median(first))
        iterations = max(_FEWEST_TIMED, min(int(settings["burst_iterations"]), fitting))
        during = []
    else:
        with context.phase("warm_up"):
            samples = card.start_hot(cold_call, name, minimum_calls=int(settings["warm_up_iterations"]))
        start, end = samples[0].reading, samples[-1].seconds
        iterations = _steady_iterations(end / samples[-1].calls, context)
        during = [sample.reading for sample in samples if sample.seconds >= end - 1]
    with context.phase("measure"):
        seconds = timer.time_calls(call, iterations=iterations, before_each=timer.flush_cache)
        if not during:
            # A burst is over before a reading beside it would mean anything: the sensors lag behind.
            during = [context.reading()]
    card.mark_loaded()
    return seconds, Readings.of(start, during)


def _steady_iterations(call_seconds: float, context: Context) -> int:
    """Return how many calls to time: as many as asked for, more where they are short, fewer where long."""
    settings = context.settings
    wanted = min(int(float(settings["measure_seconds"]) / call_seconds), _MOST_TIMED)
    affordable = int(float(settings["measure_limit_seconds"]) / call_seconds)
    return max(_FEWEST_TIMED, min(max(int(settings["iterations"]), wanted), affordable))


def _record_rates(metric: str, work: float, seconds: list[float], context: Context) -> None:
    """Record a rate by the median, the mean and the best time of a call."""
    context.record(metric, work / statistics.median(seconds), samples=seconds, samples_unit="s")
    context.record(f"{metric}_mean", work / statistics.fmean(seconds))
    context.record(f"{metric}_best", work / min(seconds))


def _record_readings(readings: Readings, context: Context) -> None:
    for metric in ("temperature_start_celsius", "clock_sm_mhz", "power_watts"):
        value = getattr(readings, metric)
        if value is not None:
            context.record(metric, value)


def _judge(right: bool, name: str, otherwise: str, context: Context) -> None:
    assert _repeat is not None  # noqa: S101
    _repeat.judged += 1
    if not right:
        _repeat.wrong.append(name)
        context.fail(ErrorKind.WRONG_RESULT, otherwise)


def _try_once(call: Callable[[], object], dtype: str, context: Context) -> None:
    """Call once; skip the case where the installed libraries have no kernel for fp8 or int8 on this card."""
    try:
        call()
    except RuntimeError as error:
        if dtype in {"fp8", "int8"} and any(words in str(error).lower() for words in _NO_KERNEL):
            line = str(error).splitlines()[0]
            context.skip(f"torch {torch.__version__} has no {dtype} product for this device: {line}")
        raise


def _capability(context: Context) -> tuple[int, int] | None:
    if context.device == "cpu":
        return None
    major, minor = torch.cuda.get_device_capability()
    return int(major), int(minor)


def _heat_operation(context: Context) -> Callable[[], Any]:
    """Return the operation that heats the card up: the product in the widest-used type that the card has."""
    dtype = "fp16" if unsupported_reason("bf16", _capability(context)) else "bf16"
    product = Product(dtype, int(context.settings["heat_size"]), context.device)
    return product.multiply
