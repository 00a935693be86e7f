"""Kernel logs of other machines, where the folder of shared samples lies beside the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from preflight_kernel_log import xid_finding

SHARED = Path(os.environ.get("RENTBENCH_SHARED", Path(__file__).resolve().parents[4] / "shared"))
LOG = SHARED / "samples" / "gpud" / "dmesg-with-xid-119.log"

pytestmark = pytest.mark.skipif(not LOG.is_file(), reason="no shared samples here")


def test_a_real_log_with_gsp_timeouts_fails() -> None:
    text = LOG.read_text(errors="replace")
    finding = xid_finding(text, "")
    assert finding.passed is False
    assert finding.value == text.count("): 119, ")
    assert "GSP firmware" in finding.detail
