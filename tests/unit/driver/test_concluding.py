"""The exit code of one run, from what the workload says and what the driver saw."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rentbench.core.errors import ErrorKind, ExitCode
from rentbench.driver.concluding import RunOutcome
from rentbench.driver.failures import Failure

if TYPE_CHECKING:
    from rentbench.core.status import Status


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        ("ok", None, ExitCode.OK),
        ("partial", None, ExitCode.PARTIAL),
        ("partial", ErrorKind.HOST_OOM, ExitCode.PARTIAL),
        ("failed", ErrorKind.HOST_OOM, ExitCode.FAILED),
        ("ok", ErrorKind.HOST_OOM, ExitCode.FAILED),
        ("failed", ErrorKind.USAGE, ExitCode.USAGE),
        ("skipped", None, ExitCode.SKIPPED),
    ],
)
def test_exit_code(status: Status, kind: ErrorKind | None, code: ExitCode) -> None:
    failure = Failure(kind=kind, message="what the driver saw") if kind else None
    outcome = RunOutcome(folder=Path(), status=status, failure=failure, measurement=None, run={})
    assert outcome.exit_code is code
