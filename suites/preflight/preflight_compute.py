"""Probes of each card's arithmetic and memory. With several cards, what is reported is the slowest one."""

from __future__ import annotations

import statistics
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from rentbench.harness.timing import make_timer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rentbench.harness.context import Context
    from rentbench.harness.timing import Timer

__all__ = ["Operands", "Timed", "cards", "on_card", "slowest", "time_clones", "time_products", "unsupported"]

Tensor: TypeAlias = Any  # torch is not installed where types are checked

_WARM_UP = 10
_VERIFIED_ROWS = 8
# A right product differs from float64 by the rounding of its output: 1.7e-3 in bf16, 2e-4 in fp16, 1e-6 in
# fp32.
_ERROR_LIMIT = 1e-2


@dataclass(frozen=True, kw_only=True)
class Timed:
    """Times of one operation on one card.

    Attributes:
        card: CUDA's number; 0 on a CPU.
        seconds: Of each call.
        right: Whether the result was right.
    """

    card: int
    seconds: Sequence[float]
    right: bool

    @property
    def median(self) -> float:
        """The median time of a call, seconds."""
        return statistics.median(self.seconds)


class Operands:
    """Two square matrices of normally distributed values, and the place for their product."""

    def __init__(self, dtype: str, size: int, device: str) -> None:
        kind = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[dtype]
        self._a, self._b = (torch.randn((size, size), device=device).to(kind) for _ in range(2))
        self._c = torch.full_like(self._a, float("nan"))

    def multiply(self) -> None:
        """Compute the product; on a GPU only queue it."""
        torch.matmul(self._a, self._b, out=self._c)

    def is_right(self) -> bool:
        """Compare some rows of the product with float64; a product with NaN is wrong."""
        step = max(1, len(self._a) // _VERIFIED_ROWS)
        expected = self._a[::step].double() @ self._b.double()
        error = (self._c[::step].double() - expected).norm() / expected.norm()
        return bool(error <= _ERROR_LIMIT)


def cards(context: Context) -> list[int]:
    """Return the numbers of the cards to probe; a CPU is number 0."""
    return list(range(context.device_count)) if context.device == "cuda" else [0]


@contextmanager
def on_card(context: Context, card: int) -> Iterator[tuple[str, Timer]]:
    """Make a card the current one, and give its name for torch and a timer of its own."""
    if context.device == "cpu":
        yield "cpu", context.timer
        return
    with torch.cuda.device(card):
        yield f"cuda:{card}", make_timer("cuda")


def unsupported(dtype: str, context: Context) -> str | None:
    """Return why a data type is not probed on this machine, or None."""
    if dtype != "bf16" or context.device == "cpu":
        return None
    capability = min(torch.cuda.get_device_capability(card) for card in cards(context))
    if capability >= (8, 0):
        return None
    return f"bf16 is emulated on compute capability {capability[0]}.{capability[1]}; it needs 8.0"


def time_products(context: Context, dtype: str, size: int, iterations: int) -> list[Timed]:
    """Time square products on each card, one card after another."""

    def probe(device: str, timer: Timer) -> tuple[list[float], bool]:
        operands = Operands(dtype, size, device)
        timer.time_calls(operands.multiply, iterations=_WARM_UP)
        # Flushing also keeps the card's queue filled, so that launching a small product is not timed with it.
        seconds = timer.time_calls(operands.multiply, iterations=iterations, before_each=timer.flush_cache)
        return seconds, operands.is_right()

    return _on_each_card(context, probe)


def time_clones(context: Context, elements: int, iterations: int) -> list[Timed]:
    """Time copies of an array of float32 into new memory on each card.

    The new memory comes from torch's pool, which the warm-up has filled: no allocation is timed.
    """

    def probe(device: str, timer: Timer) -> tuple[list[float], bool]:
        source = torch.randn(elements, device=device)
        copies: list[Tensor] = []

        def clone() -> None:
            copies.clear()
            copies.append(source.clone())

        timer.time_calls(clone, iterations=3)
        seconds = timer.time_calls(clone, iterations=iterations, before_each=timer.flush_cache)
        return seconds, bool(torch.equal(copies[0], source))

    return _on_each_card(context, probe)


def slowest(timed: Sequence[Timed]) -> Timed:
    """Return the card that took longest."""
    return max(timed, key=lambda one: one.median)


def _on_each_card(context: Context, probe: Callable[[str, Timer], tuple[list[float], bool]]) -> list[Timed]:
    timed = []
    for card in cards(context):
        with on_card(context, card) as (device, timer):
            seconds, right = probe(device, timer)
        timed.append(Timed(card=card, seconds=seconds, right=right))
    return timed
