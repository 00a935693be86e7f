"""What drivers left in an engine when they died: found by label, its results collected, then removed."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from docker.errors import NotFound

from rentbench.core.errors import ErrorKind, RentbenchError
from rentbench.driver.concluding import conclude
from rentbench.driver.containers import SuiteContainer
from rentbench.driver.engine import engine_errors, engine_time, find_image
from rentbench.driver.failures import Failure, exit_failure
from rentbench.driver.output import LineSplitter, Log
from rentbench.driver.owners import RUN_LABEL, Owner, owner_of
from rentbench.driver.records import RECORD_LABELS, RunRecord
from rentbench.driver.results import discard, find_run, prepare_results

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from docker.models.containers import Container

    from rentbench.driver.concluding import RunOutcome
    from rentbench.driver.engine import Engine

__all__ = ["Leftover", "Reaped", "find_leftovers", "reap"]

_GRACE = 20  # seconds from SIGTERM to SIGKILL


@dataclass(frozen=True, kw_only=True)
class Leftover:
    """What the engine holds of one run.

    Attributes:
        run_id: The run.
        name: What container and volume are called.
        labels: What they carry.
        owner: Whether the driver that made them still lives.
        container: None where only the volume is left.
    """

    run_id: str
    name: str
    labels: Mapping[str, str]
    owner: Owner
    container: Container | None


@dataclass(frozen=True, kw_only=True)
class Reaped:
    """What became of one leftover.

    Attributes:
        leftover: What it was.
        folder: Where the run's documents are; None where nothing was to be collected.
        problem: Why it is still there; None where it is gone.
    """

    leftover: Leftover
    folder: Path | None = None
    problem: str | None = None


def find_leftovers(engine: Engine) -> list[Leftover]:
    """Return everything in the engine that runs made, those under way included."""
    with engine_errors("looking for leftovers"):
        containers = engine.client.containers.list(
            all=True, filters={"label": RUN_LABEL}, ignore_removed=True
        )
        volumes = engine.client.volumes.list(filters={"label": RUN_LABEL})
    found = {
        str(container.name): _leftover(str(container.name), container.labels, container)
        for container in containers
    }
    for volume in volumes:
        name = str(volume.name)
        found.setdefault(name, _leftover(name, volume.attrs["Labels"], None))
    return [found[name] for name in sorted(found)]


def reap(engine: Engine, leftover: Leftover, *, results: Path | None, redact: Callable[[str], str]) -> Reaped:
    """Stop and remove what is left of a run, and keep what it measured.

    Args:
        engine: Where it is.
        leftover: What.
        results: Root of the results; None throws away what was measured.
        redact: Removes from a text what must not leave this machine.
    """
    folder = None
    try:
        if leftover.container is None:
            with engine_errors("removing the volume"), contextlib.suppress(NotFound):
                engine.client.volumes.get(leftover.name).remove(force=True)
            return Reaped(leftover=leftover)
        container = SuiteContainer(engine, leftover.container, leftover.name)
        if results is not None and container.inspect()["State"]["Status"] != "created":
            folder = _collect(engine, leftover, container, results, redact)
        container.remove()
    except RentbenchError as error:
        return Reaped(leftover=leftover, folder=folder, problem=error.message)
    return Reaped(leftover=leftover, folder=folder)


def _leftover(name: str, labels: Mapping[str, str], container: Container | None) -> Leftover:
    return Leftover(
        run_id=labels[RUN_LABEL], name=name, labels=labels, owner=owner_of(labels), container=container
    )


def _collect(
    engine: Engine,
    leftover: Leftover,
    container: SuiteContainer,
    results: Path,
    redact: Callable[[str], str],
) -> Path:
    """Return the folder of a run's documents; they are made where the driver died before it had."""
    missing = [label for label in RECORD_LABELS if label not in leftover.labels]
    if missing:
        msg = (
            f"which run it was is not said by its labels (no {missing[0]}): --discard removes it all the same"
        )
        raise RentbenchError(msg)
    failure = None
    if container.ending() is None:
        container.stop(_GRACE)
        message = "the driver of this run died; the container was found running, and stopped"
        failure = Failure(kind=ErrorKind.INTERRUPTED, message=message)
    concluded = find_run(results, leftover.labels["rentbench.suite"], leftover.run_id)
    return concluded or _rescue(engine, leftover, container, failure, results, redact).folder


def _rescue(
    engine: Engine,
    leftover: Leftover,
    container: SuiteContainer,
    failure: Failure | None,
    results: Path,
    redact: Callable[[str], str],
) -> RunOutcome:
    """Conclude the run of a driver that died, with what its labels and the engine still know."""
    labels, state = leftover.labels, container.inspect()["State"]
    record = RunRecord(
        id=leftover.run_id,
        suite=labels["rentbench.suite"],
        preset=labels["rentbench.preset"],
        reference=labels["rentbench.reference"],
        gpus=labels["rentbench.gpus"],
        host=engine.document(),
        image=find_image(engine, container.image_id),
    )
    record.mark("queued", labels["rentbench.queued"])
    record.mark("started", engine_time(state["StartedAt"]))
    record.mark("finished", engine_time(state["FinishedAt"]))
    log = Log()
    splitter = LineSplitter()
    for line in [*splitter.feed(container.last_output()), *splitter.close()]:
        log.add(line)
    failure = failure or exit_failure(
        int(state["ExitCode"]), oom_killed=bool(state["OOMKilled"]), tail=log.last(), memory_limit=None
    )
    incoming = prepare_results(results, record.id)
    try:
        return conclude(container, record, incoming, failure=failure, log=log, redact=redact)
    finally:
        discard(incoming)
