"""Where a result goes: its folder, or standard output when that cannot be written."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from rentbench.core.validation import check
from support.harness_runs import collect, command, environment, run, smoke

if TYPE_CHECKING:
    from pathlib import Path

SMOKE = ("well", "--preset", "smoke", "--device", "cpu")


def test_the_table_and_the_path_are_on_standard_output(tmp_path: Path) -> None:
    finished = smoke(tmp_path, "well", "well")
    lines = finished.stdout.splitlines()
    assert lines[-1] == f"result: {finished.folder}"
    assert "status: ok" in lines
    assert max(map(len, lines[:-1])) <= 80


def test_the_folder_is_named_by_suite_gpu_time_and_identifier(tmp_path: Path) -> None:
    finished = smoke(tmp_path, "well", "well")
    assert finished.folder is not None
    assert finished.document is not None
    relative = finished.folder.relative_to(tmp_path / "results")
    assert relative.parts[:2] == ("well", "cpu")
    assert relative.name.endswith(finished.document["id"])
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["well"]  # nothing temporary is left
    assert list((tmp_path / "tmp").iterdir()) == []


def test_json_prints_the_document_alone(tmp_path: Path) -> None:
    finished = run(tmp_path, *SMOKE, "--json")
    assert finished.code == 0
    assert json.loads(finished.stdout) == finished.document
    assert f"result: {finished.folder}" in finished.stderr


def test_results_option_wins_over_the_environment(tmp_path: Path) -> None:
    finished = run(tmp_path, *SMOKE, "--results", str(tmp_path / "elsewhere"))
    assert finished.document is None  # in the environment's folder
    assert len(list((tmp_path / "elsewhere").glob("well/cpu/*/measurement.json"))) == 1


def test_two_runs_leave_two_results(tmp_path: Path) -> None:
    for _ in range(2):
        subprocess.run(
            command(*SMOKE), env=environment(tmp_path), capture_output=True, timeout=60, check=True
        )
    assert len(list((tmp_path / "results").glob("well/cpu/*/measurement.json"))) == 2


def test_a_results_folder_that_cannot_be_written_costs_nothing_measured(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    finished = run(tmp_path, *SMOKE, "--json", "--results", str(tmp_path / "file" / "results"))
    assert finished.code == 3  # a script that finds 0 must find the result, too
    document = json.loads(finished.stdout)
    assert check(document, "measurement") == []
    assert [case["measurements"][0]["values"] for case in document["cases"]] == [[100.0], [200.0]]
    assert "cannot be written" in finished.stderr
    assert list((tmp_path / "tmp").iterdir()) == []


def test_without_json_the_document_follows_the_table(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    finished = run(tmp_path, *SMOKE, "--results", str(tmp_path / "file" / "results"))
    table, _, document = finished.stdout.partition("\n{")
    assert "status: ok" in table
    assert json.loads("{" + document)["status"] == "ok"


def limited(tmp_path: Path, kibibytes: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run where no file may grow beyond a size: writes fail, as on a disk that is full."""
    shell = f"ulimit -f {kibibytes}; trap '' XFSZ; exec \"$@\""
    return subprocess.run(
        ["bash", "-c", shell, "bash", *command(*arguments)],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_disk_that_fills_up_while_the_log_grows(tmp_path: Path) -> None:
    ended = limited(
        tmp_path, 64, "talks", "--preset", "smoke", "--device", "cpu", "--set", "how=flood", "--json"
    )
    finished = collect(tmp_path, ended.returncode, ended.stdout, ended.stderr)
    assert finished.code == 0, finished.stderr[-2000:]
    assert finished.document is not None
    assert "the log is incomplete: File too large" in finished.stderr


def test_a_disk_that_is_full_at_the_end_sends_the_document_to_standard_output(tmp_path: Path) -> None:
    ended = limited(tmp_path, 1, *SMOKE, "--json")
    assert ended.returncode == 3, ended.stderr
    document = json.loads(ended.stdout)
    assert check(document, "measurement") == []
    assert "NOT WRITTEN" in ended.stderr
    assert not list((tmp_path / "results").glob("**/measurement.json"))


def mounted(tmp_path: Path, setup: str) -> subprocess.CompletedProcess[str]:
    """Run the smoke preset in a mount namespace of its own, after some mounts."""
    (tmp_path / "results").mkdir()
    probe = ["unshare", "--mount", "true"]
    if shutil.which("unshare") is None or subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("no permission for a mount namespace")
    shell = f'set -e; cd "$RENTBENCH_RESULTS"; {setup}; exec "$@"'
    return subprocess.run(
        ["unshare", "--mount", "bash", "-c", shell, "bash", *command(*SMOKE, "--json")],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_read_only_container_with_nothing_but_results(tmp_path: Path) -> None:
    # No place for temporary files: the workload's scratch folder lies among the results.
    ended = mounted(
        tmp_path,
        'mount -t tmpfs none "$RENTBENCH_RESULTS"; mount -o remount,ro,bind /; touch /x && exit 9; true',
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["status"] == "ok"
    assert "result: " in ended.stderr


def test_a_container_with_no_place_to_write_names_what_is_missing(tmp_path: Path) -> None:
    ended = mounted(tmp_path, "mount -o remount,ro,bind /; touch /x && exit 9; true")
    assert ended.returncode == 3, ended.stderr
    error = json.loads(ended.stdout)["error"]
    assert error["kind"] == "permission_denied"
    assert "mount one of them writable" in error["message"]


def test_a_full_file_system_sends_the_document_to_standard_output(tmp_path: Path) -> None:
    ended = mounted(tmp_path, 'mount -t tmpfs -o size=8k none "$RENTBENCH_RESULTS"')
    assert ended.returncode == 3, ended.stderr
    assert "No space left on device" in ended.stderr
    document = json.loads(ended.stdout)
    assert check(document, "measurement") == []
    assert document["status"] == "ok"


@pytest.mark.parametrize("form", ["people", "json"])
def test_progress_is_on_standard_error(tmp_path: Path, form: str) -> None:
    finished = run(tmp_path, *SMOKE, RENTBENCH_PROGRESS=form)
    lines = finished.stderr.splitlines()
    if form == "people":
        assert "[1/2] which=b" in lines
    else:
        entries = [json.loads(line) for line in lines if line.startswith("{")]
        assert {"rentbench": "progress", "done": 1, "total": 2, "text": "which=b"} in entries
        assert entries[-1]["done"] == entries[-1]["total"] == 2
    assert "prepared repeat 0" in lines  # the workload's own output, as it comes


def test_a_reader_that_goes_away_does_not_end_the_run(tmp_path: Path) -> None:
    with subprocess.Popen(
        command(*SMOKE), env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stderr.close()
        code = process.wait(60)
    finished = collect(tmp_path, code, "", "")
    assert finished.document is not None
    assert finished.document["status"] == "ok"


def test_without_a_validator_the_run_goes_on_and_says_so(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "sys.modules['jsonschema'] = sys.modules['jsonschema_rs'] = None\n"
        "from rentbench.harness.__main__ import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, *SMOKE],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    finished = collect(tmp_path, ended.returncode, ended.stdout, ended.stderr)
    assert finished.code == 0, finished.stderr
    assert "the document is not validated" in finished.stderr
    assert check(finished.document or {}, "measurement") == []
