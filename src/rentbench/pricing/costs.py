"""What a unit of work costs, on the run day and today.

`usd_per_hour` is the price of all that did the work: a GPU-hour for work on one GPU, the machine-hour for
work on all GPUs of a machine (`bills.share_usd_per_hour` for a part of one). Rate and price are of one run.

The rounding rule: our own figures are computed exactly and rounded last (`numbers.rounded`). Of a published
reference only the printed figure is known, so `today` moves that one; it reproduces every printed cell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from rentbench.pricing.figures import figure
from rentbench.pricing.numbers import Number, positive

if TYPE_CHECKING:
    from decimal import Decimal

__all__ = [
    "Per",
    "audio_hours_per_usd",
    "images_per_usd",
    "million_tokens_per_usd",
    "today",
    "training_cost_usd",
    "usd_per_audio_hour",
    "usd_per_billion_tokens",
    "usd_per_million_passages",
    "usd_per_million_tokens",
    "usd_per_thousand_images",
]

Per: TypeAlias = Literal["money_per_work", "work_per_money"]

_SECONDS = 3600  # of an hour


@figure(unit="USD per 1M tokens", formula="usd_per_hour ÷ (tokens_per_second × 3600) × 1e6")
def usd_per_million_tokens(*, tokens_per_second: Number, usd_per_hour: Number) -> Decimal:
    """Return the price of a million tokens, of the kind that the rate counts: output tokens, or all.

    Source: InferenceX, cost per million tokens = USD per GPU-hour ÷ (tokens/s/GPU × 3600 ÷ 1e6).

    Args:
        tokens_per_second: Output tokens/s, or total tokens/s; the figure's title says which.
        usd_per_hour: Price of all GPUs that gave the rate.
    """
    rate, price = positive(tokens_per_second=tokens_per_second, usd_per_hour=usd_per_hour)
    return price / (rate * _SECONDS) * 1_000_000


@figure(unit="M tokens per USD", formula="tokens_per_second × 3600 ÷ 1e6 ÷ usd_per_hour")
def million_tokens_per_usd(*, tokens_per_second: Number, usd_per_hour: Number) -> Decimal:
    """Return how many million tokens a dollar buys: the inverse of `usd_per_million_tokens`."""
    rate, price = positive(tokens_per_second=tokens_per_second, usd_per_hour=usd_per_hour)
    return rate * _SECONDS / 1_000_000 / price


@figure(unit="USD per 1B tokens", formula="usd_per_hour ÷ (tokens_per_second × 3600) × 1e9")
def usd_per_billion_tokens(*, tokens_per_second: Number, usd_per_hour: Number) -> Decimal:
    """Return the price of training on a billion tokens.

    Args:
        tokens_per_second: Of all ranks together.
        usd_per_hour: Price of all GPUs that the ranks ran on; one GPU's share of the machine for one rank.
    """
    rate, price = positive(tokens_per_second=tokens_per_second, usd_per_hour=usd_per_hour)
    return price / (rate * _SECONDS) * 1_000_000_000


@figure(unit="USD per 1M passages", formula="usd_per_hour ÷ (passages_per_second × 3600) × 1e6")
def usd_per_million_passages(*, passages_per_second: Number, usd_per_hour: Number) -> Decimal:
    """Return the price of embedding a million passages."""
    rate, price = positive(passages_per_second=passages_per_second, usd_per_hour=usd_per_hour)
    return price / (rate * _SECONDS) * 1_000_000


@figure(unit="USD per 1,000 images", formula="usd_per_hour ÷ (images_per_second × 3600) × 1000")
def usd_per_thousand_images(*, images_per_second: Number, usd_per_hour: Number) -> Decimal:
    """Return the price of a thousand images."""
    rate, price = positive(images_per_second=images_per_second, usd_per_hour=usd_per_hour)
    return price / (rate * _SECONDS) * 1_000


@figure(unit="images per USD", formula="images_per_second × 3600 ÷ usd_per_hour")
def images_per_usd(*, images_per_second: Number, usd_per_hour: Number) -> Decimal:
    """Return how many images a dollar buys."""
    rate, price = positive(images_per_second=images_per_second, usd_per_hour=usd_per_hour)
    return rate * _SECONDS / price


@figure(unit="audio hours per USD", formula="real_time_factor ÷ usd_per_hour")
def audio_hours_per_usd(*, real_time_factor: Number, usd_per_hour: Number) -> Decimal:
    """Return how many hours of audio a dollar transcribes.

    Args:
        real_time_factor: Seconds of audio a second of work, "× real time": larger is faster.
        usd_per_hour: Price of the GPU.
    """
    factor, price = positive(real_time_factor=real_time_factor, usd_per_hour=usd_per_hour)
    return factor / price


@figure(unit="USD per audio hour", formula="usd_per_hour ÷ real_time_factor")
def usd_per_audio_hour(*, real_time_factor: Number, usd_per_hour: Number) -> Decimal:
    """Return the price of transcribing an hour of audio: the inverse of `audio_hours_per_usd`."""
    factor, price = positive(real_time_factor=real_time_factor, usd_per_hour=usd_per_hour)
    return price / factor


@figure(unit="USD", formula="train_seconds × usd_per_hour ÷ 3600")
def training_cost_usd(*, train_seconds: Number, usd_per_hour: Number) -> Decimal:
    """Return the price of a training run's own time, without load and evaluation."""
    seconds, price = positive(train_seconds=train_seconds, usd_per_hour=usd_per_hour)
    return seconds * price / _SECONDS


@figure(
    unit="as run_day_value",
    formula="run_day_value × (today_usd_per_gpu_hour ÷ run_day_usd_per_gpu_hour) for money_per_work, "
    "run_day_value ÷ (today_usd_per_gpu_hour ÷ run_day_usd_per_gpu_hour) for work_per_money",
    choices={"per": get_args(Per)},
)
def today(
    *,
    run_day_value: Number,
    run_day_usd_per_gpu_hour: Number,
    today_usd_per_gpu_hour: Number,
    per: Per,
) -> Decimal:
    """Return a run day's figure at today's price.

    Args:
        run_day_value: Our own figure as computed, not rounded; a published one as printed.
        run_day_usd_per_gpu_hour: Price frozen with the run.
        today_usd_per_gpu_hour: Price in the newest snapshot.
        per: `money_per_work` (USD per image) grows with the price; `work_per_money` (images per USD) shrinks.
    """
    value, before, now = positive(
        run_day_value=run_day_value,
        run_day_usd_per_gpu_hour=run_day_usd_per_gpu_hour,
        today_usd_per_gpu_hour=today_usd_per_gpu_hour,
    )
    # One division, as the last step: a ratio of its own would be rounded before it is used.
    return value * now / before if per == "money_per_work" else value * before / now
