"""Starts training processes in milliseconds: a process that has torch imported, and forks.

Each trainer is a process of its own, with its own signal handlers, files and end; only the import of torch is
shared. Run as a script it is the server: one JSON object a line on standard input, the process id or the exit
code on standard output.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

SUITE = Path(__file__).resolve().parents[2] / "suites" / "interruption"


class TrainerServer:
    """The test's side."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def start(self, plan: str, events: Path, log: Path) -> int:
        """Start a trainer and return its process id."""
        return self._ask({"plan": plan, "events": str(events), "log": str(log)})

    def wait(self, pid: int) -> int:
        """Return a trainer's exit code when it has ended; negative for a signal."""
        return self._ask({"wait": pid})

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(30)

    def _ask(self, request: dict[str, Any]) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


def _serve() -> None:
    sys.path.insert(0, str(SUITE))
    import torch._dynamo  # noqa: F401  (an optimizer would import it in each trainer)
    from interruption_trainer import Plan, train

    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            print(os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1]), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                output = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
                os.dup2(output, 1)
                os.dup2(output, 2)
                logging.basicConfig(level=logging.INFO, format="%(message)s")
                events = os.open(request["events"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
                train(Plan(**json.loads(request["plan"])), events)
                code = 0
            except BaseException:  # noqa: BLE001 (the log tells it)
                traceback.print_exc()
            finally:
                os._exit(code)
        print(pid, flush=True)


if __name__ == "__main__":
    _serve()
