"""What interruptions cost a job, and how often it should save.

The model: the job needs a given time of undisturbed work and saves after each interval of it. Interruptions
come at random with a constant rate (a Poisson process) while it works, saves or restarts. A share of them is
announced in time for a last save; the others throw away what was done since the last one.

With μ the rate of unannounced interruptions, λ that of all, R the restart, g what an announced end takes, and
L the interval with its save, an interval takes on average

    K · (e^(μL) − 1) ÷ μ,  K = e^(λR) + λ·w·g,  w the announced share.

Where none is announced (w = 0, μ = λ) this is Daly's complete model. K follows from the mean restart time
(e^(λR) − 1) ÷ λ, as a restart that is interrupted begins anew, and from A' = μ(A − A(0)) − K for the time A
that is left at a point of the interval, with A(L) = 0. The tests compare it with a simulation.

Sources: J. W. Young, A first order approximation to the optimum checkpoint interval, Communications of the
ACM 17(9), 1974, p. 530. J. T. Daly, A higher order estimate of the optimum checkpoint interval for restart
dumps, Future Generation Computer Systems 22(3), 2006, p. 303.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

__all__ = [
    "InterruptibleJob",
    "daly_interval_seconds",
    "expected_cost",
    "expected_hours",
    "on_demand_cost",
    "young_interval_seconds",
]

_SECONDS = 3600.0


@dataclass(frozen=True, kw_only=True)
class InterruptibleJob:
    """A job on machines that may be taken away.

    Attributes:
        work_hours: Undisturbed work that it needs, without saves.
        interruptions_per_hour: Mean rate, 1 ÷ mean hours between interruptions.
        interval_seconds: Work between two saves. The end of the job is saved, too.
        save_seconds: For how long a save stops the work.
        restart_seconds: From an interruption to the first step, with the wait for another machine.
        announced_share: Share of the interruptions that leave time for a last save, 0 to 1.
        announced_seconds: From such an announcement to the end of the process.
        slowdown: Share by which work is slower because checkpoints are uploaded beside it.

    Raises:
        ValueError: A value is not finite, negative, or outside its range.
    """

    work_hours: float
    interruptions_per_hour: float
    interval_seconds: float
    save_seconds: float
    restart_seconds: float
    announced_share: float = 0.0
    announced_seconds: float = 0.0
    slowdown: float = 0.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not (math.isfinite(value) and value >= 0):
                msg = f"{name} is {value}; it must be a number that is not negative"
                raise ValueError(msg)
        if not self.interval_seconds:
            msg = "interval_seconds is 0; saves need work between them"
            raise ValueError(msg)
        if self.announced_share > 1:
            msg = f"announced_share is {self.announced_share}; it must be from 0 to 1"
            raise ValueError(msg)


def expected_hours(job: InterruptibleJob) -> float:
    """Return the mean hours from the start of the first work to the last save, interruptions included.

    Returns:
        Hours; infinite where the job cannot be expected to end (the exponent overflows).
    """
    work = job.work_hours * (1 + job.slowdown)
    interval, save = job.interval_seconds / _SECONDS, job.save_seconds / _SECONDS
    whole = math.floor(work / interval * (1 + 1e-12))  # 0.3 ÷ 0.1 is three whole intervals
    rest = max(0.0, work - whole * interval)
    hours = whole * _interval_hours(job, interval + save) if whole else 0.0  # 0 × infinity is no number
    if rest > 1e-9 * interval:
        hours += _interval_hours(job, rest + save)
    return hours


def expected_cost(job: InterruptibleJob, price_per_hour: float) -> float:
    """Return the mean cost of a job at the price of an interruptible machine, in the price's currency.

    All the time is paid, with that of saves, lost work and restarts. Where waiting for another machine costs
    nothing, leave it out of `restart_seconds`.
    """
    return expected_hours(job) * price_per_hour


def on_demand_cost(work_hours: float, price_per_hour: float) -> float:
    """Return the cost of the same work on a machine that is never taken away, without any saves."""
    return work_hours * price_per_hour


def young_interval_seconds(save_seconds: float, interruptions_per_hour: float) -> float:
    """Return Young's best interval √(2·δ·M), in seconds of work between saves.

    It is good as long as a save is far shorter than the mean time M between interruptions.

    Args:
        save_seconds: δ, for how long a save stops the work.
        interruptions_per_hour: 1 ÷ M. Of the unannounced ones: announced ones lose no work.

    Returns:
        Seconds; infinite where nothing interrupts.
    """
    if not interruptions_per_hour:
        return math.inf
    return math.sqrt(2 * save_seconds * _SECONDS / interruptions_per_hour)


def daly_interval_seconds(save_seconds: float, interruptions_per_hour: float) -> float:
    """Return Daly's best interval, which also holds where saves are long, in seconds of work between saves.

    √(2δM) · [1 + ⅓·√(δ ÷ 2M) + ⅑·(δ ÷ 2M)] − δ for δ < 2M, else M.

    Args:
        save_seconds: δ, for how long a save stops the work.
        interruptions_per_hour: 1 ÷ M. Of the unannounced ones: announced ones lose no work.

    Returns:
        Seconds; infinite where nothing interrupts.
    """
    if not interruptions_per_hour:
        return math.inf
    mean = _SECONDS / interruptions_per_hour
    if save_seconds >= 2 * mean:
        return mean
    ratio = save_seconds / (2 * mean)
    return math.sqrt(2 * save_seconds * mean) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - save_seconds


def _interval_hours(job: InterruptibleJob, hours: float) -> float:
    """Return the mean hours that an interval of so many undisturbed hours takes, with its save."""
    rate = job.interruptions_per_hour
    unannounced = rate * (1 - job.announced_share)
    try:
        pauses = math.exp(rate * job.restart_seconds / _SECONDS)
        pauses += rate * job.announced_share * job.announced_seconds / _SECONDS
        # As the rate goes to 0, this goes to the hours themselves; subnormal rates have too few digits.
        interrupted = unannounced >= sys.float_info.min
        return pauses * (math.expm1(unannounced * hours) / unannounced if interrupted else hours)
    except OverflowError:
        return math.inf
