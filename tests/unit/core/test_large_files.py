"""Files of fifty megabytes: validated in bounded time and memory, or refused with a reason."""

import copy
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from rentbench.core.documents import write_document
from support.results import example

MEBIBYTE = 2**20
MEMORY = 3 * 1024 * MEBIBYTE


def validate(path: Path) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own that may not take more than `MEMORY`."""
    return subprocess.run(
        [sys.executable, "-c", "from rentbench.cli.main import main; main()", "validate", str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
    )


@pytest.mark.slow
def test_a_valid_document_of_fifty_megabytes_is_validated(tmp_path: Path) -> None:
    document = example("measurement", "partial-on-one-gpu")
    (gpu,) = document["host"]["gpus"]
    (telemetry,) = document["telemetry"]["gpus"]
    count, readings = 8, 150_000
    telemetry["offsets_seconds"] = [float(second) for second in range(readings)]
    telemetry["series"] = {
        name: [100.5 + second % 7 for second in range(readings)] for name in telemetry["series"]
    }
    telemetry["summary"] = {"power_watts": {"min": 100.5, "mean": 103.5, "max": 106.5}}
    document["telemetry"]["gpus"] = [telemetry] * count
    document["host"]["gpus"] = [copy.deepcopy(gpu) | {"uuid_hash": None} for _ in range(count)]
    matrix = [["X" if row == column else "NV18" for column in range(count)] for row in range(count)]
    document["host"]["topology"] = {"matrix": matrix, "summary": "NVLink"}
    document["unavailable"] = [{"path": "/host", "reason": "made up"}]
    path = tmp_path / "large.json"
    write_document(path, document)
    assert 50 * MEBIBYTE < path.stat().st_size < 64 * MEBIBYTE
    result = validate(path)
    assert (result.returncode, result.stdout) == (0, "1 document: 1 valid\n"), result


@pytest.mark.parametrize(
    ("head", "body", "tail", "message"),
    [
        (b'{"a": [', b"0,", b"0]}", "is larger than"),
        (b'{"a": "', b"x", b'"}', "is larger than"),
    ],
)
def test_what_is_too_large_is_refused_unread(
    head: bytes, body: bytes, tail: bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "measurement.json"
    path.write_bytes(head + body * (65 * MEBIBYTE // len(body)) + tail)
    result = validate(path)
    assert result.returncode == 2
    assert message in result.stdout
    assert "Traceback" not in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "body", "tail", "code"),
    [
        (b'{"document": "run", "a": [', b"{},", b"0]}", 2),
        (b'{"document": "run", "a": [', b"0,", b"0]}", 1),
        (b'{"document": "run", "a": "', b"x", b'"}', 1),
        (b'{"document": "run", "a": ', b"[", b"", 2),
        (b'{"document": "run", "a": [', b'{"b": 1, "b": 2},', b"0]}", 2),
    ],
)
def test_hostile_files_of_fifty_megabytes_get_an_answer(
    head: bytes, body: bytes, tail: bytes, code: int, tmp_path: Path
) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(head + body * (50 * MEBIBYTE // len(body)) + tail)
    result = validate(path)
    assert result.returncode == code, result
    assert "Traceback" not in result.stderr
    assert len(result.stdout) < 10_000
