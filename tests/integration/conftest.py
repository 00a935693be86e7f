"""Makes the suites' modules importable by their plain names, as the harness does."""

from __future__ import annotations

import sys
from pathlib import Path

SUITES = Path(__file__).resolve().parents[2] / "suites"

for workload in sorted(SUITES.glob("*/workload.py")):
    sys.path.append(str(workload.parent))
