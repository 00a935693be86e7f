"""Running a behaviour of the test image, and what was seen of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rentbench.driver.interrupts import Interrupts
from rentbench.driver.leftovers import find_leftovers
from rentbench.driver.options import ContainerOptions
from rentbench.driver.runs import RunPlan, run_suite
from rentbench.driver.watching import Clocks

if TYPE_CHECKING:
    from pathlib import Path

    from rentbench.driver.concluding import RunOutcome
    from rentbench.driver.engine import Engine
    from rentbench.driver.output import Progress

MEMORY = 256 * 1024**2


@dataclass
class Seen:
    """A listener that remembers; `on_line` may act on a line, as a user would."""

    said: list[str] = field(default_factory=list)
    output: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    progress_seen: list[Progress] = field(default_factory=list)
    on_line: Any = None

    def say(self, text: str) -> None:
        self.said.append(text)

    def line(self, stream: str, text: str) -> None:
        (self.output if stream == "stdout" else self.errors).append(text)
        if self.on_line is not None:
            self.on_line(text)

    def progress(self, progress: Progress) -> None:
        self.progress_seen.append(progress)


def plan(image: str, behaviour: str, results: Path, **changes: Any) -> RunPlan:
    """Return a plan for a behaviour; `options` and `clocks` take what differs from the defaults."""
    options = ContainerOptions(**{"memory_bytes": MEMORY, **changes.pop("options", {})})
    clocks = Clocks(**{"wall": 60.0, "idle": 30.0, "grace": 5.0, **changes.pop("clocks", {})})
    return RunPlan(
        **{
            "suite": behaviour,
            "preset": "smoke",
            "image": image,
            "options": options,
            "clocks": clocks,
            "results": results,
            **changes,
        }
    )


def execute(
    engine: Engine,
    image: str,
    behaviour: str,
    results: Path,
    *,
    seen: Seen | None = None,
    interrupts: Interrupts | None = None,
    **changes: Any,
) -> RunOutcome:
    """Run a behaviour, and check what holds however it ends: nothing is left in the engine or half-way."""
    outcome = run_suite(
        engine,
        plan(image, behaviour, results, **changes),
        listener=seen or Seen(),
        interrupts=interrupts or Interrupts(),
        redact=lambda text: text,
    )
    if not changes.get("keep"):
        assert outcome.run["id"] not in {leftover.run_id for leftover in find_leftovers(engine)}
    assert not list(results.glob(".incoming-*"))
    return outcome
