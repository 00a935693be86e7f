"""The command line as a user meets it: arguments in, output and an exit code out."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from rentbench.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a command left."""

    code: int
    out: str
    err: str


@pytest.fixture
def rentbench(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run `rentbench` with arguments and bytes on standard input."""

    def run(*arguments: object, stdin: bytes = b"") -> Outcome:
        monkeypatch.setattr(sys, "argv", ["rentbench", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capsys.readouterr()
        return Outcome(code=int(stop.value.code or 0), out=captured.out, err=captured.err)

    return run
