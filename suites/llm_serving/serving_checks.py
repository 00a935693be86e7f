"""Whether a cell measured what it says: pure functions of what client and server counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from serving_api import Counters
    from serving_client import Cell
    from serving_results import Bench

__all__ = ["FEWEST_COMPLETED_PERCENT", "Finding", "judge", "lag_milliseconds"]

FEWEST_COMPLETED_PERCENT: Final = 95.0
# Prompts of vLLM's random data set are runs of successive tokens from a random one on, so two of some hundred
# may be the same by chance. Prompts that come back are tens of per cent.
_HITS_PERCENT: Final = 2.0
_OUTPUT_PERCENT: Final = 0.5
_INPUT_PERCENT: Final = 2.0
_LAG_PERCENT: Final = 5.0


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A check of one cell.

    Attributes:
        name: Of the check.
        passed: None where it could not be looked at.
        detail: In words, with the figures.
        value: What was found.
        limit: What is allowed.
        unit: Of both.
        invalidates: Whether the cell is worthless where this failed.
    """

    name: str
    passed: bool | None
    detail: str
    value: float | None = None
    limit: float | None = None
    unit: str | None = None
    invalidates: bool = False


def judge(
    bench: Bench, cell: Cell, counted: Counters, *, cache_matters: bool, exact_output: bool, alone: bool
) -> list[Finding]:
    """Return what holds for a cell.

    Args:
        bench: What the client counted.
        cell: What was asked for.
        counted: What the server counted meanwhile.
        cache_matters: Whether prompts must not come out of the prefix cache.
        exact_output: Whether every answer must have exactly the length asked for.
        alone: Whether nobody else can have used the server.
    """
    return [
        _completed(bench),
        _length(
            "output_as_asked",
            bench.output_tokens,
            bench.completed * cell.output_tokens,
            _OUTPUT_PERCENT,
            invalidates=exact_output,
        ),
        _length(
            "input_as_asked",
            bench.input_tokens,
            bench.completed * cell.input_tokens,
            _INPUT_PERCENT,
            invalidates=True,
        ),
        _server_agrees(bench, counted, alone=alone),
        _cold(bench, counted, matters=cache_matters),
        _keeps_up(bench, counted),
    ]


def lag_milliseconds(bench: Bench, counted: Counters) -> float | None:
    """Return by how much longer the client takes a request to last than the server does, in ms, on average.

    It is what the client, the connection and HTTP add. None where one of the two does not say.
    """
    mean = bench.milliseconds.get(("mean", "e2el"))
    if mean is None or counted.latency_seconds is None or not counted.latency_count:
        return None
    return mean - 1000 * counted.latency_seconds / counted.latency_count


def _completed(bench: Bench) -> Finding:
    percent = 100 * bench.completed / bench.requested if bench.requested else 0.0
    return Finding(
        name="requests_completed",
        passed=bench.completed == bench.requested,
        detail=f"{bench.completed} of {bench.requested} requests completed",
        value=round(percent, 3),
        limit=100.0,
        unit="%",
        invalidates=True,
    )


def _length(name: str, found: int, asked: int, tolerance: float, *, invalidates: bool) -> Finding:
    off = 100 * abs(found - asked) / asked if asked else 100.0
    return Finding(
        name=name,
        passed=off <= tolerance,
        detail=f"{found} tokens of the {asked} that were asked for",
        value=round(off, 3),
        limit=tolerance,
        unit="%",
        invalidates=invalidates,
    )


def _server_agrees(bench: Bench, counted: Counters, *, alone: bool) -> Finding:
    """Compare what both sides counted; where others may use the server too, a difference proves nothing."""
    pairs = (
        ("requests", bench.completed, counted.requests, 0.0),
        ("output tokens", bench.output_tokens, counted.generation_tokens, _OUTPUT_PERCENT),
        ("input tokens", bench.input_tokens, counted.prompt_tokens, _INPUT_PERCENT),
    )
    name = "server_agrees"
    if any(server is None for _, _, server, _ in pairs):
        return Finding(name=name, passed=None, detail="the server does not tell what it has counted")
    wrong = [
        f"{what}: client {ours}, server {theirs:.0f}"
        for what, ours, theirs, tolerance in pairs
        if theirs is not None and abs(ours - theirs) > max(ours, theirs) * tolerance / 100
    ]
    detail = (
        "; ".join(wrong)
        or f"{bench.completed} requests and {bench.output_tokens} output tokens on both sides"
    )
    return Finding(name=name, passed=not wrong, detail=detail, invalidates=alone)


def _cold(bench: Bench, counted: Counters, *, matters: bool) -> Finding:
    name, hits = "prefix_cache_cold", counted.prefix_cache_hits
    if hits is None:
        return Finding(name=name, passed=None, detail="the server does not count hits of its prefix cache")
    share = 100 * hits / bench.input_tokens if bench.input_tokens else 0.0
    detail = f"{hits:.0f} of {bench.input_tokens} prompt tokens came out of the prefix cache ({share:.1f} %)"
    if not matters:
        return Finding(
            name="prefix_cache_published",
            passed=None,
            detail=f"{detail}, as the published recipe lets them",
            value=round(share, 3),
            unit="%",
        )
    return Finding(
        name=name,
        passed=share <= _HITS_PERCENT,
        detail=detail,
        value=round(share, 3),
        limit=_HITS_PERCENT,
        unit="%",
        invalidates=True,
    )


def _keeps_up(bench: Bench, counted: Counters) -> Finding:
    name, lag = "client_keeps_up", lag_milliseconds(bench, counted)
    if lag is None:
        return Finding(name=name, passed=None, detail="the server does not tell how long its requests took")
    mean = bench.milliseconds["mean", "e2el"]
    return Finding(
        name=name,
        passed=100 * lag / mean <= _LAG_PERCENT,
        detail=f"a request takes {mean:.1f} ms at the client, {lag:.1f} ms more than at the server",
        value=round(100 * lag / mean, 3),
        limit=_LAG_PERCENT,
        unit="%",
    )
