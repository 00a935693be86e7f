"""What no schema can say about a snapshot of prices: what belongs together, and each offer once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rentbench.core.errors import UnusableInputError
from rentbench.core.ids import parse_time
from rentbench.core.problems import Problem, pointer, show

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["price_problems"]


def price_problems(document: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what is wrong with a snapshot of prices that fits its schema."""
    try:
        parse_time(document["retrieved_at"])
    except UnusableInputError as error:
        yield Problem(pointer="/retrieved_at", message=f"is no real time: {error}")
    seen: dict[tuple[Any, ...], int] = {}
    for index, offer in enumerate(document["offers"]):
        yield from _offer_problems(offer, index)
        identity = tuple(offer[key] for key in ("provider", "offer", "region", "tier", "gpu_count", "tokens"))
        first = seen.setdefault(identity, index)
        if first != index:
            place = pointer("offers", index)
            yield Problem(pointer=place, message=f"is the offer that {pointer('offers', first)} is already")


def _offer_problems(offer: Mapping[str, Any], index: int) -> Iterator[Problem]:
    """Yield what contradicts the price's unit: a machine has GPUs, an API model has tokens."""
    is_model = offer["per"] == "1M-tokens"
    for key in ("gpu_count", "gpu_name"):
        if (offer[key] is None) is not is_model:
            yield Problem(
                pointer=pointer("offers", index, key),
                message=f"is {show(offer[key])}, for a price per {offer['per']}",
                allowed="null" if is_model else "what the machine has",
            )
    if (offer["tokens"] is None) is is_model:
        yield Problem(
            pointer=pointer("offers", index, "tokens"),
            message=f"is {show(offer['tokens'])}, for a price per {offer['per']}",
            allowed="input, output or total" if is_model else "null",
        )
