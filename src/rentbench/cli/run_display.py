"""What `rentbench run` shows while suites run: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Self

from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.text import Text

from rentbench.cli.console import console, print_line
from rentbench.core.problems import printable

if TYPE_CHECKING:
    from types import TracebackType

    from rentbench.driver.output import Progress
    from rentbench.driver.watching import Stream

__all__ = ["Display"]

# Where the harness put its result inside the container; the driver tells where it is on this side.
_INSIDE = "result: /results/"


class Display:
    """Shows a run; a reader that goes away never stops one.

    Args:
        quiet_output: Do not pass the workload's standard output on, as with `--json`.
    """

    def __init__(self, *, quiet_output: bool = False) -> None:
        self._quiet_output = quiet_output
        errors = console(error=True)
        self._bars: Bars | None = None
        self._task: TaskID | None = None
        if errors.is_terminal and sys.stdout.isatty():
            self._bars = Bars(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=30),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=errors,
                transient=True,
            )

    def __enter__(self) -> Self:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def say(self, text: str) -> None:
        """Show something that the driver has to say."""
        self._show(text, error=True, style="dim")

    def line(self, stream: Stream, text: str) -> None:
        """Show a line of the workload's output."""
        if stream == "stderr":
            self._show(text, error=True)
        elif not self._quiet_output and not text.startswith(_INSIDE):
            self._show(text, error=False)

    def progress(self, progress: Progress) -> None:
        """Show how far the workload is."""
        if progress.text.startswith(_INSIDE):
            return
        if self._bars is None:
            self._show(f"[{progress.done}/{progress.total}] {progress.text}", error=True)
            return
        if self._task is None:
            self._task = self._bars.add_task("")
        description = printable(progress.text)[:60]
        self._bars.update(
            self._task, completed=progress.done, total=max(1, progress.total), description=description
        )

    def _show(self, text: str, *, error: bool, style: str = "") -> None:
        with contextlib.suppress(OSError, ValueError):
            if self._bars is not None:
                self._bars.console.print(Text(printable(text), style=style), soft_wrap=True)
            else:
                print_line(text, style=style, error=error)
