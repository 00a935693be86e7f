"""GPU names as drivers and tools wrote them, where the shared samples lie beside the repository."""

import os
import re
from pathlib import Path

import pytest

from rentbench.core.gpus import canonical, identify

SHARED = Path(os.environ.get("RENTBENCH_SHARED", Path(__file__).resolve().parents[4] / "shared"))
SAMPLES = SHARED / "samples"
PATTERNS = {
    "nvidia-smi": r"Product Name +: (.+)",
    "nvidia-smi-xml": r"<product_name>(.+)</product_name>",
    "nccl": r"device +\d+ \[0x\w+\] (\S+)",
}

pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason="no shared samples here")


@pytest.mark.parametrize("folder", PATTERNS)
def test_every_name_that_a_driver_says_is_in_the_table(folder: str) -> None:
    names = {
        name.strip()
        for path in (SAMPLES / folder).iterdir()
        for name in re.findall(PATTERNS[folder], path.read_text(encoding="utf-8", errors="replace"))
    }
    assert names
    assert {name for name in names if canonical(name, None) is None} <= {"NVIDIA GeForce RTX 3080"}
    # Two cards have that name; their memory tells them apart.
    assert identify("NVIDIA GeForce RTX 3080", memory_gb=10240 * 2**20 / 1e9).gpu is not None
