"""Runs of the harness as a process, on the fixture suites."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

REPOSITORY = Path(__file__).resolve().parents[2]
SUITES = REPOSITORY / "tests" / "fixtures" / "suites_root" / "suites"


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A run that has ended; `document` and `folder` are None where it left no valid result."""

    code: int
    stdout: str
    stderr: str
    folder: Path | None
    document: dict[str, Any] | None

    @property
    def cases(self) -> dict[str, dict[str, Any]]:
        assert self.document is not None
        return {case["parameters"]["which"]: case for case in self.document["cases"]}

    @property
    def checks(self) -> dict[str, dict[str, Any]]:
        assert self.document is not None
        return {check["name"]: check for check in self.document["validity"]}

    def text(self, name: str) -> str:
        assert self.folder is not None
        return (self.folder / name).read_text()


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "rentbench.harness", *arguments]


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    """Return the environment of a run that sees only the fixture suites."""
    root = tmp_path / "root"
    if not root.exists():
        root.mkdir()
        (root / "schema").symlink_to(REPOSITORY / "schema")
        (root / "suites").symlink_to(SUITES)
    temporary = tmp_path / "tmp"
    temporary.mkdir(exist_ok=True)
    return {
        **os.environ,
        "RENTBENCH_ROOT": str(root),
        "RENTBENCH_RESULTS": str(tmp_path / "results"),
        "TMPDIR": str(temporary),
        "PYTHONDONTWRITEBYTECODE": "1",
        **more,
    }


def run(tmp_path: Path, *arguments: str, prefix: Sequence[str] = (), **more: str) -> Finished:
    """Run the harness to its end; `prefix` is a program that starts it, such as unshare."""
    ended = subprocess.run(
        [*prefix, *command(*arguments)],
        env=environment(tmp_path, **more),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return collect(tmp_path, ended.returncode, ended.stdout, ended.stderr)


def smoke(tmp_path: Path, suite: str, how: str, *arguments: str, **more: str) -> Finished:
    """Run a suite's smoke preset on the CPU, with a way to behave."""
    return run(
        tmp_path, suite, "--preset", "smoke", "--device", "cpu", "--set", f"how={how}", *arguments, **more
    )


def collect(tmp_path: Path, code: int, stdout: str, stderr: str) -> Finished:
    """Return a run that has ended, with the result that it left."""
    folder = document = None
    found = list((tmp_path / "results").glob("*/*/*/measurement.json"))
    if found:
        (path,) = found
        folder, document = path.parent, json.loads(path.read_text())
    return Finished(code=code, stdout=stdout, stderr=stderr, folder=folder, document=document)
