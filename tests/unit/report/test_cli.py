from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request

import pytest

CODE = "from rentbench.cli.main import main; main()"
WITHOUT_CHARTS = f"import sys; sys.modules['altair'] = None; {CODE}"


def run(folder, *arguments, code=CODE):
    command = [sys.executable, "-c", code, "report", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def test_a_missing_extra_is_named_with_what_to_install(tmp_path):
    done = run(tmp_path, "build", code=WITHOUT_CHARTS)
    assert done.returncode == 3
    assert "needs the package altair" in done.stderr
    assert "pip install 'rentbench[report]'" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_help_needs_no_extra(tmp_path):
    done = run(tmp_path, "--help", code=WITHOUT_CHARTS)
    assert done.returncode == 0
    assert "serve" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["build", "--results", "nowhere"], "nowhere is no folder"),
        (["build", "--now", "yesterday"], "--now yesterday is no time"),
        (["build", "--output", "."], "building would delete it"),
    ],
)
def test_wrong_usage_is_said_and_changes_nothing(tmp_path, arguments, message):
    (tmp_path / "kept.txt").write_text("kept")
    done = run(tmp_path, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["kept.txt"]


def test_serve_builds_serves_and_ends_on_interrupt(tmp_path):
    command = [sys.executable, "-u", "-c", CODE, "report", "serve", "--port", "0"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell's background jobs ignore it, and so would the server.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        try:
            address = process.stdout.readline().split()[1]
            with urllib.request.urlopen(address, timeout=30) as answer:
                assert "GPU benchmarks" in answer.read().decode()
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()
