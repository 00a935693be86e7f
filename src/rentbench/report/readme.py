"""A suite's README as the method section of its page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["method"]

_HEADING = re.compile(r"^(#{1,4})\s+(.*)$")
_FENCE = re.compile(r"^\s*(```|~~~)")
_LOCAL_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?://|#)[^)]*\)")


def method(folder: Path) -> str:
    """Return a suite's README without its title, its headings one level lower, as Markdown.

    Links into the repository are shown as text: the page stands elsewhere. A suite without a README has no
    method text.

    Args:
        folder: The suite's.
    """
    path = folder / "README.md"
    if not path.is_file():
        return ""
    lines = []
    in_code = False
    for line in path.read_text(encoding="utf-8").splitlines():
        if _FENCE.match(line):
            in_code = not in_code
        heading = None if in_code else _HEADING.match(line)
        if heading and (heading[1] == "#" or heading[2].strip().lower() == "method"):
            continue  # the page has both already
        if heading:
            line = f"#{heading[1]} {heading[2]}"
        lines.append(line if in_code else _LOCAL_LINK.sub(r"\1", line))
    return "\n".join(lines).strip()
