"""What the driver adds to `docker run` typed by hand: at most a second a run.

For the figures: `pytest -s tests/benchmarks/test_driver_overhead.py`. Both take turns, so that what else the
machine does meets both; it only ever makes a run slower, so the fastest of each are compared.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.docker, pytest.mark.slow]

LIMIT_SECONDS = 1.0
ROUNDS = 7
RENTBENCH = [sys.executable, "-c", "from rentbench.cli.main import main; main()"]


def seconds(command: list[str]) -> float:
    before = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - before


def test_the_driver_adds_at_most_a_second_to_docker_run(behaviours: str, tmp_path: Path) -> None:
    """The same container by hand: as confined, with a volume for its results, which is removed with it."""
    by_hand = [
        *("docker", "run", "--rm", "--network", "none", "--read-only", "--cap-drop", "ALL", "--init"),
        *("--security-opt", "no-new-privileges", "--tmpfs", "/tmp:rw,exec,nosuid,nodev,mode=1777,size=4g"),
        *("--memory", "1g", "--memory-swap", "1g", "--pids-limit", "4096", "--shm-size", "1g"),
        *("--hostname", "rentbench", "--volume", "/results", behaviours, "ok", "--preset", "smoke"),
    ]
    run = ["run", "ok", "--image", behaviours, "--preset", "smoke", "--memory", "1g"]
    driven = [*RENTBENCH, *run, "--results", str(tmp_path / "results")]
    hand, driver = [], []
    for _ in range(ROUNDS):
        hand.append(seconds(by_hand))
        driver.append(seconds(driven))
    added, ratio = min(driver) - min(hand), min(driver) / min(hand)
    print(
        f"\nfastest of {ROUNDS}: docker run {min(hand):.2f} s, driven {min(driver):.2f} s: "
        f"the driver adds {added:.2f} s (ratio {ratio:.2f})"
    )
    assert added <= LIMIT_SECONDS, (hand, driver)
