"""The Jinja environment of all pages: escapes everything, and shows no control character of a result."""

from __future__ import annotations

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from rentbench.core.resources import resource
from rentbench.report import format as formats
from rentbench.report.compare import labels
from rentbench.report.facts import reason
from rentbench.report.headline import confidence, count
from rentbench.report.tables import case_text
from rentbench.report.text import clean

__all__ = ["environment", "kind_text", "markdown_text"]

_KINDS = {
    "oom": "out of GPU memory",
    "host_oom": "out of host memory",
    "no_gpu": "no GPU",
    "unsupported_arch": "GPU not supported",
    "unsupported_dtype": "number format not supported",
    "nccl_timeout": "NCCL timeout",
    "nccl_error": "NCCL error",
    "gpu_lost": "GPU lost",
    "gpu_busy": "GPU busy",
}


def environment() -> Environment:
    """Return the environment; templates come from `report/templates`, and an unknown name is an error."""
    made = Environment(
        loader=FileSystemLoader(resource("report", "templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_finalize,
    )
    made.globals.update(
        byte_count=formats.byte_count,
        case_text=case_text,
        confidence=confidence,
        count=count,
        day=formats.day,
        duration=formats.duration,
        interval=formats.interval,
        kind_text=kind_text,
        labels=labels,
        missing=formats.MISSING,
        moment=formats.moment,
        number=formats.number,
        quantity=formats.quantity,
        reason=reason,
        scalar=formats.scalar,
        unit_text=formats.unit_text,
    )
    made.filters["markdown_text"] = markdown_text
    made.filters["words"] = lambda name: str(name).replace("_", " ")
    return made


def kind_text(kind: str) -> str:
    """Return an error kind in words."""
    return _KINDS.get(kind, kind.replace("_", " "))


def markdown_text(text: str) -> Markup:
    """Return plain text for a place where Markdown is read: nothing in it is taken for markup."""
    line = " ".join(clean(text).split())
    # Entities are what both Markdown and HTML leave alone.
    return Markup("".join(c if c.isalnum() or c in " ," else f"&#{ord(c)};" for c in line))  # noqa: S704


def _finalize(value: object) -> object:
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value
