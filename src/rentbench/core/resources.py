"""Where the files lie that the code reads: schemas, suites, images, templates.

In a checkout and in an image they lie two folders above the package; in an installed wheel, inside it.
"""

from __future__ import annotations

import os
from pathlib import Path

from rentbench.core.errors import UnusableInputError

__all__ = ["resource", "resources_root"]


def resources_root() -> Path:
    """Return the folder that holds `schema/`, `suites/`, and, outside images, `images/` and `report/`.

    `RENTBENCH_ROOT` overrides it, for a checkout beside an installed package.

    Raises:
        UnusableInputError: No such folder: the installation is broken, or the override is wrong.
    """
    override = os.environ.get("RENTBENCH_ROOT")
    package = Path(__file__).resolve().parents[1]
    candidates = [Path(override)] if override else [package / "_data", package.parents[1]]
    for candidate in candidates:
        if (candidate / "schema" / "measurement.schema.json").is_file():
            return candidate
    msg = f"no schemas found in {' or '.join(str(c) for c in candidates)}"
    hint = "RENTBENCH_ROOT must name a rentbench checkout" if override else "install rentbench again"
    raise UnusableInputError(msg, hint=hint)


def resource(*parts: str) -> Path:
    """Return the path of a file or folder below `resources_root()`, whether or not it is there."""
    return resources_root().joinpath(*parts)
