"""Two measurements held against each other, as a document of kind `reproduction`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rentbench.core.comparability import barriers, remarks
from rentbench.core.equivalence import compare_family, overall
from rentbench.core.errors import InvalidDocumentError, UnusableInputError, UsageError
from rentbench.core.files import read_bytes, sha256_bytes
from rentbench.core.ids import new_id, utc_now
from rentbench.core.validation import check_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = ["DEFAULT_MARGIN_PERCENT", "Measured", "read_measured", "reproduction"]

DEFAULT_MARGIN_PERCENT = 10.0


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A valid measurement, and the hash of the file that it was read from."""

    document: Mapping[str, Any]
    sha256: str


def read_measured(path: Path) -> Measured:
    """Return the measurement in a file, or in a result's folder.

    Raises:
        UnusableInputError: It cannot be read.
        InvalidDocumentError: It is no valid measurement.
    """
    file = path / "measurement.json" if path.is_dir() else path
    raw = read_bytes(file)
    report = check_bytes(raw, source=str(file))
    if report.unusable is not None or report.document is None:
        raise UnusableInputError(report.unusable or f"{file} cannot be read")
    if report.kind not in (None, "measurement"):
        msg = f"{file} is a {report.kind} document, not a measurement"
        raise InvalidDocumentError(msg, hint="name a result's folder, or the measurement.json in it")
    if report.problems:
        msg = f"{file} is no valid measurement: {report.problems[0]}"
        raise InvalidDocumentError(msg, hint=f"all that is wrong: rentbench validate {file}")
    return Measured(document=report.document, sha256=sha256_bytes(raw))


def reproduction(
    original: Measured, repetition: Measured, *, margin_percent: float = DEFAULT_MARGIN_PERCENT
) -> dict[str, Any]:
    """Return what a repetition says of an original.

    Cases are held against the case with exactly the same parameters, so parameters that a suite keeps apart
    never mix. Metrics without a direction (clocks, counts) are facts about a run, not results, and are left
    out. What only one of the two measured is listed, and then the whole is not called reproduced.

    Args:
        original: The result in question.
        repetition: The result that it is held against.
        margin_percent: See `rentbench.core.equivalence`.

    Raises:
        UsageError: Both are the same result.
    """
    first, second = original.document, repetition.document
    if first["id"] == second["id"]:
        msg = f"both are the same result, {first['id']}"
        raise UsageError(msg)
    reasons = barriers(first, second)
    pairs, left_out = ([], []) if reasons else _pairs(first, second)
    comparisons = compare_family(
        [(pair["original"], pair["repetition"]) for pair in pairs], margin_percent=margin_percent
    )
    figures = [
        pair
        | {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(comparison).items()
        }
        for pair, comparison in zip(pairs, comparisons, strict=True)
    ]
    verdict = overall((one.finding for one in comparisons), complete=not left_out)
    return {
        "document": "reproduction",
        "schema_version": 1,
        "id": new_id(),
        "created": utc_now(),
        "original": _cited(original),
        "repetition": _cited(repetition),
        "margin_percent": margin_percent,
        "verdict": "not comparable" if reasons else verdict,
        "reasons": reasons,
        "remarks": remarks(first, second),
        "figures": figures,
        "left_out": left_out,
    }


def _cited(measured: Measured) -> dict[str, Any]:
    document = measured.document
    return {"id": document["id"], "sha256": measured.sha256, "started": document["started"]}


def _pairs(
    first: Mapping[str, Any], second: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the values of what both measured, and what only one of them did."""
    found, others = dict(_metrics(first)), dict(_metrics(second))
    pairs, left_out = [], []
    for key in found | others:
        one, other = found.get(key), others.get(key)
        named = one or other
        if named is None:
            continue
        parameters, measurement = named
        if one is None or other is None:
            missing = "original" if one is None else "repetition"
            reason = f"the {missing} has no value"
        elif [one[1][name] for name in ("unit", "direction")] != [
            other[1][name] for name in ("unit", "direction")
        ]:
            reason = "unit or direction differ"
        else:
            pair = {name: measurement[name] for name in ("metric", "unit", "direction")}
            values = {"original": one[1]["values"], "repetition": other[1]["values"]}
            pairs.append({"parameters": parameters} | pair | values)
            continue
        left_out.append({"parameters": parameters, "metric": measurement["metric"], "reason": reason})
    return pairs, left_out


def _metrics(document: Mapping[str, Any]) -> Iterator[tuple[str, tuple[dict[str, Any], dict[str, Any]]]]:
    """Yield the results of a measurement, by case and metric."""
    for case in document["cases"]:
        if case["status"] != "ok":
            continue
        for measurement in case["measurements"]:
            if measurement["direction"] != "none":
                key = json.dumps([case["parameters"], measurement["metric"]], sort_keys=True)
                yield key, (case["parameters"], measurement)
