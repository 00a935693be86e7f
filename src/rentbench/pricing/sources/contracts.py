"""Prices of one's own: contracts, quotes, published figures, as a TOML or CSV file.

TOML: `source`, `retrieved_at`, and an array `offer` of tables. CSV: one offer a row; the columns `source`
    and `retrieved_at` say the same in every row. Unlike a provider's listing this is written by hand for
    this purpose, so whatever is wrong is an error with its place, and nothing is skipped.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rentbench.core.documents import read_toml
from rentbench.core.errors import InvalidDocumentError, UnusableInputError, UsageError
from rentbench.core.files import read_bytes
from rentbench.core.problems import listing
from rentbench.core.validation import check
from rentbench.pricing.numbers import exact, rounded
from rentbench.pricing.snapshots import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from decimal import Decimal
    from pathlib import Path

__all__ = ["ContractsSource"]

# Keys of an offer, as people write them, and what is meant where one is left out.
_DEFAULTS: dict[str, Any] = {
    "region": None,
    "tier": "on-demand",
    "currency": "USD",
    "gpu_count": None,
    "gpu_name": None,
    "gpu_memory_gb": None,
    "tokens": None,
    "stock": "not_told",
}
_REQUIRED = ("provider", "offer", "amount", "per")
_WHOLE, _FRACTIONS = ("gpu_count",), ("gpu_memory_gb",)


@dataclass(frozen=True, kw_only=True)
class ContractsSource:
    """Reads a file of one's own prices.

    Attributes:
        path: The file; `.toml` or `.csv`.
    """

    path: Path

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name

    def read(self) -> Iterable[Snapshot]:
        """Yield the one snapshot.

        Raises:
            UnusableInputError: The file cannot be read.
            InvalidDocumentError: An offer in it is wrong; the message has the place.
        """
        head, rows = _read_csv(self.path) if self.path.suffix.lower() == ".csv" else _read_toml(self.path)
        document = {
            "document": "prices",
            "schema_version": 1,
            "source_version": None,
            "refused": [],
            **head,
            "offers": [_offer(row, f"{self.path}, offer {number}") for number, row in enumerate(rows, 1)],
        }
        problems = check(document, "prices")
        if problems:
            msg = f"{self.path}: {listing(map(str, problems), limit=5)}"
            raise InvalidDocumentError(msg, hint="docs/prices.md describes the file")
        yield Snapshot.from_document(document)


def _read_toml(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    content = read_toml(path)
    rows = content.pop("offer", [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        msg = f"{path} has no array of tables called offer"
        raise InvalidDocumentError(msg, hint="begin each offer with [[offer]]")
    return content, rows


def _read_csv(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    try:
        text = read_bytes(path).decode("utf-8-sig")
        reader = csv.DictReader(io.StringIO(text), strict=True)
        reader.fieldnames = names = [name.strip() for name in reader.fieldnames or ()]
        rows = list(reader)
    except (UnicodeDecodeError, csv.Error) as error:
        msg = f"{path} cannot be read as CSV: {error}"
        raise UnusableInputError(msg, hint="write it as UTF-8, with commas and a row of names") from error
    if len(set(names)) < len(names) or not {"source", "retrieved_at"} <= set(names):
        msg = f"{path} has the columns {listing(names, limit=20) or 'none'}"
        raise InvalidDocumentError(msg, hint="name each column once, source and retrieved_at among them")
    head: dict[str, Any] = {}
    for key in ("source", "retrieved_at"):
        said = {(row.pop(key, None) or "").strip() for row in rows}
        if len(said) != 1 or "" in said:
            msg = f"{path} does not say one {key} in all of its rows"
            raise InvalidDocumentError(msg, hint=f"fill the column {key} with one value")
        head[key] = said.pop()
    return head, [_typed(row, f"{path}, offer {number}") for number, row in enumerate(rows, 1)]


def _typed(row: Mapping[str | None, Any], place: str) -> dict[str, Any]:
    """Return a row of texts with the types that they stand for; an empty cell is left out."""
    if None in row:
        msg = f"{place} has more cells than the first row has names"
        raise InvalidDocumentError(msg)
    cells = {str(key): (value or "").strip() for key, value in row.items()}
    typed: dict[str, Any] = {key: value for key, value in cells.items() if value}
    for key in (*_WHOLE, *_FRACTIONS):
        if key in typed:
            number = _number(key, typed[key], place)
            typed[key] = int(number) if number == int(number) else float(number)
    return typed


def _offer(row: Mapping[str, Any], place: str) -> dict[str, Any]:
    lacking = [key for key in _REQUIRED if key not in row]
    if lacking:
        msg = f"{place} lacks {listing(lacking)}"
        raise InvalidDocumentError(msg, hint=f"keys: {listing((*_REQUIRED, *_DEFAULTS), limit=40)}")
    amount = rounded(_number("amount", row["amount"], place), 6)
    return _DEFAULTS | dict(row) | {"amount": float(amount)}


def _number(key: str, value: object, place: str) -> Decimal:
    try:
        return exact(key, value)  # type: ignore[arg-type]
    except UsageError as error:
        msg = f"{place}: {error.message}"
        raise InvalidDocumentError(msg, hint=error.hint) from error
