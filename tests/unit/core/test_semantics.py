"""Every rule beyond the schema: one change breaks it, and the place that is wrong is named."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from rentbench.core.manifests import SuiteManifest, read_suite
from rentbench.core.semantics import measurement_problems
from rentbench.core.validation import check
from support.results import at, example, write_root

Document = dict[str, Any]
CPU = example("measurement", "smoke-on-cpu")
GPU = example("measurement", "partial-on-one-gpu")
SKIPPED = example("measurement", "skipped-for-too-few-gpus")
FAILED = example("measurement", "failed-before-any-case")
RUN = example("run", "rented")
NO_MEASUREMENT = example("run", "failed-without-measurement")
ERROR = at(GPU, "/cases/1/error")
CASE = "/cases/0"
VALUES = "/cases/0/measurements/0"
TELEMETRY = "/telemetry/gpus/0"


def put(*changes: tuple[str, Any]) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        for pointer, value in changes:
            around, _, last = pointer.rpartition("/")
            container = at(document, around)
            container[int(last) if isinstance(container, list) else last] = copy.deepcopy(value)

    return change


def repeat_gpu(document: Document) -> None:
    document["host"]["gpus"] *= 2
    document["host"]["topology"] = {"matrix": [["X", "NV18"], ["NV18", "X"]], "summary": "NVLink"}
    document["telemetry"]["gpus"] *= 2
    document["unavailable"].append({"path": "/host/gpus/1", "reason": "as the first"})


def failed_check(severity: str) -> Callable[[Document], None]:
    return put(("/validity/0/outcome", "failed"), ("/validity/0/severity", severity))


# What is changed, in which document, and which places must be named; nothing else may be.
BROKEN: dict[str, tuple[Document, Callable[[Document], None], set[str]]] = {
    "finished before it started": (CPU, put(("/finished", "2026-11-30T22:04:00Z")), {"/finished"}),
    "no such hour": (CPU, put(("/started", "2026-11-30T25:00:00Z")), {"/started"}),
    "telemetry after the end": (GPU, put(("/telemetry/started", "2026-12-01T00:00:00Z")), {"/finished"}),
    "ok, but a case failed": (GPU, put(("/status", "ok")), {"/status"}),
    "ok, but cut short": (CPU, put(("/error", ERROR)), {"/status"}),
    "ok, but a hard check failed": (CPU, failed_check("hard"), {"/status"}),
    "failed without an error": (FAILED, put(("/error", None)), {"/error"}),
    "skipped, but nothing was": (CPU, put(("/status", "skipped")), {"/status"}),
    "failed case without an error": (GPU, put(("/cases/1/error", None)), {"/cases/1/error"}),
    "ok case with an error": (CPU, put((f"{CASE}/error", ERROR)), {f"{CASE}/error"}),
    "skipped case without a reason": (CPU, put(("/cases/1/reason", "")), {"/cases/1/reason"}),
    "skipped case with values": (
        CPU,
        put(("/cases/1/measurements", at(CPU, f"{CASE}/measurements"))),
        {"/cases/1/measurements"},
    ),
    "invalid case without a reason": (
        GPU,
        put(("/cases/1/status", "invalid"), ("/cases/1/error", None)),
        {"/cases/1/reason"},
    ),
    "the same case twice": (
        CPU,
        put(("/cases/1/parameters", {"size": 256, "dtype": "fp32"})),
        {"/cases/1/parameters"},
    ),
    "the same metric twice": (
        CPU,
        put((f"{CASE}/measurements", at(CPU, f"{CASE}/measurements") * 2)),
        {f"{CASE}/measurements/1/metric"},
    ),
    "unknown unit": (CPU, put((f"{VALUES}/unit", "GFLOPs")), {f"{VALUES}/unit"}),
    "unknown unit of samples": (CPU, put((f"{VALUES}/samples/unit", "msec")), {f"{VALUES}/samples/unit"}),
    "unknown unit of a check": (CPU, put(("/validity/0/unit", "per mille")), {"/validity/0/unit"}),
    "n of other values": (CPU, put((f"{VALUES}/n", 2)), {f"{VALUES}/n"}),
    "median of other values": (CPU, put((f"{VALUES}/median", 0.0631)), {f"{VALUES}/median"}),
    "mean off by a millionth": (CPU, put((f"{VALUES}/mean", 0.063 * 1.000001)), {f"{VALUES}/mean"}),
    "no spread of three": (CPU, put((f"{VALUES}/stdev", None)), {f"{VALUES}/stdev"}),
    "no interval of three": (CPU, put((f"{VALUES}/ci95", None)), {f"{VALUES}/ci95"}),
    "interval by the normal distribution": (
        CPU,
        put((f"{VALUES}/ci95", [0.0619, 0.0641])),
        {f"{VALUES}/ci95"},
    ),
    "spread of a single value": (
        CPU,
        put(
            (f"{VALUES}/values", [0.063]),
            (f"{VALUES}/n", 1),
            (f"{VALUES}/ci95", None),
            (f"{VALUES}/stdev", 0),
        ),
        {f"{VALUES}/stdev"},
    ),
    "more values than repeats": (CPU, put(("/parameters/repeats", 2)), {f"{VALUES}/values"}),
    "values beyond arithmetic": (CPU, put((f"{VALUES}/values", [1.7e308, 1.7e308, 1])), {f"{VALUES}/values"}),
    "percentiles out of order": (
        CPU,
        put((f"{VALUES}/samples/percentiles/p10", 0.55)),
        {f"{VALUES}/samples"},
    ),
    "mean beyond the largest": (CPU, put((f"{VALUES}/samples/mean", 0.6)), {f"{VALUES}/samples/mean"}),
    "null without a reason": (CPU, put(("/host/cpu/model", None)), {"/host/cpu/model"}),
    "null of a GPU without a reason": (GPU, put(("/host/gpus/0/vbios", None)), {"/host/gpus/0/vbios"}),
    "reason for what is not there": (
        CPU,
        put(("/unavailable/0/path", "/host/cpu/speed"), ("/host/driver_version", "580.95.05")),
        {"/unavailable/0/path"},
    ),
    "reason with another spelling of an index": (
        GPU,
        put(("/unavailable/3/path", "/host/gpus/00/mig_profile")),
        {"/unavailable/3/path", "/host/gpus/0/mig_profile"},
    ),
    "reason given twice": (
        CPU,
        put(("/unavailable", [*CPU["unavailable"], CPU["unavailable"][0]])),
        {f"/unavailable/{len(CPU['unavailable'])}/path"},
    ),
    "usable memory beyond the total": (
        GPU,
        put(("/host/gpus/0/memory_usable_bytes", 2**40)),
        {"/host/gpus/0/memory_usable_bytes"},
    ),
    "two GPUs with one identity": (GPU, repeat_gpu, {"/host/gpus/1/uuid_hash"}),
    "matrix of another size": (
        GPU,
        put(("/host/topology/matrix", [["X", "SYS"], ["SYS", "X"]])),
        {"/host/topology/matrix"},
    ),
    "matrix without a diagonal": (GPU, put(("/host/topology/matrix", [["SYS"]])), {"/host/topology/matrix"}),
    "links of a single GPU": (GPU, put(("/host/topology/summary", "NVLink")), {"/host/topology/summary"}),
    "series of another length": (
        GPU,
        put((f"{TELEMETRY}/series/clock_sm_mhz", [1980])),
        {f"{TELEMETRY}/series/clock_sm_mhz"},
    ),
    "offsets that go back": (
        GPU,
        put((f"{TELEMETRY}/offsets_seconds", [0, 2, 1, 3])),
        {f"{TELEMETRY}/offsets_seconds"},
    ),
    "telemetry of fewer GPUs": (
        GPU,
        put(("/telemetry/gpus", []), ("/unavailable/4/path", "/recipe_id"), ("/recipe_id", None)),
        {"/telemetry/gpus"},
    ),
    "summary of no series": (
        GPU,
        put((f"{TELEMETRY}/summary/fan_percent", {"min": 1, "mean": 1, "max": 1})),
        {f"{TELEMETRY}/summary/fan_percent"},
    ),
    "no summary of readings": (
        GPU,
        put((f"{TELEMETRY}/summary/power_watts", None)),
        {f"{TELEMETRY}/summary/power_watts"},
    ),
    "summary of no readings": (
        GPU,
        put((f"{TELEMETRY}/series/power_watts", [None] * 4)),
        {f"{TELEMETRY}/summary/power_watts"},
    ),
    "summary out of order": (
        GPU,
        put((f"{TELEMETRY}/summary/power_watts/mean", 900)),
        {f"{TELEMETRY}/summary/power_watts"},
    ),
    "artifacts that differ by case only": (
        GPU,
        put(("/artifacts", [GPU["artifacts"][0], GPU["artifacts"][0] | {"name": "Samples.jsonl"}])),
        {"/artifacts/1/name"},
    ),
    "artifact that is the document": (
        GPU,
        put(("/artifacts/0/name", "measurement.json")),
        {"/artifacts/0/name"},
    ),
    "ok run without a measurement": (
        NO_MEASUREMENT,
        put(("/status", "ok"), ("/error", None)),
        {"/status", "/error"},
    ),
    "timeline that goes back": (RUN, put(("/timeline/3/at", "2026-11-30T20:00:00Z")), {"/timeline/3/at"}),
    "attempt at no real time": (RUN, put(("/attempts/0/at", "2026-13-01T00:00:00Z")), {"/attempts/0/at"}),
    "price of no real day": (
        RUN,
        put(("/price/retrieved_at", "2026-11-31T00:00:00Z")),
        {"/price/retrieved_at"},
    ),
    "more GPUs than the machine has": (RUN, put(("/gpu_share/machine", 0)), {"/gpu_share/used"}),
    "digest of another image": (RUN, put(("/image/digest", "sha256:" + "0" * 64)), {"/image/digest"}),
    "reason for a price that is there": (
        RUN,
        put(("/unavailable", [{"path": "/price", "reason": "free"}])),
        {"/unavailable/0/path"},
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_named_where_it_is_broken(name: str) -> None:
    document, change, expected = BROKEN[name]
    broken = copy.deepcopy(document)
    change(broken)
    assert {problem.pointer for problem in check(broken, broken["document"])} == expected


ALLOWED: dict[str, tuple[Document, Callable[[Document], None]]] = {
    "a soft check that failed": (CPU, failed_check("soft")),
    "a hard check that failed, in an invalid document": (
        CPU,
        lambda document: (failed_check("hard")(document), put(("/status", "invalid"))(document)),
    ),
    "a run that was cut short after whole cases": (CPU, put(("/error", ERROR), ("/status", "partial"))),
    "a reason for the object around": (
        CPU,
        put(("/host/cpu/model", None), ("/unavailable/3/path", "/host/cpu")),
    ),
    "a single run": (
        CPU,
        put(
            (f"{VALUES}/values", [0.063]),
            (f"{VALUES}/n", 1),
            (f"{VALUES}/median", 0.063),
            (f"{VALUES}/mean", 0.063),
            (f"{VALUES}/stdev", None),
            (f"{VALUES}/ci95", None),
        ),
    ),
    "statistics that were added up in another order": (
        CPU,
        put((f"{VALUES}/mean", 0.06300000000000001), (f"{VALUES}/stdev", 0.001)),
    ),
    "the digest of a reference without one": (RUN, put(("/image/reference", "rentbench/cpu"))),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_what_is_right_passes(name: str) -> None:
    document, change = ALLOWED[name]
    right = copy.deepcopy(document)
    change(right)
    assert check(right, right["document"]) == []


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> SuiteManifest:
    return read_suite(write_root(tmp_path_factory.mktemp("root")) / "suites" / "example" / "suite.toml")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (put((f"{VALUES}/direction", "lower")), {f"{VALUES}/direction"}),
        (put((f"{VALUES}/unit", "TOPS")), {f"{VALUES}/unit"}),
        (put((f"{VALUES}/metric", "speed")), {f"{VALUES}/metric"}),
        (put((f"{CASE}/parameters/size", 8)), {f"{CASE}/parameters"}),
        (put((f"{CASE}/parameters/rows", 256)), {f"{CASE}/parameters"}),
        (put(("/parameters/settings/flush_cache", False)), {"/parameters/settings"}),
        (put(), set()),
    ],
)
def test_a_known_suite_holds_its_documents_to_its_manifest(
    change: Callable[[Document], None], expected: set[str], suite: SuiteManifest
) -> None:
    document = copy.deepcopy(CPU)
    document["parameters"]["settings"] = {"warm_up_seconds": 0.1}
    document["cases"].pop(1)
    change(document)
    assert {problem.pointer for problem in measurement_problems(document, {"example": suite})} == expected
    document["suite"]["version"] = "0.9.0"
    assert not list(measurement_problems(document, {"example": suite}))
