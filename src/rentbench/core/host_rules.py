"""Rules of the host, of telemetry, and of what is not available: each null is explained, lengths agree."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from rentbench.core.problems import Problem, listing, pointer, show

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["host_problems", "telemetry_problems", "unavailable_problems"]

_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")  # RFC 6901: no leading zeros, so that a place has one pointer


def host_problems(document: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what is wrong with a measurement document's host, beyond its schema."""
    host = document["host"]
    explained = {entry["path"] for entry in document["unavailable"]}
    for place in _nulls(host, ("host",)):
        around = [pointer(*place[:length]) for length in range(1, len(place) + 1)]
        if explained.isdisjoint(around):
            yield Problem(
                pointer=pointer(*place),
                message="is null without a reason",
                allowed="an entry in /unavailable",
            )
    yield from _gpu_problems(host["gpus"])
    if host["topology"] is not None:
        yield from _topology_problems(host["topology"], len(host["gpus"]))


def telemetry_problems(document: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what is wrong with a measurement document's telemetry, beyond its schema."""
    telemetry = document["telemetry"]
    if telemetry is None:
        return
    if len(telemetry["gpus"]) != len(document["host"]["gpus"]):
        yield Problem(
            pointer="/telemetry/gpus",
            message=f"are {len(telemetry['gpus'])} of {len(document['host']['gpus'])} GPUs",
            allowed="one entry of each of host.gpus",
        )
    for index, gpu in enumerate(telemetry["gpus"]):
        place = ("telemetry", "gpus", index)
        offsets = gpu["offsets_seconds"]
        if any(later < earlier for earlier, later in pairwise(offsets)):
            yield Problem(pointer=pointer(*place, "offsets_seconds"), message="go back in time")
        for name, series in gpu["series"].items():
            if len(series) != len(offsets):
                yield Problem(
                    pointer=pointer(*place, "series", name),
                    message=f"has {len(series)} readings",
                    allowed=f"{len(offsets)}, as offsets_seconds",
                )
        yield from _summary_problems(gpu, place)


def unavailable_problems(document: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield where a document explains the lack of something that is not lacking."""
    seen: set[str] = set()
    for index, entry in enumerate(document["unavailable"]):
        place = pointer("unavailable", index, "path")
        if entry["path"] in seen:
            yield Problem(pointer=place, message=f"is {show(entry['path'])} a second time")
            continue
        seen.add(entry["path"])
        found, value = _follow(document, entry["path"])
        if not found:
            yield Problem(
                pointer=place, message=f"is {show(entry['path'])}, which the document does not have"
            )
        elif value is not None and next(_nulls(value, ()), None) is None:
            yield Problem(
                pointer=place,
                message=f"is {show(entry['path'])}, where nothing is null",
                allowed="the pointer to a null, or to what is around it",
            )


def _nulls(value: object, place: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    """Yield the places of all nulls; documents are nested no deeper than their schema is."""
    if value is None:
        yield place
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _nulls(inner, (*place, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _nulls(inner, (*place, index))


def _follow(document: object, path: str) -> tuple[bool, object]:
    value = document
    for part in path.split("/")[1:]:
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and _INDEX.fullmatch(part) and int(part) < len(value):
            value = value[int(part)]
        else:
            return False, None
    return True, value


def _gpu_problems(gpus: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    hashes: set[str] = set()
    for index, gpu in enumerate(gpus):
        if gpu["uuid_hash"] is not None and gpu["uuid_hash"] in hashes:
            yield Problem(pointer=pointer("host", "gpus", index, "uuid_hash"), message="is another GPU's too")
        hashes.add(gpu["uuid_hash"])
        total, usable = gpu["memory_total_bytes"], gpu["memory_usable_bytes"]
        if total is not None and usable is not None and usable > total:
            yield Problem(
                pointer=pointer("host", "gpus", index, "memory_usable_bytes"),
                message=f"is {usable}",
                allowed=f"at most the total, {total}",
            )


def _topology_problems(topology: Mapping[str, Any], count: int) -> Iterator[Problem]:
    matrix = topology["matrix"]
    if len(matrix) != count or any(len(row) != count for row in matrix):
        yield Problem(
            pointer="/host/topology/matrix",
            message="has another size than host.gpus",
            allowed=f"{count} × {count}",
        )
    elif any(
        (link == "X") != (row == column)
        for row, links in enumerate(matrix)
        for column, link in enumerate(links)
    ):
        yield Problem(
            pointer="/host/topology/matrix",
            message="links a GPU to itself",
            allowed="X on the diagonal and only there",
        )
    if (topology["summary"] == "single") != (count == 1):
        yield Problem(
            pointer="/host/topology/summary",
            message=f"is {show(topology['summary'])} of {count} GPUs",
            allowed="single of one GPU, and only then",
        )


def _summary_problems(gpu: Mapping[str, Any], place: tuple[str | int, ...]) -> Iterator[Problem]:
    series = gpu["series"]
    for name, summary in gpu["summary"].items():
        here = (*place, "summary", name)
        if name not in series:
            yield Problem(pointer=pointer(*here), message="summarises no series", allowed=listing(series))
            continue
        measured = any(reading is not None for reading in series[name])
        if (summary is not None) != measured:
            what = "is null, but there are readings" if measured else "sums up readings that are not there"
            yield Problem(pointer=pointer(*here), message=what)
        elif summary is not None and not summary["min"] <= summary["mean"] <= summary["max"]:
            yield Problem(pointer=pointer(*here), message="is out of order", allowed="min ≤ mean ≤ max")
