"""The site's part in an `mkdocs` build: pages in before, result pages and data out after.

`report/hooks.py` names these to mkdocs, so `mkdocs build` alone gives the same site as `rentbench report
build`.
"""

from __future__ import annotations

import html
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File, Files, InclusionLevel

from rentbench.core.errors import UnusableInputError
from rentbench.core.ids import parse_time
from rentbench.report.draw import ChartCache
from rentbench.report.export import write_data, write_result_files
from rentbench.report.format import moment
from rentbench.report.load import read_again
from rentbench.report.pages import navigation, pages
from rentbench.report.result_page import CONTENT_MARK, SHELL_PAGE, TITLE_MARK, Shell, result_html
from rentbench.report.site import Site, build_time, read_site
from rentbench.report.templating import environment

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

__all__ = ["SETTINGS", "SiteHooks"]

SETTINGS = "rentbench"
"""Key under `extra` in mkdocs.yml: `results` (folder, relative to it) and `now` (build time, or empty)."""

_log = logging.getLogger("mkdocs.rentbench")
_SHELL = (
    f"---\ntitle: {TITLE_MARK}\ndescription: One result with everything that was recorded\n"
    f"hide: [navigation, toc]\nsearch: {{exclude: true}}\n---\n\n<h1>{CONTENT_MARK}</h1>\n"
)


class SiteHooks:
    """Event handlers of one build; mkdocs calls them in the order in which they stand here."""

    def __init__(self) -> None:
        self._site: Site | None = None
        self._shell: Shell | None = None

    def on_config(self, config: MkDocsConfig) -> MkDocsConfig:
        """Read the results; name the pages that will be made."""
        settings = config.extra.get(SETTINGS, {})
        site = settings.get("site") or _site(settings, Path(config.config_file_path).parent)
        # mkdocs dates its own files, such as the site map, by this.
        os.environ["SOURCE_DATE_EPOCH"] = str(int(parse_time(site.built).timestamp()))
        if "site" not in settings:  # who made the site tells what was left out of it
            for item in site.collection.rejected:
                _log.warning("left out: %s: %s", item.path, item.reason)
        config.nav = navigation(site)
        config.copyright = f"Built {moment(site.built)} by rentbench {site.version}"
        self._site, self._shell = site, None
        return config

    def on_files(self, files: Files, *, config: MkDocsConfig) -> Files:
        """Add the generated pages to the hand-written ones."""
        made = pages(self._content, environment(), ChartCache())
        for place, text in made.items():
            files.append(File.generated(config, place, content=text))
        shell = File.generated(config, SHELL_PAGE, content=_SHELL, inclusion=InclusionLevel.NOT_IN_NAV)
        files.append(shell)
        return files

    def on_post_page(self, output: str, *, page: Page, config: MkDocsConfig) -> str:
        """Keep the built shell for the result pages; mkdocs writes no file for an empty page."""
        del config
        if page.file.src_uri != SHELL_PAGE:
            return output
        self._shell = Shell.cut(output)
        return ""

    def on_post_build(self, *, config: MkDocsConfig) -> None:
        """Write the result pages and the data."""
        site, root = self._content, Path(config.site_dir)
        write_data(site, root / "data")
        if self._shell is None:
            msg = "mkdocs did not build the shell of the result pages"
            raise RuntimeError(msg)
        templates = environment()
        (root / "results").mkdir(exist_ok=True)
        for result in site.collection.results:
            try:
                measurement, _ = read_again(result)
                artifacts: list[dict[str, Any]] = measurement["artifacts"] if measurement else []
                published = write_result_files(result, artifacts, root / "data" / "results" / result.id)
                page = result_html(result, site, templates, self._shell, published)
            except UnusableInputError as error:  # one file that changed meanwhile is no reason for no site
                _log.warning("the page of result %s says only why it is empty: %s", result.id, error.message)
                page = self._shell.page(
                    f"Result {result.id}", f"<h1>Result</h1><p>No content: {html.escape(error.message)}.</p>"
                )
            (root / "results" / f"{result.id}.html").write_text(page, encoding="utf-8")

    @property
    def _content(self) -> Site:
        if self._site is None:
            msg = "mkdocs did not call on_config first"
            raise RuntimeError(msg)
        return self._site


def _site(settings: dict[str, Any], folder: Path) -> Site:
    results = folder / (settings.get("results") or "results")
    return read_site(results, build_time(settings.get("now") or None))
