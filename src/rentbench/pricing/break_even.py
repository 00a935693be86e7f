"""A rented GPU against an API that bills by the token: two straight lines, and where they cross."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rentbench.pricing.figures import figure
from rentbench.pricing.numbers import Number, not_negative, positive

if TYPE_CHECKING:
    from decimal import Decimal

__all__ = ["api_cost_usd", "break_even_tokens", "fixed_cost_usd", "gpu_cost_usd"]


@figure(unit="USD", formula="(setup_seconds + load_seconds + shutdown_seconds) × usd_per_hour ÷ 3600")
def fixed_cost_usd(
    *, setup_seconds: Number, load_seconds: Number, shutdown_seconds: Number, usd_per_hour: Number
) -> Decimal:
    """Return what a rented GPU costs before and after its work, however much work there is.

    Args:
        setup_seconds: From billing's start until the software is there.
        load_seconds: Loading the model.
        shutdown_seconds: Until billing ends.
        usd_per_hour: Price of the GPU.
    """
    (price,) = positive(usd_per_hour=usd_per_hour)
    seconds = not_negative(
        setup_seconds=setup_seconds, load_seconds=load_seconds, shutdown_seconds=shutdown_seconds
    )
    return sum(seconds) * price / 3600


@figure(unit="USD", formula="fixed_usd + tokens × gpu_usd_per_million_tokens ÷ 1e6")
def gpu_cost_usd(*, tokens: Number, fixed_usd: Number, gpu_usd_per_million_tokens: Number) -> Decimal:
    """Return what a number of tokens costs on a rented GPU."""
    count, fixed = not_negative(tokens=tokens, fixed_usd=fixed_usd)
    (price,) = positive(gpu_usd_per_million_tokens=gpu_usd_per_million_tokens)
    return fixed + count * price / 1_000_000


@figure(unit="USD", formula="tokens × api_usd_per_million_tokens ÷ 1e6")
def api_cost_usd(*, tokens: Number, api_usd_per_million_tokens: Number) -> Decimal:
    """Return what a number of tokens costs at an API.

    Args:
        tokens: As the API counts them.
        api_usd_per_million_tokens: The list price, or the effective one: what was billed ÷ tokens.
    """
    (count,) = not_negative(tokens=tokens)
    (price,) = positive(api_usd_per_million_tokens=api_usd_per_million_tokens)
    return count * price / 1_000_000


@figure(
    unit="tokens",
    formula="fixed_usd ÷ (api_usd_per_million_tokens − gpu_usd_per_million_tokens) × 1e6",
    none_means="a token on the GPU costs no less than at the API, so the GPU never catches up",
)
def break_even_tokens(
    *, fixed_usd: Number, gpu_usd_per_million_tokens: Number, api_usd_per_million_tokens: Number
) -> Decimal | None:
    """Return the number of tokens from which on a rented GPU is cheaper than an API; None where it never is.

    Args:
        fixed_usd: What the GPU costs before the first token and after the last (`fixed_cost_usd`).
        gpu_usd_per_million_tokens: What a million tokens cost while it works.
        api_usd_per_million_tokens: The API's list price or effective price; the figure's title says which.
    """
    fixed, gpu, api = positive(
        fixed_usd=fixed_usd,
        gpu_usd_per_million_tokens=gpu_usd_per_million_tokens,
        api_usd_per_million_tokens=api_usd_per_million_tokens,
    )
    return fixed / (api - gpu) * 1_000_000 if api > gpu else None
