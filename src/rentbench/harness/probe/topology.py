"""How the GPUs are connected: `nvidia-smi topo -m`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rentbench.harness.tools import run_tool, without_escapes

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Topology", "TopologyError", "parse_topology", "read_topology", "summary"]

_LINK: Final = re.compile(r"X|NV[0-9]{1,2}|PIX|PXB|PHB|NODE|SYS|C2C")
_FORMER_NAMES: Final = {"SOC": "SYS"}  # up to driver 384
_MAX_GPUS: Final = 64

Matrix = list[list[str]]


class TopologyError(ValueError):
    """The text holds no matrix that can be read."""


@dataclass(frozen=True, kw_only=True)
class Topology:
    """The links, and what was printed.

    Attributes:
        matrix: GPU × GPU by the driver's numbers; None where it could not be read.
        problem: Why not.
        output: As printed, without the terminal's escape codes.
    """

    matrix: Matrix | None
    problem: str | None
    output: str


def parse_topology(output: str) -> Matrix:
    """Return the links between GPUs, `matrix[i][j]` from GPU i to GPU j; network cards are left out.

    Columns are separated by tabs or by spaces, the header may be underlined by escape codes, and rows end in
    other columns (CPU and NUMA affinity), some empty. The links come first and are never empty, so words can
    be counted.

    Raises:
        TopologyError: No matrix, or one that is not square, or a link of a name that is not known.
    """
    lines = [line.split() for line in without_escapes(output).splitlines()]
    start = next((index for index, words in enumerate(lines) if words[:1] == ["GPU0"]), len(lines))
    header = lines[start] if start < len(lines) else []
    columns = header[: header.index("CPU")] if "CPU" in header else header
    names = [name for name in columns if re.fullmatch(r"GPU\d+", name)]
    rows = {
        words[0]: words[1 : len(columns) + 1] for words in lines[start + 1 :] if words and words[0] in names
    }
    if not names or len(names) > _MAX_GPUS or list(rows) != names:
        said = next((" ".join(words) for words in lines if words), "nothing")
        msg = f"nvidia-smi topo -m printed no matrix of GPUs; it says: {said[:200]}"
        raise TopologyError(msg)
    return [_links(name, dict(zip(columns, rows[name], strict=False)), names) for name in names]


def _links(row: str, cells: dict[str, str], names: Sequence[str]) -> list[str]:
    links = [_FORMER_NAMES.get(cells.get(name, ""), cells.get(name, "")) for name in names]
    for name, link in zip(names, links, strict=True):
        if not _LINK.fullmatch(link) or (link == "X") != (name == row):
            msg = f"nvidia-smi topo -m names the link from {row} to {name} {link!r}"
            raise TopologyError(msg)
    return links


def summary(matrix: Matrix) -> str:
    """Return one word for all links: `single`, `NVLink`, `mixed`, or a link's own name (`PHB`)."""
    links = {link for row in matrix for link in row if link != "X"}
    if not links:
        return "single"
    kinds = {"NVLink" if link.startswith("NV") else link for link in links}
    return kinds.pop() if len(kinds) == 1 else "mixed"


def read_topology(*, timeout_seconds: float) -> Topology:
    """Ask nvidia-smi for the links; never raises."""
    answer = run_tool(["nvidia-smi", "topo", "-m"], timeout_seconds=timeout_seconds)
    output = without_escapes(answer.output)
    if answer.problem:
        return Topology(matrix=None, problem=answer.problem, output=output)
    try:
        return Topology(matrix=parse_topology(output), problem=None, output=output)
    except TopologyError as error:
        return Topology(matrix=None, problem=str(error), output=output)
