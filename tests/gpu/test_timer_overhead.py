"""What the harness's timer costs on a GPU, against a bare loop of the same calls between two events.

Two events a call leave a gap of about 2 µs, so the calls are as long as those whose rates are published: a
millisecond and more. Heat decides over the rest: the card is first brought to the clocks that its power limit
allows, and the two ways then alternate in short rounds, so that both see the same clocks.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

import pytest

from rentbench.harness.timing import make_timer

if TYPE_CHECKING:
    from collections.abc import Callable

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here"),
]

HEAT_SECONDS = 15
ROUNDS = 31
CALLS = 60
LIMIT = 0.005


def product() -> Callable[[], object]:
    """Return a bf16 product of size 8192, bound by arithmetic and by the power limit."""
    left, right = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    result = torch.empty_like(left)
    return lambda: torch.mm(left, right, out=result)


def copy() -> Callable[[], object]:
    """Return a copy of 1 GiB, bound by memory."""
    source = torch.randn(2**28, device="cuda")
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


@pytest.mark.slow
@pytest.mark.parametrize("work", [product, copy])
def test_a_timed_rate_is_that_of_a_bare_loop(work: Callable[[], Callable[[], object]]) -> None:
    call = work()
    timer = make_timer("cuda")

    def bare() -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(CALLS):
            call()
        end.record()
        torch.cuda.synchronize()
        return float(begin.elapsed_time(end)) / 1e3 / CALLS

    def timed() -> float:
        return statistics.fmean(timer.time_calls(call, iterations=CALLS))

    end_of_heat = time.monotonic() + HEAT_SECONDS
    while time.monotonic() < end_of_heat:
        bare()
        timed()
    ratios = []
    for round_ in range(ROUNDS):
        if round_ % 2:
            seconds_bare, seconds_timed = bare(), timed()
        else:
            seconds_timed, seconds_bare = timed(), bare()
        ratios.append(seconds_timed / seconds_bare - 1)
    overhead = statistics.median(ratios)
    low, _, high = statistics.quantiles(ratios, n=4)
    print(
        f"\n{work.__name__}: the timer adds {overhead:+.3%} (median of {ROUNDS} rounds of {CALLS} calls;"
        f" half of them {low:+.3%} to {high:+.3%}, all {min(ratios):+.3%} to {max(ratios):+.3%})"
    )
    assert abs(overhead) < LIMIT
