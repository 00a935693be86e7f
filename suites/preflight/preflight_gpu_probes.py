"""The probes of the cards: products, memory, links, and a long load. On a CPU those that can run do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight_compute import slowest, time_clones, time_products, unsupported
from preflight_findings import NO_GPU, Finding
from preflight_links import link_findings, time_peers, time_transfers
from preflight_sustained import SUSTAINED_CHECKS, as_csv, load_cards, sustained_findings

from rentbench.core.errors import ErrorKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from preflight_compute import Timed
    from preflight_findings import Report

    from rentbench.harness.context import Context

__all__ = ["probe_clone", "probe_matmul", "probe_pcie", "probe_peers", "probe_sustained"]

_MIB = 2**20


def probe_matmul(context: Context, report: Report, dtype: str, size: int) -> None:
    """Time square products."""
    reason = unsupported(dtype, context)
    if reason:
        context.skip(reason)
    with context.phase("measure"):
        timed = time_products(context, dtype, size, int(context.settings["matmul_iterations"]))
    _require_right(timed, f"the {dtype} product of size {size}", context, report)
    worst = slowest(timed)
    context.record("tflops", 2 * size**3 / worst.median / 1e12, samples=worst.seconds, samples_unit="s")


def probe_clone(context: Context, report: Report) -> None:
    """Time copies of a large array; each byte is counted once read and once written."""
    elements = int(context.settings["clone_elements"])
    with context.phase("measure"):
        timed = time_clones(context, elements, int(context.settings["clone_iterations"]))
    _require_right(timed, "the copy of an array", context, report)
    worst = slowest(timed)
    rate = 2 * 4 * elements / worst.median / 1e9
    context.record("bandwidth", rate, samples=worst.seconds, samples_unit="s")
    report.minimum("memory_bandwidth", rate, "minimum_bandwidth", "GB/s")


def probe_pcie(context: Context, report: Report) -> None:
    """Time copies between host and card, and look at the link meanwhile."""
    if context.device == "cpu":
        report.skip(NO_GPU, "pcie_link", "pcie_bandwidth")
    size_bytes = int(context.settings["transfer_mebibytes"]) * _MIB
    with context.phase("measure"):
        links = time_transfers(context, size_bytes, int(context.settings["transfer_iterations"]))
    _require_right([link.to_device for link in links], "a copy to the host and back", context, report)
    percent = float(context.settings["minimum_pcie_percent"])
    report.add(*link_findings(links, context.host["gpus"], size_bytes, percent))
    for metric, timed in (
        ("host_to_device", slowest([link.to_device for link in links])),
        ("device_to_host", slowest([link.to_host for link in links])),
    ):
        context.record(metric, size_bytes / timed.median / 1e9, samples=timed.seconds, samples_unit="s")
    for metric, states in (
        ("pcie_generation", [link.generation for link in links if link.generation is not None]),
        ("pcie_width", [link.width for link in links if link.width is not None]),
    ):
        if states:
            context.record(metric, min(states))


def probe_peers(context: Context, report: Report) -> None:
    """Time copies between each two cards, and see whether they reach each other directly."""
    found = context.device_count
    if found < 2:
        report.skip(f"needs 2 GPUs, found {found}", "peer_access")
    size_bytes = int(context.settings["transfer_mebibytes"]) * _MIB
    with context.phase("measure"):
        copies = time_peers(context, size_bytes, int(context.settings["transfer_iterations"]))
    origin, target = copies.route
    report.add(
        Finding(
            name="peer_access",
            passed=copies.direct == copies.pairs,
            detail=f"{copies.direct} of {copies.pairs} ordered pairs of GPUs reach each other directly; "
            f"the slowest pair is GPU {origin} to GPU {target}",
            value=copies.direct,
            limit=copies.pairs,
            unit="count",
        )
    )
    if copies.wrong:
        pairs = ", ".join(f"{origin} to {target}" for origin, target in copies.wrong)
        detail = f"what was copied between GPUs arrived damaged: {pairs}"
        report.add(Finding(name="results_right", passed=False, detail=detail, severity="hard"))
        hint = "direct access through an IOMMU can damage data: have it switched off in the host's BIOS"
        context.fail(ErrorKind.WRONG_RESULT, detail, hint)
    rate = size_bytes / copies.slowest.median / 1e9
    context.record("peer_bandwidth", rate, samples=copies.slowest.seconds, samples_unit="s")


def probe_sustained(context: Context, report: Report) -> None:
    """Load all cards for a long time and compare the end with the beginning."""
    settings = context.settings
    dtype = str(settings["sustained_dtype"])
    with context.phase("measure"):
        loads = load_cards(
            context,
            dtype="fp16" if unsupported(dtype, context) else dtype,
            size=int(settings["sustained_size"]),
            seconds=float(settings["sustained_seconds"]),
            window_seconds=float(settings["sustained_window_seconds"]),
            sample_seconds=float(settings["sustained_sample_seconds"]),
        )
    context.artifact(
        f"sustained-{context.repeat}.csv", as_csv(loads), f"Samples of the long load, repeat {context.repeat}"
    )
    if context.device == "cpu":
        report.add(*(Finding(name=name, passed=None, detail=NO_GPU) for name in SUSTAINED_CHECKS))
    else:
        report.add(
            *sustained_findings(
                loads,
                limit_percent=float(settings["maximum_loss_percent"]),
                collapse_percent=float(settings["collapse_loss_percent"]),
            )
        )
    worst = max(loads, key=lambda load: float("-inf") if load.loss_percent is None else load.loss_percent)
    for metric, value in (
        ("tflops_first", worst.first_tflops),
        ("tflops_last", worst.last_tflops),
        ("sustained_loss", worst.loss_percent),
        ("clock_first_mhz", worst.median("clock_sm_mhz", last=False)),
        ("clock_last_mhz", worst.median("clock_sm_mhz", last=True)),
        ("power_first_watts", worst.median("power_watts", last=False)),
        ("power_last_watts", worst.median("power_watts", last=True)),
        ("temperature_max_celsius", worst.highest("temperature_celsius")),
    ):
        if value is not None:
            context.record(metric, value)
    slowest_end = min((load.last_tflops for load in loads if load.last_tflops is not None), default=None)
    if slowest_end is not None:
        report.minimum("sustained_rate", slowest_end, "minimum_tflops", "TFLOPS")


def _require_right(timed: Sequence[Timed], what: str, context: Context, report: Report) -> None:
    wrong = [str(one.card) for one in timed if not one.right]
    detail = "every result agrees with its reference"
    if wrong:
        detail = f"{what} is wrong on GPU {', '.join(wrong)}"
    report.add(Finding(name="results_right", passed=not wrong, detail=detail, severity="hard"))
    if wrong:
        context.fail(ErrorKind.WRONG_RESULT, detail)
