"""The status of a document follows from its cases, its checks and its error, and gives the exit code."""

import pytest

from rentbench.core.errors import ExitCode
from rentbench.core.status import document_status, exit_code, verdict

HARD = {"severity": "hard", "outcome": "failed"}
SOFT = {"severity": "soft", "outcome": "failed"}
PASSED = {"severity": "hard", "outcome": "passed"}
UNCHECKED = {"severity": "hard", "outcome": "not_checked"}


@pytest.mark.parametrize(
    ("cases", "validity", "error", "status", "code"),
    [
        ("ok ok", [PASSED, UNCHECKED], None, "ok", 0),
        ("ok", [SOFT], None, "ok", 0),
        ("ok skipped", [], None, "ok", 0),
        ("ok", [], {"kind": "interrupted"}, "partial", 4),
        ("ok failed", [], None, "partial", 4),
        ("ok invalid skipped", [], None, "partial", 4),
        ("ok ok", [HARD], None, "invalid", 3),
        ("skipped", [HARD], None, "invalid", 3),
        ("invalid invalid skipped", [], None, "invalid", 3),
        ("invalid failed", [], None, "failed", 3),
        ("failed skipped", [], None, "failed", 3),
        ("", [], {"kind": "no_gpu"}, "failed", 3),
        ("skipped skipped", [SOFT], {"kind": "too_few_gpus"}, "skipped", 5),
    ],
)
def test_status(cases: str, validity: list, error: dict | None, status: str, code: int) -> None:
    found = document_status([{"status": case} for case in cases.split()], validity, error)
    assert found == status
    assert exit_code(found) == ExitCode(code)


def test_verdict() -> None:
    assert verdict([]) == "pass"
    assert verdict([PASSED, UNCHECKED]) == "pass"
    assert verdict([PASSED, SOFT]) == "warn"
    assert verdict([SOFT, HARD]) == "fail"
