"""Running suites in containers on one engine: each run ends in a run document, whatever happens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rentbench.core.errors import ErrorKind, ExitCode
from rentbench.core.status import verdict
from rentbench.driver.concluding import RunOutcome, conclude
from rentbench.driver.containers import SuiteContainer
from rentbench.driver.failures import Failure, RunFailedError, exit_failure
from rentbench.driver.output import Log, Progress, read_progress
from rentbench.driver.owners import owner_labels
from rentbench.driver.records import RunRecord
from rentbench.driver.results import discard, prepare_results
from rentbench.driver.selection import get_image
from rentbench.driver.watching import Clocks, StopReason, Stream, Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rentbench.driver.engine import Engine
    from rentbench.driver.interrupts import Interrupts
    from rentbench.driver.options import ContainerOptions

__all__ = ["Listener", "RunPlan", "run_suite", "run_suites", "worst_exit"]

_PREFLIGHT = "preflight"


class Listener(Protocol):
    """Is told what happens, for a person to see."""

    def say(self, text: str) -> None:
        """Take something that the driver has to say."""

    def line(self, stream: Stream, text: str) -> None:
        """Take a line of the workload's output."""

    def progress(self, progress: Progress) -> None:
        """Take how far the workload is."""


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """One run to make.

    Attributes:
        suite: Public name of the suite.
        preset: The amount of work.
        arguments: What the harness is told besides suite and preset.
        image: Reference of the image.
        options: How the container is confined.
        clocks: When it is stopped.
        results: Root of the results.
        machine_gpus: GPUs of the machine; None where that is not known.
        keep: Leave container and volume where they are.
    """

    suite: str
    preset: str
    arguments: Sequence[str] = ()
    image: str
    options: ContainerOptions
    clocks: Clocks
    results: Path
    machine_gpus: int | None = None
    keep: bool = False


def worst_exit(codes: Sequence[ExitCode]) -> ExitCode:
    """Return the exit code of several runs: that of the worst."""
    order = (ExitCode.OK, ExitCode.SKIPPED, ExitCode.PARTIAL, ExitCode.FAILED, ExitCode.USAGE)
    return max(codes, key=order.index, default=ExitCode.OK)


def run_suites(
    engine: Engine,
    plans: Sequence[RunPlan],
    *,
    listener: Listener,
    interrupts: Interrupts,
    redact: Callable[[str], str],
    continue_on_fail: bool = False,
) -> list[RunOutcome]:
    """Run suites one after the other.

    A preflight that fails ends it, as the machine is not what was rented, or is not known to be; so does an
    interrupt.

    Args:
        engine: Where.
        plans: What.
        listener: Is told what happens.
        interrupts: What asks to stop.
        redact: Removes from a text what must not leave this machine.
        continue_on_fail: Go on after a preflight that fails.
    """
    outcomes = []
    for index, plan in enumerate(plans):
        outcome = run_suite(engine, plan, listener=listener, interrupts=interrupts, redact=redact)
        outcomes.append(outcome)
        left = ", ".join(later.suite for later in plans[index + 1 :])
        if left and interrupts.count:
            listener.say(f"interrupted; not run: {left}")
            break
        if left and _preflight_failed(plan, outcome) and not continue_on_fail:
            listener.say(f"preflight failed; not run: {left} (--continue-on-fail runs them all the same)")
            break
    return outcomes


def run_suite(
    engine: Engine,
    plan: RunPlan,
    *,
    listener: Listener,
    interrupts: Interrupts,
    redact: Callable[[str], str],
) -> RunOutcome:
    """Run one suite in a container, and leave its measurement and its run document in the results folder.

    Args:
        engine: Where.
        plan: What.
        listener: Is told what happens.
        interrupts: What asks to stop.
        redact: Removes from a text what must not leave this machine.

    Raises:
        RentbenchError: The results folder cannot be written; everything else is in the outcome.
    """
    record = RunRecord(
        suite=plan.suite,
        preset=plan.preset,
        reference=plan.image,
        gpus=plan.options.gpus,
        host=engine.document(),
        machine_gpus=plan.machine_gpus,
    )
    record.mark("queued")
    incoming = prepare_results(plan.results, record.id)
    log = Log()
    try:
        try:
            container = _create(engine, plan, record, listener, interrupts)
        except RunFailedError as error:
            return conclude(None, record, incoming, failure=error.failure, log=log, redact=redact)
        with container:
            failure = _watch(container, plan, record, log, listener, interrupts)
            outcome = conclude(container, record, incoming, failure=failure, log=log, redact=redact)
    finally:
        discard(incoming)
    if container.left_behind:
        listener.say(f"{container.left_behind}; rentbench reap removes it later")
    if plan.keep:
        listener.say(f"kept for a look: container and volume {container.name}")
    return outcome


def _create(
    engine: Engine, plan: RunPlan, record: RunRecord, listener: Listener, interrupts: Interrupts
) -> SuiteContainer:
    record.image = get_image(engine, plan.image, say=listener.say, interrupts=interrupts)
    record.mark("image_ready")
    if interrupts.count:
        message = "the run was interrupted before its container was made"
        raise RunFailedError(Failure(kind=ErrorKind.INTERRUPTED, message=message))
    return SuiteContainer.create(
        engine,
        name=f"rentbench-{plan.suite}-{record.id[-12:]}",
        image=str(record.image.id),
        command=[plan.suite, "--preset", plan.preset, *plan.arguments],
        options=plan.options,
        labels={**owner_labels(record.id), **record.labels()},
        keep=plan.keep,
    )


def _watch(
    container: SuiteContainer,
    plan: RunPlan,
    record: RunRecord,
    log: Log,
    listener: Listener,
    interrupts: Interrupts,
) -> Failure | None:
    """Run the container to its end, and return what went wrong around the workload."""

    def on_line(stream: Stream, line: str) -> None:
        progress = read_progress(line) if stream == "stderr" else None
        log.add(progress.text if progress else line)
        if progress:
            listener.progress(progress)
        else:
            listener.line(stream, line)

    watch = Watch(container, clocks=plan.clocks, interrupts=interrupts, on_line=on_line)
    record.mark("started")
    try:
        ending = watch.run()
    except RunFailedError as error:
        return error.failure
    finally:
        record.mark("finished")
    if watch.stop_reason is not None:
        return _stop_failure(watch.stop_reason, plan.clocks, log)
    return exit_failure(
        ending.exit_code,
        oom_killed=ending.oom_killed,
        tail=log.last(),
        memory_limit=plan.options.memory_bytes,
    )


def _stop_failure(reason: StopReason, clocks: Clocks, log: Log) -> Failure:
    kind, message, hint = {
        StopReason.WALL: (
            ErrorKind.TIMEOUT,
            f"the run took more than {clocks.wall:g} s and was stopped",
            "allow more: --timeout SECONDS",
        ),
        StopReason.IDLE: (
            ErrorKind.NO_OUTPUT,
            f"the workload said nothing for {clocks.idle:g} s and was stopped",
            "allow more: --idle-timeout SECONDS",
        ),
        StopReason.INTERRUPT: (ErrorKind.INTERRUPTED, "the run was interrupted from here", None),
    }[reason]
    return Failure(kind=kind, message=message, hint=hint, log_tail=log.last() or None)


def _preflight_failed(plan: RunPlan, outcome: RunOutcome) -> bool:
    """Say whether a run was a preflight that found faults, or could not look for them."""
    if plan.suite != _PREFLIGHT:
        return False
    if outcome.failure is not None or outcome.measurement is None or outcome.status in ("failed", "invalid"):
        return True
    return verdict(outcome.measurement.document["validity"]) == "fail"
