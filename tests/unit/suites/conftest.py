"""Makes the suites' modules importable by their plain names, as the harness does."""

from __future__ import annotations

import sys
from pathlib import Path

SUITES = Path(__file__).resolve().parents[3] / "suites"

for folder in ("gemm", "preflight", "allreduce", "ddp_training", "interruption", "speech_to_text"):
    sys.path.append(str(SUITES / folder))
