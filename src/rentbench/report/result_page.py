"""The page of one result: everything in its two documents, in the look of the other pages.

These pages are many, so they do not pass through `mkdocs`: it builds one empty page, the shell, and each
result's content is put into a copy of it.
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rentbench.core.documents import read_bytes, sha256_bytes
from rentbench.report.facts import container_facts, gpu_facts, host_facts, run_facts
from rentbench.report.load import read_again
from rentbench.report.reproduce import command_of
from rentbench.report.sparkline import HEIGHT, WIDTH, sparklines
from rentbench.report.tables import case_text, metric_of
from rentbench.report.text import shorten

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from jinja2 import Environment

    from rentbench.core.manifests import SuiteManifest
    from rentbench.report.export import Published
    from rentbench.report.model import Result, Sources
    from rentbench.report.site import Site

__all__ = ["CONTENT_MARK", "SHELL_PAGE", "TITLE_MARK", "Shell", "result_html"]

SHELL_PAGE = "results/shell.md"
TITLE_MARK = "rentbench-shell-title"
CONTENT_MARK = "rentbench-shell-content"
LOG_LINES = 200
_LOG_BYTES = 64 * 1024


@dataclass(frozen=True, kw_only=True)
class Shell:
    """A built page without content, cut where the content goes."""

    before: str
    after: str

    @classmethod
    def cut(cls, built: str) -> Shell:
        """Return the shell that a built shell page holds.

        Raises:
            ValueError: The page does not hold the mark exactly once: the theme changed it.
        """
        parts = built.split(f"<h1>{CONTENT_MARK}</h1>")
        if len(parts) != 2 or TITLE_MARK not in parts[0]:
            msg = "the theme changed the page that result pages are made from"
            raise ValueError(msg)
        return cls(before=parts[0], after=parts[1])

    def page(self, title: str, content: str) -> str:
        """Return a whole page.

        Args:
            title: Plain text.
            content: HTML.
        """
        return f"{self.before.replace(TITLE_MARK, html.escape(title, quote=True))}{content}{self.after}"


def result_html(
    result: Result, site: Site, templates: Environment, shell: Shell, published: Published
) -> str:
    """Return the page of a result.

    Args:
        result: Whose page.
        site: The rest of the content.
        templates: See `templating.environment`.
        shell: What stands around the content.
        published: Which artifacts lie beside the result's data.
    """
    measurement, run = read_again(result)
    suite = site.suites.get(result.suite)
    manifest = suite.manifest if suite else None
    suite_title = manifest.title if manifest else result.suite
    device = result.device.title if result.device else "no device"
    context: dict[str, Any] = {
        "site": site,
        "result": result,
        "manifest": manifest,
        "suite_title": suite_title,
        "device": device,
        "measurement": measurement,
        "run": run,
        "host": host_facts(measurement) if measurement else [],
        "gpus": [gpu_facts(measurement, index) for index in range(len(measurement["host"]["gpus"]))]
        if measurement
        else [],
        "driver": run_facts(run) if run else [],
        "container": container_facts(run) if run else [],
        "telemetry": _telemetry(measurement) if measurement else [],
        "metric_title": lambda item: (
            metric_of(item["metric"], manifest, item["unit"], item["direction"]).title
        ),
        "command": command_of(result, manifest),
        "published": published,
        "log": _log(result.sources.path) if "log.txt" in published.files else None,
        "tails": _log_tails(measurement, run, manifest),
        "documents": _documents(result.sources),
        "sparkline_width": WIDTH,
        "sparkline_height": HEIGHT,
        "root": "../",
    }
    context["sections"] = _sections(context)
    content = templates.get_template("result.html.j2").render(context)
    return shell.page(shorten(f"{suite_title} on {device}", 120), content)


def _sections(context: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return anchor and title of each section that the page has, in its order."""
    measurement, run = context["measurement"], context["run"]
    there = {
        "cases": bool(measurement and measurement["cases"]),
        "validity": bool(measurement),
        "telemetry": bool(measurement),
        "hardware": bool(measurement),
        "software": bool(measurement),
        "command": bool(measurement),
        "run": True,
        "reproduce": True,
        "logs": bool(context["tails"] or context["log"]),
        "unavailable": any(document and document["unavailable"] for document in (measurement, run)),
        "files": True,
    }
    titles = {"command": "Command and settings", "unavailable": "Not known"}
    return [(anchor, titles.get(anchor, anchor.capitalize())) for anchor, shown in there.items() if shown]


def _log_tails(
    measurement: dict[str, Any] | None, run: dict[str, Any] | None, manifest: SuiteManifest | None
) -> list[tuple[str, str]]:
    """Return whose log, and its end, for every error that kept one."""
    errors = [("The run", measurement["error"])] if measurement else []
    errors += [("The driver", run["error"])] if run else []
    cases = measurement["cases"] if measurement else []
    errors += [(case_text(case["parameters"], manifest), case["error"]) for case in cases]
    return [(whose, error["log_tail"]) for whose, error in errors if error and error["log_tail"]]


def _documents(sources: Sources) -> list[dict[str, Any]]:
    made = []
    for name in (sources.measurement, sources.run):
        if name is not None:
            raw = read_bytes(sources.path / name)
            made.append({"name": name, "size": len(raw), "sha256": sha256_bytes(raw), "text": raw.decode()})
    return made


def _telemetry(measurement: dict[str, Any]) -> list[dict[str, Any]]:
    telemetry = measurement["telemetry"]
    return [{"gpu": gpu, "lines": sparklines(gpu)} for gpu in telemetry["gpus"]] if telemetry else []


def _log(folder: Path) -> dict[str, Any]:
    with (folder / "log.txt").open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _LOG_BYTES))
        text = file.read().decode("utf-8", errors="replace")
    lines = text.splitlines()
    return {"text": "\n".join(lines[-LOG_LINES:]), "cut": size > _LOG_BYTES or len(lines) > LOG_LINES}
