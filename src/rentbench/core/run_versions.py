"""Versions of a run document: `run.json`, and what completes it later, `run.2.json`, `run.3.json` and on.

No document is ever changed: a completion (a bill that came later) is a new file, which names the sha256 of
the one before in `replaces`. The last one of the chain is the one that holds.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from rentbench.core.errors import UnusableInputError
from rentbench.core.files import sha256_file
from rentbench.core.folder_rules import is_result_folder
from rentbench.core.problems import Problem, show

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = ["run_version", "version_problems"]

_NAME = re.compile(r"run(?:\.([2-9]|[1-9][0-9]{1,3}))?\.json")


def run_version(name: str) -> int | None:
    """Return which version of a run a file name stands for, from 1; None where it is no run's name."""
    match = _NAME.fullmatch(name)
    return None if match is None else int(match[1] or 1)


def version_problems(document: Mapping[str, Any], path: Path) -> Iterator[Problem]:
    """Yield where a run does not follow the version before it.

    Args:
        document: A run that fits its schema.
        path: Its file, the other versions beside it; one of another name is held to nothing.
    """
    version = run_version(path.name)
    if version is None:
        return
    if version == 1:
        if document["replaces"] is not None and is_result_folder(path.parent.resolve()):
            yield Problem(
                pointer="/replaces", message="is set, but run.json is the first version", allowed="null"
            )
        return
    before = path.with_name("run.json" if version == 2 else f"run.{version - 1}.json")
    if not os.path.lexists(before):
        yield Problem(pointer="/replaces", message=f"cannot hold: there is no {before.name} beside it")
        return
    try:
        digest = sha256_file(before)
    except UnusableInputError as error:
        yield Problem(pointer="/replaces", message=f"cannot be checked: {error}")
        return
    if document["replaces"] != digest:
        yield Problem(
            pointer="/replaces",
            message=f"is {show(document['replaces'])}, not the hash of {before.name}",
            allowed=digest,
        )
