"""`rentbench validate` and `rentbench upgrade`: exit codes, messages, JSON."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rentbench.core.documents import read_document, render_document, write_document
from support.results import EXAMPLES, changed, example, write_result

VALID = EXAMPLES / "measurement" / "valid" / "smoke-on-cpu.json"
INVALID = EXAMPLES / "measurement" / "invalid" / "statistics-do-not-follow.json"

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def test_a_valid_file(rentbench: Callable) -> None:
    outcome = rentbench("validate", VALID)
    assert (outcome.code, outcome.out, outcome.err) == (0, "1 document: 1 valid\n", "")


def test_an_invalid_file_names_file_place_fault_and_what_is_allowed(rentbench: Callable) -> None:
    outcome = rentbench("validate", INVALID)
    place = "/cases/0/measurements/0"
    assert outcome.code == 1
    assert outcome.out.splitlines() == [
        f"{INVALID}: {place}/n is 4, which does not follow from the values (allowed: 3)",
        f"{INVALID}: {place}/median is 0.07, which does not follow from the values (allowed: 0.063)",
        "1 document: 1 invalid",
    ]


def test_a_folder_and_a_file_that_is_not_there(rentbench: Callable, tmp_path: Path) -> None:
    write_result(tmp_path)
    outcome = rentbench("validate", tmp_path, tmp_path / "missing.json", INVALID)
    assert outcome.code == 2
    assert f"error: {tmp_path / 'missing.json'} is not there" in outcome.out
    assert outcome.out.splitlines()[-1] == "4 documents: 2 valid, 1 invalid, 1 unusable"


def test_all_examples_at_once(rentbench: Callable) -> None:
    outcome = rentbench("validate", *sorted(EXAMPLES.glob("*/valid/*")))
    assert outcome.code == 0, outcome.out
    outcome = rentbench(
        "validate", *(path for path in EXAMPLES.glob("*/invalid/*") if path.name != "problems.toml")
    )
    assert outcome.code == 1
    assert " valid" not in outcome.out.splitlines()[-1]


@pytest.mark.parametrize(
    ("content", "code", "message"),
    [
        (VALID.read_bytes(), 0, "1 document: 1 valid"),
        (INVALID.read_bytes(), 1, "standard input: /cases/0/measurements/0/n is 4"),
        (b"", 2, "error: standard input is empty"),
        (b'{"a": NaN}', 2, "error: standard input cannot be used: /a is nan"),
        (b"\xff\xfe", 2, "error: standard input starts with a byte order mark"),
    ],
)
def test_standard_input(content: bytes, code: int, message: str, rentbench: Callable) -> None:
    outcome = rentbench("validate", "-", stdin=content)
    assert outcome.code == code
    assert message in outcome.out


def test_json_says_the_same(rentbench: Callable, tmp_path: Path) -> None:
    (tmp_path / "cut.json").write_text("{")
    outcome = rentbench("validate", "--json", VALID, INVALID, tmp_path)
    data = json.loads(outcome.out)
    assert outcome.code == 2
    assert data["summary"] == {"documents": 3, "valid": 1, "invalid": 1, "unusable": 1}
    assert [entry["outcome"] for entry in data["documents"]] == ["valid", "invalid", "unusable"]
    assert data["documents"][1]["problems"][0] == {
        "pointer": "/cases/0/measurements/0/n",
        "message": "is 4, which does not follow from the values",
        "allowed": "3",
    }
    assert "ends too early" in data["documents"][2]["unusable"]


def test_without_paths_the_usage_is_shown(rentbench: Callable) -> None:
    outcome = rentbench("validate")
    assert outcome.code == 2
    assert "Missing argument" in outcome.err


def test_nothing_from_a_document_acts_on_the_terminal(rentbench: Callable, tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07\u202e[bold]"
    document = changed(example("measurement", "smoke-on-cpu"), "/status", evil) | {evil: 1}
    path = tmp_path / f"x{evil}.json"
    path.write_text(json.dumps(document))
    outcome = rentbench("validate", path)
    assert outcome.code == 1
    assert ANSI.sub("", outcome.out).replace("\n", "").isprintable()
    assert "[bold]" in outcome.out


def test_names_that_are_no_text_are_shown(rentbench: Callable, tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/\xff.json"
    Path(os.fsdecode(name)).write_bytes(INVALID.read_bytes())
    assert rentbench("validate", tmp_path).code == 1
    assert json.loads(rentbench("validate", "--json", tmp_path).out)["summary"]["invalid"] == 1


scalars = st.none() | st.booleans() | st.floats() | st.integers() | st.text()
keys = st.text() | st.sampled_from(["document", "id", "artifacts"])
json_values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(keys, inner))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(content=st.binary(max_size=100) | json_values.map(lambda value: json.dumps(value).encode()))
def test_any_content_gets_an_exit_code(content: bytes, rentbench: Callable) -> None:
    outcome = rentbench("validate", "-", stdin=content)
    assert outcome.code in (1, 2)
    assert outcome.out.count("\n") >= 2


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    write_document(tmp_path / "run.json", {"document": "run"})
    command = [sys.executable, "-c", "from rentbench.cli.main import main; main()", "validate"]
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run(
        [*command, str(tmp_path)], stdout=writer, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writer)
    assert result.stderr == ""
    assert result.returncode != 0


def test_a_document_of_an_old_version_names_the_command(rentbench: Callable, tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    write_document(path, example("measurement", "smoke-on-cpu") | {"schema_version": 0})
    outcome = rentbench("validate", path)
    assert outcome.code == 1
    assert f"rentbench upgrade {path}" in outcome.out


def test_upgrade_says_what_it_wrote_and_what_it_left(
    rentbench: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rentbench.core.upgrade import STEPS

    monkeypatch.setitem(STEPS, ("measurement", 0), lambda document: document)
    folder, measurement = write_result(tmp_path / "results", run=False)
    (folder / "measurement.json").unlink()
    write_document(folder / "measurement.json", measurement | {"schema_version": 0})
    write_document(tmp_path / "present.json", example("run", "local"))
    output = tmp_path / "new"
    arguments = ("upgrade", tmp_path / "results", tmp_path / "present.json", "--output", output)
    outcome = rentbench(*arguments)
    target = output / folder.relative_to(tmp_path / "results") / "measurement.json"
    assert outcome.code == 0, outcome
    assert outcome.out.splitlines() == [
        f"{folder / 'measurement.json'} → {target}",
        f"1 written to {output}, 1 of the present version already",
    ]
    assert read_document(target) == measurement
    again = rentbench(*arguments)
    assert again.code == 3
    assert "is there already" in again.err


@pytest.mark.parametrize(
    ("content", "code", "message"),
    [
        (b"{", 2, "ends too early"),
        (render_document({"document": "run", "schema_version": 9}), 2, "newer than this rentbench"),
        (render_document({"document": "run", "schema_version": 0}), 2, "no upgrade of run documents"),
        (render_document({"document": "invoice"}), 1, "names no known kind"),
    ],
)
def test_what_cannot_be_upgraded_is_said(
    content: bytes, code: int, message: str, rentbench: Callable, tmp_path: Path
) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    outcome = rentbench("upgrade", path, "--output", tmp_path / "new")
    assert outcome.code == code
    assert message in outcome.err
    assert str(path) in outcome.err
    assert not (tmp_path / "new").exists()


def test_an_empty_folder_is_nothing_to_upgrade(rentbench: Callable, tmp_path: Path) -> None:
    outcome = rentbench("upgrade", tmp_path, "--output", tmp_path / "new")
    assert outcome.code == 2
    assert f"{tmp_path} holds no documents" in outcome.err


def run_in_shell(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", script],
        env={**os.environ, "PYTHON": sys.executable, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


COMMAND = '"$PYTHON" -c "from rentbench.cli.main import main; main()"'


def test_a_closed_standard_input_is_unusable() -> None:
    ended = run_in_shell(f"{COMMAND} validate - <&-")
    assert ended.returncode == 2, ended.stderr
    assert "standard input is empty" in ended.stdout


def test_a_name_that_the_terminal_cannot_show_is_escaped(tmp_path: Path) -> None:
    (tmp_path / "é 日本.json").touch()
    ended = run_in_shell(f"{COMMAND} validate '{tmp_path}'", PYTHONIOENCODING="ascii")
    assert ended.returncode == 2, ended.stderr
    assert r"\xe9 \u65e5\u672c.json is empty" in ended.stdout


def test_a_path_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path) -> None:
    """Root can read every file, so as root the command runs without that right."""
    closed = tmp_path / "closed.json"
    closed.write_text("{}")
    closed.chmod(0)
    rights = "-dac_override,-dac_read_search"
    lower = "" if os.getuid() else f"setpriv --bounding-set {rights} --inh-caps {rights} "
    ended = run_in_shell(f"{lower}{COMMAND} validate --json '{closed}' '{VALID}'")
    found = json.loads(ended.stdout)
    assert (ended.returncode, found["summary"]) == (
        2,
        {"documents": 2, "valid": 1, "invalid": 0, "unusable": 1},
    )


def test_an_error_of_a_json_command_is_json_too() -> None:
    ended = run_in_shell(f"{COMMAND} reap --json", DOCKER_HOST="unix:///nowhere.sock")
    assert ended.returncode == 3
    assert "no Docker engine answers" in json.loads(ended.stdout)["error"]["message"]
