"""Runs `vllm` commands, each in a fork of one process that has loaded vLLM once.

The load client is `vllm bench serve` as it is installed; loading it takes 10 to 20 s, as long as a cell. This
program is run by vLLM's own Python and uses nothing of rentbench. One JSON object a line comes in, with
`arguments` and `log`; one goes out, with `returncode` and `cpu_seconds`. The first line out is `{}`: loaded.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import traceback
from typing import IO, Any


def _command(arguments: list[str]) -> int:
    """Run vLLM's command line in this process, and return its exit code."""
    main = importlib.import_module("vllm.entrypoints.cli.main").main
    sys.argv = ["vllm", *arguments]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 (this process ends here, whatever it was)
        traceback.print_exc()
        return 1
    return 0


def _run_in_child(order: dict[str, Any]) -> dict[str, Any]:
    child = os.fork()
    if child == 0:
        log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        code = _command(order["arguments"])
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code & 0xFF)
    _, status, usage = os.wait4(child, 0)
    return {
        "returncode": os.waitstatus_to_exitcode(status),
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
    }


def _serve(orders: IO[str], answers: IO[str]) -> None:
    _command(["bench", "serve", "--help"])  # loads everything that the command needs, and does nothing
    sys.stdout.flush()
    print("{}", file=answers, flush=True)
    for line in orders:
        print(json.dumps(_run_in_child(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    # Orders and answers have descriptors of their own; what vLLM prints goes to the log.
    incoming, outgoing = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    with open(os.devnull) as nothing:  # noqa: PTH123 (needs no pathlib)
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    _serve(incoming, outgoing)
