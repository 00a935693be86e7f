"""The folder of a result: filled under a temporary name, synced, and named when it is complete."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rentbench.core.documents import sha256_file, write_document
from rentbench.core.errors import RentbenchError
from rentbench.core.files import sync_folder
from rentbench.harness.privacy import redact

if TYPE_CHECKING:
    from rentbench.core.problems import Problem

__all__ = ["ResultFolder"]

LOG = "log.txt"
SAMPLES = "samples.jsonl"
TELEMETRY = "telemetry.jsonl"


class ResultFolder:
    """Where one run writes.

    Until it is complete its name is `.rentbench-<id>`; a run that was killed leaves that behind, and it may
    be deleted. A root that cannot be written costs the folder, never the run.

    Attributes:
        folder: Where files go now.
        problem: Why the root cannot be written; None when it can.

    Args:
        root: Of all results.
        identifier: The measurement's.
    """

    def __init__(self, root: Path, identifier: str) -> None:
        self.problem: str | None = None
        self.folder = root / f".rentbench-{identifier}"
        self._root = root
        self._described: dict[str, str] = {}
        try:
            self.folder.mkdir(parents=True)
        except OSError as error:
            self.problem = f"{root} cannot be written: {error.strerror or error}"
            # Where there is no place for temporary files either, every later write fails and is told.
            with contextlib.suppress(OSError):
                self.folder = Path(tempfile.mkdtemp(prefix="rentbench-result-"))

    def expect(self, name: str, description: str) -> Path:
        """Return where to write an artifact that grows while the run lasts."""
        self._described[name] = description
        return self.folder / name

    def add(self, name: str, data: bytes, description: str) -> None:
        """Keep an artifact; text is redacted. A name that is taken gets a number.

        Raises:
            OSError: It cannot be written.
        """
        with contextlib.suppress(UnicodeDecodeError):
            data = redact(data.decode()).encode()
        stem, dot, ending = name.partition(".")
        number = 1
        while name.lower() in {"measurement.json", "run.json", *map(str.lower, self._described)}:
            number += 1
            name = f"{stem}-{number}{dot}{ending}"
        (self.folder / name).write_bytes(data)
        self._described[name] = description

    def artifacts(self) -> list[dict[str, Any]]:
        """Return the artifacts as the schema holds them; those that are not there are left out."""
        found = []
        for name, description in self._described.items():
            path = self.folder / name
            with contextlib.suppress(OSError):
                size = path.stat().st_size
                entry = {"name": name, "sha256": sha256_file(path), "bytes": size, "description": description}
                found.append(entry)
        return found

    def publish(self, document: dict[str, Any], place: Path) -> Path:
        """Write the document, give the folder its name, and return its path.

        Args:
            document: A valid one.
            place: Path below the root.

        Raises:
            RentbenchError: It cannot be written.
        """
        return self._publish(document, place, "measurement.json")

    def publish_invalid(self, document: dict[str, Any], problems: list[Problem], place: Path) -> Path:
        """Keep what was measured although the document breaks its own schema, as `measurement.invalid.json`.

        Args:
            document: It need only be JSON.
            problems: What is wrong with it; they go beside it.
            place: Path below the root.

        Raises:
            RentbenchError: It cannot be written.
        """
        with contextlib.suppress(OSError):
            (self.folder / "problems.txt").write_text("".join(f"{problem}\n" for problem in problems))
        return self._publish(document, place, "measurement.invalid.json")

    def discard(self) -> None:
        """Remove a folder that never got its place because the root cannot be written."""
        if self.problem is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _publish(self, document: dict[str, Any], place: Path, name: str) -> Path:
        if self.problem is not None:
            hint = (
                'name another with --results, or make it yours (in a container: --user "$(id -u):$(id -g)")'
            )
            raise RentbenchError(self.problem, hint=hint)
        final = self._root / place
        try:
            for path in self.folder.iterdir():
                _sync(path)
            write_document(self.folder / name, document)  # synced by itself, and its folder with it
            final.parent.mkdir(parents=True, exist_ok=True)
            self.folder.rename(final)
            for folder in (final.parent, *final.parent.parents):
                sync_folder(folder)  # it may be new, too
                if folder == self._root:
                    break
        except OSError as error:
            msg = f"{final} cannot be made: {error.strerror or error}"
            raise RentbenchError(msg, hint=f"the result lies in {self.folder}") from error
        self.folder = final
        return final


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
