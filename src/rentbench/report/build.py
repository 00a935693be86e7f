"""Building the site with one call; the folder it replaces is only touched once the new one is whole."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson

from rentbench.core.errors import InvalidDocumentError, RentbenchError, UsageError
from rentbench.core.resources import resource
from rentbench.report.site import build_time, read_site

# Material for MkDocs prints an appeal at import unless this is set before.
os.environ.setdefault("NO_MKDOCS_2_WARNING", "1")

from typing import TYPE_CHECKING

from mkdocs.commands.build import build as mkdocs_build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort, ConfigurationError

from rentbench.report.hooks import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rentbench.report.model import Rejected

__all__ = ["Built", "build"]

_MARK = Path("data") / "index.json"


@dataclass(frozen=True, kw_only=True)
class Built:
    """What a build made.

    Attributes:
        output: The site's folder.
        results: Number of results on it.
        rejected: Files that were left out.
        warnings: What mkdocs and this package warned of while building.
    """

    output: Path
    results: int
    rejected: tuple[Rejected, ...]
    warnings: tuple[str, ...]


def build(results: Path, output: Path, *, strict: bool = False, now: str | None = None) -> Built:
    """Build the site.

    Args:
        results: Folder of results; one that is not there gives a site that says so.
        output: The site's folder: new, empty, or a site that was built before.
        strict: Refuse to build when a file has to be left out, or mkdocs warns of anything.
        now: The moment that the site names as its own, RFC 3339; see `build_time`.

    Raises:
        InvalidDocumentError: `strict`, and a file was refused.
        RentbenchError: The build failed; the old site, if any, is untouched.
        UsageError: `output` holds something else than a site, or `now` is no time.
    """
    output = output.absolute()  # mkdocs takes relative folders from where mkdocs.yml lies
    _check_output(output)
    site = read_site(results, build_time(now))
    rejected = site.collection.rejected
    if strict and rejected:
        listed = "\n".join(f"{item.path}: {item.reason}" for item in rejected)
        msg = f"the site was not built: {len(rejected)} of the files in {results} cannot be used\n{listed}"
        raise InvalidDocumentError(
            msg, hint="rentbench validate names every fault; without --strict they are left out"
        )
    output.parent.mkdir(parents=True, exist_ok=True)
    with _beside(output) as fresh, _kept_epoch(), _warnings() as warnings:
        try:
            config = load_config(str(resource("mkdocs.yml")), site_dir=str(fresh), strict=strict)
            config.extra[SETTINGS] = {"site": site}
            config.plugins.on_startup(command="build", dirty=False)
            try:
                mkdocs_build(config)
            finally:
                config.plugins.on_shutdown()
        except (Abort, ConfigurationError) as error:
            msg = "\n".join([f"the site was not built: {error}", *warnings])
            raise RentbenchError(msg, hint="the warnings name the page" if warnings else None) from error
        _replace(output, fresh)
    return Built(
        output=output, results=len(site.collection.results), rejected=rejected, warnings=tuple(warnings)
    )


def _check_output(output: Path) -> None:
    if not output.exists():
        return
    if not output.is_dir():
        msg = f"{output} is not a folder"
        raise UsageError(msg, hint="name another one with --output")
    if any(output.iterdir()) and not _is_ours(output):
        msg = f"{output} holds something else than a site built by rentbench, and building would delete it"
        raise UsageError(msg, hint="name an empty folder, or a new one, with --output")


def _is_ours(folder: Path) -> bool:
    """Say whether a folder is a site that was built here before: its index names rentbench as its maker."""
    try:
        content = orjson.loads((folder / _MARK).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return False
    return isinstance(content, dict) and str(content.get("generator")).startswith("rentbench ")


@contextmanager
def _beside(output: Path) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=f".{output.name}-", dir=output.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _warnings() -> Iterator[list[str]]:
    """Collect what mkdocs warns of; without a handler of its own it would speak to nobody."""
    collected: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: collected.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("mkdocs")
    logger.addHandler(handler)
    try:
        yield collected
    finally:
        logger.removeHandler(handler)


@contextmanager
def _kept_epoch() -> Iterator[None]:
    """Undo what the build sets for mkdocs: a later build in this process has a time of its own."""
    before = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("SOURCE_DATE_EPOCH", None)
        else:
            os.environ["SOURCE_DATE_EPOCH"] = before


def _replace(output: Path, fresh: Path) -> None:
    # mkdtemp makes folders that only their owner can read; a web server is somebody else.
    fresh.chmod(0o755)
    if not output.exists():
        fresh.rename(output)
        return
    old = fresh.with_name(f"{fresh.name}-old")
    output.rename(old)
    try:
        fresh.rename(output)
    except OSError:
        old.rename(output)
        raise
    shutil.rmtree(old, ignore_errors=True)
