"""What a job costs where machines may be taken away, and when to save: `interruptions` by name.

Here every interruption comes unannounced and work is whole intervals; `interruptions` has the complete model.
"""

from __future__ import annotations

from decimal import Decimal

from rentbench.core.errors import UsageError
from rentbench.pricing import interruptions
from rentbench.pricing.figures import figure
from rentbench.pricing.numbers import Number, exact, positive

__all__ = ["best_checkpoint_seconds", "interruptible_cost_usd", "on_demand_cost_usd"]

_ENDLESS_HOURS = 1e9  # longer than anyone waits: a hundred thousand years


@figure(unit="USD", formula="work_hours × usd_per_hour")
def on_demand_cost_usd(*, work_hours: Number, usd_per_hour: Number) -> Decimal:
    """Return what a job costs on a machine that is never taken away."""
    hours, price = positive(work_hours=work_hours, usd_per_hour=usd_per_hour)
    return hours * price


@figure(
    unit="USD",
    formula="work_hours × 3600 ÷ interval_seconds × exp(interruptions_per_hour × restart_seconds ÷ 3600) × "
    "(exp(interruptions_per_hour × (interval_seconds + save_seconds) ÷ 3600) − 1) ÷ interruptions_per_hour × "
    "usd_per_hour",
)
def interruptible_cost_usd(
    *,
    work_hours: Number,
    interval_seconds: Number,
    save_seconds: Number,
    restart_seconds: Number,
    interruptions_per_hour: Number,
    usd_per_hour: Number,
) -> Decimal:
    """Return the mean cost of a job that is interrupted at random and begins again from its last save.

    Source: J. T. Daly, Future Generation Computer Systems 22(3), 2006, p. 303, the complete model.

    Args:
        work_hours: Undisturbed work that it needs.
        interval_seconds: Work between two saves.
        save_seconds: For how long a save stops the work.
        restart_seconds: From an interruption to the first step.
        interruptions_per_hour: Mean rate.
        usd_per_hour: Price of the interruptible machine.

    Raises:
        UsageError: The job cannot be expected to end.
    """
    hours, interval, save, restart, rate, price = positive(
        work_hours=work_hours,
        interval_seconds=interval_seconds,
        save_seconds=save_seconds,
        restart_seconds=restart_seconds,
        interruptions_per_hour=interruptions_per_hour,
        usd_per_hour=usd_per_hour,
    )
    job = interruptions.InterruptibleJob(
        work_hours=float(hours),
        interval_seconds=float(interval),
        save_seconds=float(save),
        restart_seconds=float(restart),
        interruptions_per_hour=float(rate),
    )
    expected = interruptions.expected_hours(job)
    if expected > _ENDLESS_HOURS:
        msg = "the job cannot be expected to end: it is interrupted before it gets from one save to the next"
        raise UsageError(msg, hint="save more often, or choose a machine that is interrupted less")
    return exact("expected hours", expected) * price


@figure(
    unit="s",
    formula="sqrt(2 × save_seconds × 3600 ÷ interruptions_per_hour) × "
    "(1 + sqrt(save_seconds × interruptions_per_hour ÷ 7200) ÷ 3 + "
    "save_seconds × interruptions_per_hour ÷ 7200 ÷ 9) − save_seconds",
)
def best_checkpoint_seconds(*, save_seconds: Number, interruptions_per_hour: Number) -> Decimal:
    """Return the best time to work between two saves, by Daly; M itself where a save takes 2 M or longer.

    M is the mean time between interruptions. Source: J. T. Daly, as above.
    """
    save, rate = positive(save_seconds=save_seconds, interruptions_per_hour=interruptions_per_hour)
    return Decimal(repr(interruptions.daly_interval_seconds(float(save), float(rate))))
