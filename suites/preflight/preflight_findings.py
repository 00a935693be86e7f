"""What preflight finds out, as checks of the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NoReturn, TypeAlias

from rentbench.core.status import verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rentbench.harness.context import Context, Scalar

__all__ = ["NO_GPU", "Finding", "Report", "Verdict", "summary"]

Verdict: TypeAlias = Literal["pass", "warn", "fail"]

NO_GPU = "no GPU in this run"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One check.

    Attributes:
        name: Of the check.
        passed: None where it could not be checked.
        detail: One sentence with the figures, or why it could not be checked.
        severity: `hard` where the machine is not worth its money if the check fails.
        value: What was found.
        limit: What was wanted.
        unit: Of both.
    """

    name: str
    passed: bool | None
    detail: str
    severity: Literal["soft", "hard"] = "soft"
    value: Scalar | None = None
    limit: Scalar | None = None
    unit: str | None = None


class Report:
    """Takes findings, writes them into the result, and remembers them for the verdict."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.findings: list[Finding] = []

    def add(self, *findings: Finding) -> None:
        """Write findings as checks of the result."""
        for finding in findings:
            self.findings.append(finding)
            self._context.check(
                finding.name,
                finding.passed,
                finding.detail,
                severity=finding.severity,
                value=finding.value,
                limit=finding.limit,
                unit=finding.unit,
            )

    def skip(self, reason: str, *names: str) -> NoReturn:
        """Say that checks could not be made, and end the case as skipped."""
        self.add(*(Finding(name=name, passed=None, detail=reason) for name in names))
        self._context.skip(reason)

    def minimum(self, name: str, found: float, setting: str, unit: str) -> None:
        """Check a rate against the least that a setting asks for; 0 asks for nothing."""
        least = float(self._context.settings[setting])
        wanted = f"at least {least:g} is wanted" if least else f"{setting} was not given"
        self.add(
            Finding(
                name=name,
                passed=found >= least if least else None,
                detail=f"{found:.4g} {unit}; {wanted}",
                value=float(f"{found:.4g}"),
                limit=least or None,
                unit=unit,
            )
        )


def summary(findings: Sequence[Finding]) -> tuple[Verdict, list[str]]:
    """Return the verdict on a machine, and the reasons where it is not `pass`."""
    failed = [finding for finding in findings if finding.passed is False]
    decision = verdict({"severity": finding.severity, "outcome": "failed"} for finding in failed)
    return decision, [f"{finding.name}: {finding.detail}" for finding in failed]
