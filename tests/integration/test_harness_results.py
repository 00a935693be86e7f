"""What a run leaves: statuses, values, exit codes, files; each result is valid."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rentbench.core.documents import sha256_file
from rentbench.core.validation import check
from support.harness_runs import Finished, run, smoke

if TYPE_CHECKING:
    from pathlib import Path

OK = {"a": "ok", "b": "ok", "c": "ok"}


def statuses(finished: Finished) -> dict[str, str]:
    return {which: case["status"] for which, case in finished.cases.items()}


def values(finished: Finished, which: str, metric: str = "speed") -> list[float]:
    return [
        value
        for measurement in finished.cases[which]["measurements"]
        if measurement["metric"] == metric
        for value in measurement["values"]
    ]


def test_three_repeats_in_fresh_processes(tmp_path: Path) -> None:
    finished = run(tmp_path, "well", "--preset", "standard", "--seed", "7")
    assert finished.code == 0, finished.stderr
    document = finished.document
    assert document is not None
    assert check(document, "measurement", folder=finished.folder) == []
    assert document["status"] == "ok"
    assert document["parameters"] == {"seed": 7, "repeats": 3, "settings": {"how": "well"}}
    assert document["data"] == {"kind": "synthetic", "name": "nothing", "revision": None, "seed": 7}
    assert statuses(finished) == OK
    # One value of each repeat, in order: the fixture adds the repeat's number.
    assert values(finished, "b") == [200.0, 201.0, 202.0]
    latency = finished.cases["b"]["measurements"][1]
    assert latency["samples"]["n"] == 15
    assert latency["samples"]["min"] >= 0.001
    assert finished.cases["b"]["phases"]["measure"] >= 0.015
    # Loading happens once a repeat and counts to the first case.
    assert "load" in finished.cases["a"]["phases"]
    assert "load" not in finished.cases["b"]["phases"]
    assert [line for line in finished.text("log.txt").splitlines() if line.startswith("prepared")] == [
        "prepared repeat 0",
        "prepared repeat 1",
        "prepared repeat 2",
    ]


def test_every_single_reading_is_kept(tmp_path: Path) -> None:
    finished = smoke(tmp_path, "well", "well", "--repeats", "2")
    lines = [json.loads(line) for line in finished.text("samples.jsonl").splitlines()]
    assert [
        (line["case"], line["metric"], line["repeat"], line["unit"], len(line["values"])) for line in lines
    ] == [
        (0, "latency", 0, "s", 5),
        (1, "latency", 0, "s", 5),
        (0, "latency", 1, "s", 5),
        (1, "latency", 1, "s", 5),
    ]


def test_artifacts_are_hashed_and_never_overwritten(tmp_path: Path) -> None:
    finished = smoke(tmp_path, "well", "well")
    assert finished.document is not None
    assert finished.folder is not None
    names = {artifact["name"] for artifact in finished.document["artifacts"]}
    assert {"log.txt", "samples.jsonl", "notes.txt", "notes-2.txt"} <= names
    assert finished.text("notes.txt") == "case a\n"
    assert finished.text("notes-2.txt") == "case b\n"
    for artifact in finished.document["artifacts"]:
        path = finished.folder / artifact["name"]
        assert (artifact["sha256"], artifact["bytes"]) == (sha256_file(path), path.stat().st_size)
    assert {path.name for path in finished.folder.iterdir()} == {*names, "measurement.json"}


@pytest.mark.parametrize(
    ("how", "status", "code", "b"),
    [
        ("skip b", "ok", 0, "skipped"),
        ("fail b", "partial", 4, "failed"),
        ("invalidate b", "partial", 4, "invalid"),
    ],
)
def test_a_case_that_did_not_work_is_told_and_the_other_kept(
    tmp_path: Path, how: str, status: str, code: int, b: str
) -> None:
    finished = smoke(tmp_path, "well", how)
    assert finished.document is not None
    assert (finished.document["status"], finished.code) == (status, code)
    assert statuses(finished) == {"a": "ok", "b": b}


def test_an_error_that_the_workload_names_keeps_its_words(tmp_path: Path) -> None:
    error = smoke(tmp_path, "well", "fail b").cases["b"]["error"]
    assert (error["kind"], error["message"], error["hint"]) == (
        "unsupported_dtype",
        "b is not supported",
        "take a",
    )


def test_an_invalid_case_keeps_its_values_and_says_why(tmp_path: Path) -> None:
    finished = smoke(tmp_path, "well", "invalidate b")
    assert finished.cases["b"]["reason"] == "answers came from a cache"
    assert values(finished, "b") == [200.0]


def test_failed_in_one_repeat_of_three_is_failed_with_the_values_that_exist(tmp_path: Path) -> None:
    finished = smoke(tmp_path, "well", "fail b in repeat 2", "--repeats", "3")
    assert statuses(finished) == {"a": "ok", "b": "failed"}
    assert finished.cases["b"]["error"]["message"] == "repeat 2 of 3: the line was cut"
    assert values(finished, "a") == [100.0, 101.0, 102.0]
    assert values(finished, "b") == [200.0]  # not run again after it had failed


def test_a_verdict_that_fails_is_an_error_of_the_run(tmp_path: Path) -> None:
    finished = smoke(tmp_path, "well", "fail in finish")
    assert finished.code == 4
    assert finished.document is not None
    assert finished.document["status"] == "partial"
    assert "no verdict" in finished.document["error"]["message"]


def test_a_soft_check_that_fails_is_a_warning(tmp_path: Path) -> None:
    finished = smoke(tmp_path, "well", "drift")
    assert finished.code == 0
    assert finished.checks["drift"] == {
        "name": "drift",
        "severity": "soft",
        "outcome": "failed",
        "detail": "3 % from first to last",
        "value": 3.0,
        "limit": 2.0,
        "unit": "%",
    }
    assert "warning: drift: 3 % from first to last" in finished.stdout


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("undeclared metric", "'happiness' is not declared in suite.toml; declared are speed, latency"),
        ("text for a number", "was given 'fast', which is no number"),
        ("metric twice", "recorded twice"),
        ("invalid check", "'Not A Name'"),
        ("invalid severity", "severity soft or hard"),
        ("invalid unit", "no unit 'furlongs'"),
        ("invalid description", "kind dataset or synthetic"),
        ("nested phase", "phases cannot be nested"),
        ("unknown phase", "no phase 'lunch'"),
        ("unknown error kind", "sadness"),
        ("path as artifact", "'../escape.txt'"),
        ("not a number", "came out as nan"),
        ("nothing recorded", "without recording any metric"),
    ],
)
def test_a_suite_that_uses_the_harness_wrongly_fails_with_the_reason(
    tmp_path: Path, how: str, told: str
) -> None:
    finished = smoke(tmp_path, "misuses", how)
    assert finished.code == 3
    assert told in finished.cases["a"]["error"]["message"]
    assert not (tmp_path / "escape.txt").exists()


def test_not_a_number_is_a_wrong_result(tmp_path: Path) -> None:
    assert smoke(tmp_path, "misuses", "not a number").cases["a"]["error"]["kind"] == "wrong_result"


def test_a_metric_of_some_repeats_only_makes_the_case_invalid(tmp_path: Path) -> None:
    finished = smoke(tmp_path, "misuses", "metric in one repeat", "--repeats", "2")
    assert finished.cases["a"]["status"] == "invalid"
    assert finished.cases["a"]["reason"] == "latency was recorded in 1 of 2 repeats"


def test_a_library_that_is_missing_is_named(tmp_path: Path) -> None:
    finished = run(tmp_path, "needs-torch", "--preset", "smoke")
    assert finished.code == 3
    assert finished.document is not None
    error = finished.document["error"]
    assert error["kind"] == "dependency_missing"
    assert "torchlike_library_that_is_not_installed" in error["message"]
    assert set(statuses(finished).values()) == {"failed"}


@pytest.mark.parametrize(
    ("how", "code", "status"), [("raise in prepare", 3, "failed"), ("skip in prepare", 5, "skipped")]
)
def test_what_happens_in_prepare_concerns_every_case(
    tmp_path: Path, how: str, code: int, status: str
) -> None:
    finished = smoke(tmp_path, "crashes", how)
    assert finished.code == code
    assert set(statuses(finished).values()) == {status}


def test_recipe_and_runner_come_from_the_image(tmp_path: Path) -> None:
    recipe = f"sha256:{'5' * 64}"
    finished = smoke(tmp_path, "well", "well", RENTBENCH_RECIPE_ID=recipe, RENTBENCH_IMAGE="1")
    assert finished.document is not None
    assert (finished.document["recipe_id"], finished.document["runner"]) == (recipe, "container")


def test_a_bare_process_has_no_recipe_and_says_so(tmp_path: Path) -> None:
    document = smoke(tmp_path, "well", "well").document
    assert document is not None
    assert (document["recipe_id"], document["runner"]) == (None, "process")
    assert "/recipe_id" in {entry["path"] for entry in document["unavailable"]}


def test_only_the_cases_that_were_asked_for_run(tmp_path: Path) -> None:
    finished = run(
        tmp_path, "well", "--preset", "standard", "--repeats", "1", "--case", "which=c", "--case", "which=a"
    )
    assert list(finished.cases) == ["a", "c"]


def test_a_log_of_garbage_becomes_text(tmp_path: Path) -> None:
    log = smoke(tmp_path, "talks", "garbage").text("log.txt")
    assert "red" in log
    assert not {character for character in log if not character.isprintable()} - {"\n", "\t", "\ufffd"}
    assert max(map(len, log.splitlines())) < 20_000


def test_a_flood_keeps_its_head_and_its_tail(tmp_path: Path) -> None:
    finished = smoke(tmp_path, "talks", "flood")
    lines = finished.text("log.txt").splitlines()
    assert lines[0].startswith("0 y")
    assert lines[-1] == "the last word"
    (gap,) = [line for line in lines if line.endswith("lines are left out here]")]
    assert len(lines) - 1 + int(gap.strip("[").split()[0]) == 80_001
    assert len(finished.text("log.txt")) < 5_300_000
