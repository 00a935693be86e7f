"""The load client: `vllm bench serve`, a cell a call."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from serving_log import explain

from rentbench.core.errors import ErrorKind

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "APIS",
    "Cell",
    "ClientEnd",
    "ClientError",
    "LoadClient",
    "Target",
    "bench_arguments",
    "seed_of",
    "vllm_python",
]

# vLLM's name of the client and the path, by the setting `api`.
APIS: Final = {
    "completions": ("openai", "/v1/completions"),
    "chat": ("openai-chat", "/v1/chat/completions"),
}
_START_SECONDS: Final = 300.0
_TAIL_BYTES: Final = 60_000


class ClientError(Exception):
    """The load client gave no result; `kind` is one of the schema's error kinds."""

    def __init__(self, kind: ErrorKind, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint


@dataclass(frozen=True, kw_only=True)
class Target:
    """Whom requests go to.

    Attributes:
        url: As `serving_api.base_url` returns it.
        model: The model's name there.
        tokenizer: Folder or name of the tokenizer that the client makes prompts with.
        api: A key of `APIS`.
        ignore_eos: Whether the server is asked to go on to the last token.
    """

    url: str
    model: str
    tokenizer: str
    api: str
    ignore_eos: bool


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A load.

    Attributes:
        prompts: Requests in all.
        concurrency: At once.
        input_tokens: Of each prompt.
        output_tokens: Of each answer.
        seed: Of the prompts.
    """

    prompts: int
    concurrency: int
    input_tokens: int
    output_tokens: int
    seed: int


@dataclass(frozen=True, kw_only=True)
class ClientEnd:
    """How a call of the client ended: its result file, and the processor time that it took."""

    result: bytes
    cpu_seconds: float


def seed_of(seed: int, *names: object) -> int:
    """Return a seed of its own for whatever the names name, below 2^31."""
    text = "/".join(map(str, (seed, *names)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


def vllm_python() -> str:
    """Return the Python that has vLLM: this one, or that beside the `vllm` on PATH.

    Raises:
        ClientError: Neither has it.
    """
    if importlib.util.find_spec("vllm") is not None:
        return sys.executable
    found = shutil.which("vllm")
    python = Path(found).parent / "python" if found else None
    if python is None or not python.exists():
        msg = "vLLM is not installed: no package for this Python, and no `vllm` on PATH beside its own"
        raise ClientError(ErrorKind.DEPENDENCY_MISSING, msg, hint="install it, or take the image `vllm`")
    return str(python)


def bench_arguments(cell: Cell, target: Target, result: Path) -> list[str]:
    """Return the arguments of `vllm` for a cell.

    The client's own check whether the server is ready is off: it sends the first prompt of the cell, which
    would then come out of the prefix cache.
    """
    backend, path = APIS[target.api]
    return [
        *("bench", "serve", "--backend", backend, "--base-url", target.url, "--endpoint", path),
        *("--model", target.model, "--tokenizer", target.tokenizer),
        *("--dataset-name", "random", "--seed", str(cell.seed), "--num-prompts", str(cell.prompts)),
        *("--random-input-len", str(cell.input_tokens), "--random-output-len", str(cell.output_tokens)),
        *("--max-concurrency", str(cell.concurrency), "--request-rate", "inf", "--temperature", "0"),
        *("--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,90,95,99"),
        *("--ready-check-timeout-sec", "0", "--disable-tqdm", "--save-result", "--save-detailed"),
        *("--result-dir", str(result.parent), "--result-filename", result.name),
        *(["--ignore-eos"] if target.ignore_eos else []),
    ]


class LoadClient:
    """vLLM's command line, loaded once.

    Args:
        python: That has vLLM.
        environment: Of the client; the key for the server is in it.
        folder: For its logs and results.
    """

    def __init__(self, *, python: str, environment: Mapping[str, str], folder: Path) -> None:
        self._folder = folder
        self._loaded = False
        self._log = folder / "client.log"
        self._number = 0
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [python, str(Path(__file__).parent / "serving_fork.py")],
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )

    def run(self, cell: Cell, target: Target, *, limit_seconds: float) -> ClientEnd:
        """Put a load onto a server and return what the client left.

        That there is one does not mean that requests were answered.

        Raises:
            ClientError: The client did not start, did not end within the limit, or left no result.
        """
        self.wait_until_loaded()
        self._number += 1
        result = self._folder / f"bench-{self._number}.json"
        log = self._folder / f"bench-{self._number}.log"
        arguments = bench_arguments(cell, target, result)
        self._send({"arguments": arguments, "log": str(log)})
        answer = self._receive(limit_seconds, f"the load client did not end within {limit_seconds:g} s")
        if answer["returncode"] == 0 and result.is_file():
            return ClientEnd(result=result.read_bytes(), cpu_seconds=answer["cpu_seconds"])
        said = _read_tail(log)
        print(said, flush=True)
        failure = explain(said, answer["returncode"] or 1)
        raise ClientError(
            failure.kind, f"the load client left no result: {failure.message}", hint=failure.hint
        )

    def alive(self) -> bool:
        """Say whether it can take another cell."""
        return self._process.poll() is None

    def wait_until_loaded(self) -> None:
        """Return once the client has loaded.

        Raises:
            ClientError: It cannot be loaded.
        """
        if not self._loaded:
            self._receive(_START_SECONDS, f"vLLM's client was not loaded within {_START_SECONDS:g} s")
            self._loaded = True

    def close(self) -> None:
        """End the client, and whatever it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _send(self, order: dict[str, Any]) -> None:
        assert self._process.stdin is not None  # noqa: S101
        try:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise self._ended() from error

    def _receive(self, limit_seconds: float, late: str) -> dict[str, Any]:
        assert self._process.stdout is not None  # noqa: S101
        until = time.monotonic() + limit_seconds
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                self.close()
                raise ClientError(ErrorKind.TIMEOUT, late, hint="raise cell_limit_seconds")
            # Never more than one answer is on its way.
            chunk = os.read(self._process.stdout.fileno(), 65536)
            if not chunk:
                raise self._ended()
            line += chunk
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _ended(self) -> ClientError:
        self.close()
        said = _read_tail(self._log)
        print(said, flush=True)
        failure = explain(said, self._process.returncode)
        return ClientError(failure.kind, f"the load client ended: {failure.message}", hint=failure.hint)


def _read_tail(log: Path) -> str:
    try:
        return log.read_text(encoding="utf-8", errors="replace")[-_TAIL_BYTES:]
    except OSError:
        return ""
