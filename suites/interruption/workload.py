"""What an interruption costs a training job: saves, uploads, lost work, restart. README.md is the method."""

from __future__ import annotations

import signal
import statistics
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from interruption_figures import Schedule, Timeline
from interruption_life import Life, LifeError
from interruption_places import checkpoint_places, s3_arguments
from interruption_trainer import Plan

from rentbench.core.errors import ErrorKind
from rentbench.harness.failures.classify import classify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rentbench.harness.context import Case, Context

_SIGNALS = {"SIGTERM": signal.SIGTERM, "SIGKILL": signal.SIGKILL}
_ENDLESS = 10**9

# Losses of an uninterrupted run, by size and step; the cases of a repeat share them.
_uninterrupted: dict[str, dict[int, str]] = {}


def prepare(context: Context) -> None:
    """Describe data and weights, and refuse settings that cannot work."""
    _uninterrupted.clear()
    context.describe(
        weights={"kind": "random", "repository": None, "revision": None},
        data={"kind": "synthetic", "name": "uniformly random tokens", "revision": None, "seed": context.seed},
    )
    try:
        s3_arguments(context.settings, prefix="")
    except ValueError as error:
        context.fail(ErrorKind.USAGE, str(error))


def run(case: Case, context: Context) -> None:
    """Interrupt one job, and measure."""
    if set(case) != {"size", "signal"}:
        context.fail(ErrorKind.USAGE, "a case has the parameters size and signal")
    size, name = str(case["size"]), str(case["signal"])
    schedule = Schedule.of(context.settings)
    with checkpoint_places(context, size) as places:
        plan = replace(_plan(size, context), **places, first_save=schedule.first_save)
        try:
            timeline = _interrupt(plan, name, schedule, context)
            _record(timeline, name, context)
            if context.repeat == 0:
                _compare_with_uninterrupted(timeline, plan, name, context)
        except LifeError as error:
            _fail(error, context)


def _interrupt(plan: Plan, name: str, schedule: Schedule, context: Context) -> Timeline:
    """Run a job, end it by the signal, start it again, and return what happened."""
    with context.phase("measure"), _lives(context) as live:
        first = live(replace(plan, last_step=_ENDLESS))
        first.until(lambda event: event["event"] == "step" and event["step"] >= schedule.kill)
        signalled = time.monotonic()
        code = first.end(_SIGNALS[name])
        if code != (0 if name == "SIGTERM" else -signal.SIGKILL):
            msg = f"after {name} the training process ended with exit code {code}"
            raise LifeError(msg, code=code, output=first.output())
        assert first.ended is not None  # noqa: S101  end() sees to it
        last = first.of("step")[-1]["step"] + int(context.settings["verified_steps"])
        second = live(replace(plan, last_step=last))
        second.until(lambda event: event["event"] == "step" and event["step"] == last)
        second.end()
    return Timeline(
        first=first.events,
        second=second.events,
        signalled=signalled,
        ended=first.ended,
        restarted=second.started,
        schedule=schedule,
    )


def _record(timeline: Timeline, name: str, context: Context) -> None:
    for metric, samples in (
        ("save_seconds", timeline.saves),
        ("first_save_seconds", timeline.first_saves),
        ("upload_seconds", timeline.uploads),
        ("step_seconds", timeline.baseline_steps),
    ):
        if samples:  # an upload may never have come to its end
            context.record(metric, statistics.median(samples), samples=samples)
    context.record("checkpoint_bytes", timeline.checkpoint_bytes)
    context.record("overhead", timeline.overhead_percent)
    context.record("step_slowdown", timeline.slowdown_percent)
    _check_restored(timeline, name, context)
    context.record("lost_seconds", timeline.lost_seconds)
    context.record("lost_steps", timeline.lost_steps)
    context.record("restore_seconds", timeline.restore_seconds)
    context.record("restart_seconds", timeline.restart_seconds)
    if name == "SIGTERM":
        context.record("stop_seconds", timeline.stop_seconds)
    if timeline.peak_bytes is not None:
        context.report_peak_memory(timeline.peak_bytes)
    _check(timeline, name, context)


def _check_restored(timeline: Timeline, name: str, context: Context) -> None:
    """The second process must go on from the last checkpoint that the first one finished."""
    wanted = [event for event in timeline.first if event["event"] == "saved"][-1]["step"]
    found = timeline.restored_step
    context.check(
        "last_checkpoint_restored",
        found == wanted,
        f"after {name} training went on from step {found}; the last complete checkpoint is of step {wanted}",
        severity="hard",
    )
    if found is None:
        context.fail(ErrorKind.WRONG_RESULT, "training began anew instead of going on from its checkpoint")


def _check(timeline: Timeline, name: str, context: Context) -> None:
    differing = timeline.contradicting()
    context.check(
        "repeated_losses_identical",
        not differing,
        f"after {name}: of {timeline.lost_steps} repeated steps, {len(differing)} had another loss",
        severity="hard",
        value=len(differing),
        limit=0,
        unit="count",
    )
    errors = timeline.upload_errors
    context.check(
        "uploads_complete",
        not errors and bool(timeline.uploads),
        f"{len(timeline.uploads)} uploads complete, {len(errors)} failed"
        + (f": {errors[-1]}" if errors else ""),
    )
    if name == "SIGTERM":
        grace = float(context.settings["grace_seconds"])
        context.check(
            "stopped_in_time",
            timeline.stop_seconds <= grace,
            f"the process ended {timeline.stop_seconds:.1f} s after SIGTERM; it had {grace:g} s",
            value=round(timeline.stop_seconds, 3),
            limit=grace,
            unit="s",
        )
        end = next(event for event in timeline.first if event["event"] == "ended")
        context.check(
            "last_checkpoint_uploaded",
            end["uploaded"] == end["saved"] == end["step"],
            f"stopped after step {end['step']}; saved is {end['saved']}, uploaded {end['uploaded']}",
        )


def _compare_with_uninterrupted(timeline: Timeline, plan: Plan, name: str, context: Context) -> None:
    """Run the same job without checkpoints and interruptions, unless an earlier case has, and compare."""
    needed = max(event["step"] for event in timeline.second if event["event"] == "step")
    losses = _uninterrupted.get(plan.size, {})
    if needed not in losses:
        with context.phase("evaluate"), _lives(context) as live:
            life = live(replace(_plan(plan.size, context), last_step=needed + plan.interval))
            life.end()
            losses = {event["step"]: event["loss"] for event in life.of("step")}
            if needed not in losses:
                msg = "the uninterrupted training process ended early"
                raise LifeError(msg, code=life.end(), output=life.output())
        _uninterrupted[plan.size] = losses
    differing = timeline.differing(losses)
    context.check(
        "losses_identical",
        not differing,
        f"{plan.size}, {name}: {len(differing)} of {needed} losses differ from those of an uninterrupted run"
        + (f", first at step {differing[0]}" if differing else ""),
        severity="hard",
        value=len(differing),
        limit=0,
        unit="count",
    )


def _plan(size: str, context: Context) -> Plan:
    return Plan(
        size=size,
        device=context.device,
        seed=context.seed,
        data_workers=int(context.settings["data_workers"]),
        last_step=_ENDLESS,
        interval=int(context.settings["interval_steps"]),
        grace_seconds=float(context.settings["grace_seconds"]),
    )


@contextmanager
def _lives(context: Context) -> Iterator[Callable[[Plan], Life]]:
    """Yield what starts a training process; at the end none is left, and the log has what they printed."""
    lives: list[Life] = []

    def live(plan: Plan) -> Life:
        log = context.scratch / f"trainer-{len(lives)}.log"
        log.unlink(missing_ok=True)
        lives.append(Life(plan, log, limit_seconds=float(context.settings["limit_seconds"])))
        return lives[-1]

    try:
        yield live
    finally:
        for life in lives:
            life.kill()
            context.log(life.output())


def _fail(error: LifeError, context: Context) -> NoReturn:
    """End the case with what the training process said about its end."""
    if error.code is None:
        context.fail(ErrorKind.TIMEOUT, error.message, "raise limit_seconds if the machine is only slow")
    told = classify(error.output, returncode=error.code)
    context.fail(
        told["kind"],
        f"{error.message}: {told['message']}",
        told["hint"],
        memory_allocated_bytes=told["memory_allocated_bytes"],
    )
