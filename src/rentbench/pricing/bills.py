"""Prices of GPUs and machines, converted here only, and the bill of a month."""

from __future__ import annotations

from decimal import ROUND_CEILING
from typing import TYPE_CHECKING

from rentbench.core.errors import UsageError
from rentbench.pricing.figures import figure
from rentbench.pricing.numbers import Number, not_negative, positive, whole

if TYPE_CHECKING:
    from decimal import Decimal

__all__ = [
    "egress_usd",
    "monthly_bill_usd",
    "rented_gpus",
    "share_usd_per_hour",
    "usd_per_gpu_hour",
    "usd_per_machine_hour",
]


@figure(unit="USD per GPU-hour", formula="usd_per_machine_hour ÷ gpus")
def usd_per_gpu_hour(*, usd_per_machine_hour: Number, gpus: Number) -> Decimal:
    """Return the price of one GPU of a machine that is sold whole.

    It is comparable with a price of a single GPU only where it is said that the machine has more.
    """
    (price,) = positive(usd_per_machine_hour=usd_per_machine_hour)
    (count,) = whole(gpus=gpus)
    return price / count


@figure(unit="USD per machine-hour", formula="usd_per_gpu_hour × gpus")
def usd_per_machine_hour(*, usd_per_gpu_hour: Number, gpus: Number) -> Decimal:
    """Return the price of a machine whose price is told per GPU: the least that can be paid there."""
    (price,) = positive(usd_per_gpu_hour=usd_per_gpu_hour)
    (count,) = whole(gpus=gpus)
    return price * count


@figure(unit="USD per hour", formula="usd_per_machine_hour × gpus_used ÷ gpus")
def share_usd_per_hour(*, usd_per_machine_hour: Number, gpus_used: Number, gpus: Number) -> Decimal:
    """Return the share of a machine's price of those of its GPUs that did the work.

    Raises:
        UsageError: More GPUs were used than the machine has, or a value cannot be used.
    """
    (price,) = positive(usd_per_machine_hour=usd_per_machine_hour)
    used, count = whole(gpus_used=gpus_used, gpus=gpus)
    if used > count:
        msg = f"gpus_used is {used}, of a machine with {count}"
        raise UsageError(msg, hint="gpus_used must be at most gpus")
    return price * used / count


@figure(unit="GPUs", formula="ceil(gpus_needed ÷ gpus_per_machine) × gpus_per_machine")
def rented_gpus(*, gpus_needed: Number, gpus_per_machine: Number) -> Decimal:
    """Return how many GPUs are paid for where only whole machines are sold."""
    needed, per_machine = whole(gpus_needed=gpus_needed, gpus_per_machine=gpus_per_machine)
    return (needed / per_machine).to_integral_value(ROUND_CEILING) * per_machine


@figure(unit="USD", formula="terabytes × usd_per_terabyte")
def egress_usd(*, terabytes: Number, usd_per_terabyte: Number) -> Decimal:
    """Return what moving data costs; a terabyte is 1e12 bytes. It is free at some providers."""
    amount, price = not_negative(terabytes=terabytes, usd_per_terabyte=usd_per_terabyte)
    return amount * price


@figure(unit="USD", formula="gpu_hours × usd_per_gpu_hour + egress_terabytes × usd_per_egress_terabyte")
def monthly_bill_usd(
    *,
    gpu_hours: Number,
    usd_per_gpu_hour: Number,
    egress_terabytes: Number = 0,
    usd_per_egress_terabyte: Number = 0,
) -> Decimal:
    """Return the bill for GPU-hours and the data that leaves with them; storage is not in it."""
    hours, price = positive(gpu_hours=gpu_hours, usd_per_gpu_hour=usd_per_gpu_hour)
    return hours * price + egress_usd(terabytes=egress_terabytes, usd_per_terabyte=usd_per_egress_terabyte)
