"""Is this machine what was rented, and does it keep its speed? README.md is the method."""

from __future__ import annotations

from typing import TYPE_CHECKING

from preflight_findings import NO_GPU, Finding, Report, summary
from preflight_gpu_probes import probe_clone, probe_matmul, probe_pcie, probe_peers, probe_sustained
from preflight_health import health
from preflight_host_probes import probe_cpu, probe_disk, probe_network
from preflight_kernel_log import kernel_log, xid_finding
from preflight_order import ordered

from rentbench.core.errors import ErrorKind

if TYPE_CHECKING:
    from rentbench.harness.context import Case, Context

_PROBES = {
    "cpu": probe_cpu,
    "disk": probe_disk,
    "network": probe_network,
    "pcie": probe_pcie,
    "peers": probe_peers,
    "clone": probe_clone,
    "sustained": probe_sustained,
}

_report: Report | None = None


def prepare(context: Context) -> None:
    """Compare the probed host with the order, and judge its health."""
    report = _the_report(context)
    report.add(*ordered(context.host, context.settings), *health(context.host, context.settings))
    context.describe(
        data={"kind": "synthetic", "name": "normal distribution", "revision": None, "seed": context.seed}
    )


def run(case: Case, context: Context) -> None:
    """Run one probe."""
    probe = str(case.get("probe"))
    needed = {"probe", "dtype", "size"} if probe == "matmul" else {"probe"}
    if set(case) != needed:
        context.fail(ErrorKind.USAGE, f"probe={probe} has the parameters {', '.join(sorted(needed))}")
    report = _the_report(context)
    if probe == "matmul":
        probe_matmul(context, report, str(case["dtype"]), int(case["size"]))
    else:
        _PROBES[probe](context, report)


def finish(context: Context) -> None:
    """Look into the kernel's log, now that everything has been under load; then give the verdict."""
    report = _the_report(context)
    if context.device == "cpu":
        report.add(Finding(name="xid_errors", passed=None, detail=NO_GPU, severity="hard"))
    else:
        report.add(xid_finding(*kernel_log()))
    verdict, reasons = summary(report.findings)
    context.log("\n  ".join([f"preflight: {verdict}", *reasons]))


def _the_report(context: Context) -> Report:
    """Return the one report of this repeat; each repeat is a process of its own."""
    global _report
    if _report is None:
        _report = Report(context)
    return _report
