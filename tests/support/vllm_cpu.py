"""A real vLLM on the CPU, in an environment of its own that `scripts/setup-vllm` makes."""

from __future__ import annotations

from pathlib import Path

ENVIRONMENT = Path(__file__).resolve().parents[2] / ".cache" / "vllm-cpu"


def is_ready() -> bool:
    return (ENVIRONMENT / ".ready").is_file()
