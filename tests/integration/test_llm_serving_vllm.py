"""llm-serving with a real vLLM on the CPU: a tiny random model, the real server, the real load client.

One server serves all tests but the last ones, which kill it and see what becomes of that.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from serving_server import HOST, Server, ServerError, free_port, living_members

from rentbench.core.errors import ErrorKind
from rentbench.core.validation import check
from rentbench.harness.outcomes import CaseFailed
from support.harness_runs import REPOSITORY, collect, command
from support.suites import Recorded, load_workload
from support.vllm_cpu import ENVIRONMENT, is_ready

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not is_ready(), reason="scripts/setup-vllm makes what this needs"),
]

KEY = "sk-endpoint-key-1234567890"
# Longer than a block of the CPU's prefix cache, so that prompts that come back are found there.
SETTINGS = {"input_tokens": 256, "output_tokens": 16, "warm_up_prompts": 2}
CELL = {"recipe": "fresh", "concurrency": 4, "prompts": 12}


class Serving:
    """The workload with its server, and contexts to run cells in."""

    def __init__(self, folder: Path) -> None:
        self.workload: ModuleType = load_workload("llm_serving")
        self._folder = folder
        self.prepared = self.context()
        self.workload.prepare(self.prepared.context)

    def context(self, **settings: Any) -> Recorded:
        recorded = Recorded("llm_serving", self._folder, **{**SETTINGS, **settings})
        recorded.context.enter(None)
        return recorded

    @property
    def server(self) -> Server:
        server: Server = self.workload._serving.server
        return server

    def run(self, case: dict[str, Any], **settings: Any) -> Recorded:
        recorded = self.context(**settings)
        recorded.context.enter(0)
        self.workload.run(case, recorded.context)
        return recorded


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{ENVIRONMENT / 'bin'}:{os.environ['PATH']}")
        found = Serving(tmp_path_factory.mktemp("serving"))
        try:
            yield found
        finally:
            session = found.server.process_id
            found.workload.finish(found.context().context)
            assert living_members(session) == []


def reasons(recorded: Recorded) -> list[str]:
    return [event["reason"] for event in recorded.events if event["event"] == "invalid"]


def test_the_start_is_told_in_phases_and_warmed_up(serving: Serving) -> None:
    phases = [event["phase"] for event in serving.prepared.events if event["event"] == "phase"]
    assert phases == ["load", "compile", "load", "warm_up"]
    assert "KV cache of" in serving.prepared.checks["server_start"]["detail"]
    assert serving.prepared.checks["server_version"]["value"]


def test_a_cell_has_every_figure_and_no_prompt_from_the_cache(serving: Serving) -> None:
    cell = serving.run(CELL)
    assert reasons(cell) == []
    outcomes = {name: found["outcome"] for name, found in cell.checks.items() if name != "client_keeps_up"}
    assert set(outcomes.values()) == {"passed"}, cell.checks
    # Streamed pieces come in bursts on two cores, so that a median gap may be no time at all.
    figures = set(cell.values)
    assert set(cell.context._metrics) - figures <= {"itl_median_ms", "itl_p90_ms", "user_tokens_per_second"}
    assert cell.values["prefix_cache_hit_tokens"] == 0
    assert cell.values["requests_completed"] == 12
    assert cell.values["total_tokens_per_second"] == pytest.approx(
        17 * cell.values["output_tokens_per_second"]
    )
    assert len(cell.samples["ttft_median_ms"]) == 12
    (artifact,) = [event["name"] for event in cell.events if event["event"] == "artifact"]
    assert artifact == "bench-fresh-c4-n12-0.json"


def test_the_published_recipe_measures_the_prefix_cache(serving: Serving) -> None:
    case = {**CELL, "recipe": "published"}
    serving.run({**case, "prompts": 6})
    again = serving.run(case)
    assert again.values["prefix_cache_hit_tokens"] >= 6 * 128
    assert reasons(again) == []
    assert again.checks["prefix_cache_published"]["outcome"] == "not_checked"


def test_prompts_that_come_back_make_a_fresh_cell_invalid(serving: Serving) -> None:
    case = {**CELL, "prompts": 5}
    serving.run(case)
    again = serving.run(case)  # the same seed, repeat and case: the same prompts
    assert "came out of the prefix cache" in " ".join(reasons(again))
    assert again.values["output_tokens_per_second"] > 0


def test_answers_that_are_cut_at_the_context_limit_make_the_cell_invalid(serving: Serving) -> None:
    cut = serving.run({**CELL, "prompts": 4}, input_tokens=1020, output_tokens=32)
    assert "tokens of the 128 that were asked for" in " ".join(reasons(cut))


def test_prompts_that_are_too_long_fail_the_cell(serving: Serving) -> None:
    with pytest.raises(CaseFailed, match="only 0 of 4 requests completed") as failure:
        serving.run({**CELL, "prompts": 4}, input_tokens=1500)
    assert failure.value.kind == ErrorKind.USAGE


def test_a_port_that_is_taken_is_told_at_once(serving: Serving, tmp_path: Path) -> None:
    port = int(serving.server.api.url.rpartition(":")[2])
    with pytest.raises(ServerError, match="in use by another program"):
        Server(
            command=["false"],
            model=tmp_path,
            arguments=[],
            environment=os.environ,
            port=port,
            log=tmp_path / "server.log",
        )


def test_another_server_on_the_port_is_not_taken_for_ours(serving: Serving) -> None:
    name = serving.server.model_name
    assert serving.server.healthy()
    serving.server.model_name = "rentbench-other"
    try:
        assert not serving.server.healthy()
    finally:
        serving.server.model_name = name


def test_a_model_that_does_not_fit_is_told_with_the_server_s_reason(serving: Serving, tmp_path: Path) -> None:
    server = start(serving, tmp_path, "--max-model-len", "100000")
    with pytest.raises(ServerError, match="max_model_len") as failure:
        server.wait_until(Server.healthy, 120)
    assert failure.value.kind == ErrorKind.USAGE
    assert living_members(server.process_id) == []


def test_a_server_that_is_not_ready_in_time_is_ended(serving: Serving, tmp_path: Path) -> None:
    server = start(serving, tmp_path)
    with pytest.raises(ServerError, match="not ready within 2 s") as failure:
        server.wait_until(Server.healthy, 2)
    assert failure.value.kind == ErrorKind.TIMEOUT
    server.stop()
    assert living_members(server.process_id) == []


def start(serving: Serving, folder: Path, *arguments: str) -> Server:
    return Server(
        command=[str(ENVIRONMENT / "bin" / "python"), "-m", "vllm.entrypoints.cli.main"],
        model=Path(serving.workload._serving.target.tokenizer),
        arguments=["--load-format", "dummy", *arguments],
        environment={**os.environ, "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"},
        port=free_port(),
        log=folder / "server.log",
    )


def test_the_same_server_as_an_endpoint_through_the_harness(serving: Serving, tmp_path: Path) -> None:
    ended = subprocess.run(
        command(
            *("llm-serving", "--device", "cpu", "--preset", "standard", "--repeats", "1"),
            *("--case", "concurrency=1"),
            *("--set", f"endpoint={serving.server.api.url}/v1", "--set", "key_variable=ENDPOINT_KEY"),
            *("--set", f"tokenizer={serving.workload._serving.target.tokenizer}"),
            *("--set", "input_tokens=128", "--set", "output_tokens=8", "--set", "warm_up_prompts=2"),
        ),
        env={
            **os.environ,
            "RENTBENCH_ROOT": str(REPOSITORY),
            "RENTBENCH_RESULTS": str(tmp_path / "results"),
            "ENDPOINT_KEY": KEY,
        },
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    run = collect(tmp_path, ended.returncode, ended.stdout, ended.stderr)
    assert run.code == 0, run.stderr
    assert run.document is not None
    assert run.folder is not None
    assert check(run.document, "measurement", folder=run.folder) == []
    (case,) = run.document["cases"]
    assert case["status"] == "ok"
    assert run.document["weights"]["repository"] == serving.server.model_name
    assert run.checks["server_agrees"]["outcome"] == "passed"
    written = ended.stdout + ended.stderr + "".join(path.read_text() for path in run.folder.iterdir())
    assert KEY not in written
    # Where the key goes: into the environment of the client, which puts it into its requests.
    assert json.dumps(run.document["command"]).count("ENDPOINT_KEY") == 1


def test_sigterm_to_the_run_leaves_no_server_behind(serving: Serving, tmp_path: Path) -> None:
    assert serving.server.alive()  # its environment has vLLM on PATH
    results = f"RENTBENCH_RESULTS={tmp_path / 'results'}"
    run = subprocess.Popen(
        command("llm-serving", "--device", "cpu", "--preset", "smoke"),
        env={**os.environ, "RENTBENCH_ROOT": str(REPOSITORY), "RENTBENCH_RESULTS": str(tmp_path / "results")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    until = time.monotonic() + 120
    while not any("serve" in words for words in processes_with(results).values()):
        assert time.monotonic() < until
        time.sleep(0.1)
    run.send_signal(signal.SIGTERM)
    said, _ = run.communicate(timeout=30)
    ended = collect(tmp_path, run.returncode, said, "")
    assert ended.code == 3
    assert ended.document is not None
    assert ended.document["error"]["kind"] == "interrupted"
    assert processes_with(results) == {}


def processes_with(variable: str) -> dict[int, list[str]]:
    """Return the command lines of the processes that have this in their environment."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if variable.encode() in (path / "environ").read_bytes().split(b"\0"):
                found[int(path.name)] = (path / "cmdline").read_text().split("\0")
    return found


def test_a_server_that_dies_within_a_cell_fails_it_and_the_next_cell_gets_a_new_one(serving: Serving) -> None:
    first = serving.server
    killer = threading.Thread(target=kill_when_busy, args=(first,))
    killer.start()
    with pytest.raises(CaseFailed) as failure:
        serving.run({**CELL, "prompts": 400})
    killer.join()
    assert failure.value.kind == ErrorKind.KILLED
    assert "of 400 requests completed, then the server ended with signal SIGKILL" in failure.value.message
    # A killed API server leaves its engine behind; nothing of it is left now.
    assert living_members(first.process_id) == []

    after = serving.run({**CELL, "prompts": 7})
    assert serving.server is not first
    assert reasons(after) == []
    phases = [event["phase"] for event in after.events if event["event"] == "phase"]
    assert phases == ["load", "compile", "load", "warm_up", "measure"]
    assert "server-0-0.log" in {event["name"] for event in after.events if event["event"] == "artifact"}


def kill_when_busy(server: Server) -> None:
    """Kill the API server, and nothing else, once it has answered some requests of the cell."""
    before = server.api.counters()
    until = time.monotonic() + 60
    while (server.api.counters().since(before).requests or 0) < 8 and time.monotonic() < until:
        time.sleep(0.05)
    os.kill(server.process_id, signal.SIGKILL)


def test_sigterm_ends_an_idle_server_in_seconds(serving: Serving) -> None:
    begin = time.monotonic()
    serving.server.stop()
    assert time.monotonic() - begin < 10
    assert living_members(serving.server.process_id) == []
    assert serving.server.api.models() is None
    assert HOST in serving.server.api.url
