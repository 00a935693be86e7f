"""The end of a run: the document is validated, written, and shown."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rentbench.core.documents import render_document
from rentbench.core.errors import DependencyMissingError, ExitCode, RentbenchError
from rentbench.core.gpus import gpu_folder
from rentbench.core.ids import folder_name
from rentbench.core.status import exit_code
from rentbench.core.validation import check as validate
from rentbench.harness.table import render_table

if TYPE_CHECKING:
    from rentbench.core.problems import Problem
    from rentbench.harness.arguments import Request
    from rentbench.harness.progress import Progress
    from rentbench.harness.results import ResultFolder

__all__ = ["deliver"]


def deliver(
    document: dict[str, Any], request: Request, results: ResultFolder, progress: Progress, out: TextIO
) -> int:
    """Write and show a document; what cannot be written goes to standard output, so that nothing is lost.

    Returns:
        The exit code that follows from the document; FAILED where it is not valid, and where it could not be
        written: a script that finds 0 must find the result, too.
    """
    progress.complete()
    problems = _validate(document, progress)
    place = Path(
        document["suite"]["name"],
        gpu_folder(document["host"]["gpus"]),
        folder_name(document["started"], document["id"]),
    )
    stored: Path | None = None
    try:
        if problems:
            stored = results.publish_invalid(document, problems, place)
        else:
            stored = results.publish(document, place)
    except RentbenchError as error:
        progress.say(f"NOT WRITTEN: {error.message}")
        progress.say(f"{error.hint}; the document goes to standard output")
    results.discard()
    with contextlib.suppress(OSError):  # nobody listens any more
        if not request.json:
            out.write(render_table(document))
        if request.json or stored is None:
            out.write(_render(document))
        elif stored is not None:
            out.write(f"result: {stored}\n")
        out.flush()
    if stored is not None:
        progress.say(f"result: {stored}")
    return ExitCode.FAILED if problems or stored is None else exit_code(document["status"])


def _validate(document: dict[str, Any], progress: Progress) -> list[Problem]:
    try:
        problems = validate(document, "measurement")
    except DependencyMissingError as error:
        progress.say(f"the document is not validated: {error.message}")
        return []
    if problems:
        progress.say("THE DOCUMENT IS NOT VALID, which is a fault of the harness; please report it with:")
        for problem in problems:
            progress.say(f"  {problem}")
    return problems


def _render(document: dict[str, Any]) -> str:
    """Return the document as text, also one that is no strict JSON: this is the last way out for it."""
    try:
        return render_document(document).decode()
    except RentbenchError:
        return json.dumps(document, default=str) + "\n"
