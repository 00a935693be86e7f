"""How work over several GPUs scales, and what the link between them takes of a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rentbench.pricing.figures import figure
from rentbench.pricing.numbers import Number, positive, whole

if TYPE_CHECKING:
    from decimal import Decimal

__all__ = [
    "bus_bandwidth_gb_s",
    "communication_time",
    "exposed_communication",
    "interactivity",
    "scaling_efficiency",
    "speed_up",
]


@figure(unit="ratio", formula="tokens_per_second ÷ base_tokens_per_second")
def speed_up(*, tokens_per_second: Number, base_tokens_per_second: Number) -> Decimal:
    """Return how many times as fast a variant is as its base.

    Args:
        tokens_per_second: Of all ranks together.
        base_tokens_per_second: Of one GPU: of the same variant's recipe where that exists (accumulation),
            else of plain training; the page names which.
    """
    rate, base = positive(tokens_per_second=tokens_per_second, base_tokens_per_second=base_tokens_per_second)
    return rate / base


@figure(unit="ratio", formula="tokens_per_second ÷ base_tokens_per_second ÷ gpus")
def scaling_efficiency(*, tokens_per_second: Number, base_tokens_per_second: Number, gpus: Number) -> Decimal:
    """Return the speed-up as a share of the ideal one, at which N GPUs do N times the work of one."""
    (count,) = whole(gpus=gpus)
    return (
        speed_up(tokens_per_second=tokens_per_second, base_tokens_per_second=base_tokens_per_second) / count
    )


@figure(unit="ratio", formula="1 − one_gpu_step_seconds ÷ step_seconds")
def exposed_communication(*, one_gpu_step_seconds: Number, step_seconds: Number) -> Decimal:
    """Return the share of a step that is there only since several GPUs work together (weak scaling).

    What is hidden behind computing does not count: it is less than `communication_time` where they overlap.
    Negative where the step of several is the shorter one, within noise.
    """
    one, several = positive(one_gpu_step_seconds=one_gpu_step_seconds, step_seconds=step_seconds)
    return 1 - one / several


@figure(unit="ratio", formula="sent_bytes ÷ (algorithm_bandwidth_gb_s × 1e9) ÷ step_seconds")
def communication_time(
    *, sent_bytes: Number, algorithm_bandwidth_gb_s: Number, step_seconds: Number
) -> Decimal:
    """Return the time that the all-reduces of a step take on their own, as a share of the step.

    May pass 1: it is not the share of a step in which nothing else happens (`exposed_communication` is).

    Args:
        sent_bytes: Bytes that are reduced in a step: those of the gradients in the type they are sent in.
        algorithm_bandwidth_gb_s: Measured on the same machine, bytes ÷ time, in 1e9 bytes a second.
        step_seconds: Duration of the step.
    """
    sent, bandwidth, step = positive(
        sent_bytes=sent_bytes, algorithm_bandwidth_gb_s=algorithm_bandwidth_gb_s, step_seconds=step_seconds
    )
    return sent / (bandwidth * 1_000_000_000) / step


@figure(unit="GB/s", formula="algorithm_bandwidth_gb_s × 2 × (ranks − 1) ÷ ranks")
def bus_bandwidth_gb_s(*, algorithm_bandwidth_gb_s: Number, ranks: Number) -> Decimal:
    """Return the bus bandwidth of an all-reduce, which can be compared with the link's own.

    Source: NCCL tests, doc/PERFORMANCE.md.

    Raises:
        UsageError: Fewer than two ranks: nothing is sent.
    """
    (bandwidth,) = positive(algorithm_bandwidth_gb_s=algorithm_bandwidth_gb_s)
    (count,) = whole(ranks=ranks, least=2)
    return bandwidth * 2 * (count - 1) / count


@figure(unit="tokens/s per user", formula="1000 ÷ median_tpot_ms")
def interactivity(*, median_tpot_ms: Number) -> Decimal:
    """Return how many tokens a second one user of a server sees.

    Args:
        median_tpot_ms: Median time per output token, without the first, in milliseconds.
    """
    (milliseconds,) = positive(median_tpot_ms=median_tpot_ms)
    return 1000 / milliseconds
