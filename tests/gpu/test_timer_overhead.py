"""What the harness's timer costs on a GPU, against a bare loop of the same products between two events."""

from __future__ import annotations

import statistics

import pytest

from rentbench.harness.timing import make_timer

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here"),
]

ROUNDS = 7
ITERATIONS = 200
LIMIT = 0.005


@pytest.mark.parametrize("size", [4096, 8192])
def test_a_timed_rate_is_that_of_a_bare_loop(size: int) -> None:
    """Rounds alternate, so that heat and clocks are the same for both; the median ratio must be near 1."""
    left, right = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    product = torch.empty_like(left)
    timer = make_timer("cuda")

    def multiply() -> object:
        return torch.mm(left, right, out=product)

    def bare() -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(ITERATIONS):
            multiply()
        end.record()
        torch.cuda.synchronize()
        return float(begin.elapsed_time(end)) / 1e3 / ITERATIONS

    def timed() -> float:
        return statistics.fmean(timer.time_calls(multiply, iterations=ITERATIONS))

    for _ in range(10):  # heat: the clocks must have settled before the first round
        bare()
    ratios = []
    for round_ in range(ROUNDS):
        first, second = (bare, timed) if round_ % 2 else (timed, bare)
        a, b = first(), second()
        ratios.append(a / b if first is timed else b / a)
    overhead = statistics.median(ratios) - 1
    print(f"n={size}: overhead {overhead:+.3%} (rounds {min(ratios) - 1:+.3%} to {max(ratios) - 1:+.3%})")
    assert abs(overhead) < LIMIT
