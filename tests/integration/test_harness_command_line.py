"""The command line: what it tells, and what it refuses before anything is started."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from support.harness_runs import environment, run

if TYPE_CHECKING:
    from pathlib import Path


def test_without_a_suite_it_lists_them(tmp_path: Path) -> None:
    finished = run(tmp_path)
    assert finished.code == 0
    assert finished.stdout.startswith("suites:\n")
    assert "\n  well " in finished.stdout


def test_list_cases_prints_what_case_takes(tmp_path: Path) -> None:
    finished = run(tmp_path, "well", "--preset", "standard", "--list-cases")
    assert (finished.code, finished.stdout) == (0, "which=a\nwhich=b\nwhich=c\n")
    assert (
        run(tmp_path, "well", "--preset", "standard", "--list-cases", "--case", "which=b").stdout
        == "which=b\n"
    )


def test_version_is_the_suites(tmp_path: Path) -> None:
    assert run(tmp_path, "well", "--version").stdout == "well 1.0.0\n"


def test_help_tells_presets_parameters_and_exit_codes(tmp_path: Path) -> None:
    text = run(tmp_path, "well", "--help").stdout
    for word in ("--preset", "smoke", "which", '"a", "b", "c"', "how", "RENTBENCH_RESULTS", "exit codes"):
        assert word in text


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["wel"], ["no suite 'wel'", "well"]),
        (["well", "--preset", "fast"], ["'fast'", "smoke"]),
        (["well", "--presets", "smoke"], ["--presets"]),
        (["well", "--case", "colour=red"], ['"colour"', "which"]),
        (["well", "--case", "which=z"], ['"z"', '"a", "b", "c"']),
        (["well", "--preset", "smoke", "--case", "which=c"], ["no case with which=c", "which: a, b"]),
        (["well", "--case", "which"], ["NAME=VALUE", '"which"']),
        (["well", "--case", "which=a,which=b"], ["which twice"]),
        (["well", "--set", "which=a"], ['no setting parameter "which"', "how"]),
        (["well", "--set", f"how={'x' * 201}"], ["how", "200"]),
        (["well", "--repeats", "0"], ["--repeats is 0", "1 to 1000"]),
        (["well", "--repeats", "many"], ["--repeats", "many"]),
        (["well", "--seed", "-1"], ["--seed is -1", "0 to"]),
        (["well", "--device", "tpu"], ["tpu", "cuda"]),
        (["needs-two-gpus", "--device", "cpu"], ["needs a GPU", "--preset smoke"]),
    ],
)
def test_wrong_usage_says_what_is_allowed_and_starts_nothing(
    tmp_path: Path, arguments: list[str], told: list[str]
) -> None:
    finished = run(tmp_path, *arguments)
    assert finished.code == 2
    assert finished.stdout == ""
    for text in told:
        assert text in finished.stderr
    assert "Traceback" not in finished.stderr
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("arguments", [["--list-cases"], ["--version"], ["--help"], ["--preset", "smoke"]])
def test_the_supervisor_imports_neither_torch_nor_numpy(tmp_path: Path, arguments: list[str]) -> None:
    script = (
        "import sys\n"
        "from rentbench.harness.__main__ import main\n"
        "code = main(sys.argv[1:])\n"
        "heavy = {'torch', 'numpy', 'pandas'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else code)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, "well", *arguments],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
