"""The all-reduce suite's manifest, what it records, and that a wrong sum is found (gloo, one process)."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

import pytest

from support.suites import Recorded, load_workload, manifest

pytest.importorskip("torch")

import torch
from allreduce_rank import count_wrong

from rentbench.harness.outcomes import CaseFailed, CaseSkipped
from rentbench.harness.ranks.rank import Rank

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

CASE = {"ranks": 2, "variant": "default", "bytes": 2**20}


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    found = Recorded("allreduce", tmp_path)
    found.context.enter(0)
    return found


@pytest.fixture
def workload(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.setenv("NCCL_P2P_DISABLE", "1")
    module = load_workload("allreduce")
    yield module
    module._repeat.close()


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Rank]:
    """A group of one rank, in this process."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield Rank(index=0, count=1, device="cpu", emit=lambda _: None)  # type: ignore[arg-type]
    torch.distributed.destroy_process_group()


def test_standard_is_the_published_method() -> None:
    suite = manifest("allreduce")
    cases = suite.cases("standard")
    assert {case["bytes"] for case in cases} == {2**power for power in range(15, 31)}
    assert {case["ranks"] for case in cases} == {2, 4, 8}
    assert {case["variant"] for case in cases} == {"default", "p2p_sys", "no_p2p"}
    assert len(cases) == 16 * 3 * 3
    assert not any(preset.settings["nvls"] for preset in suite.presets.values())


def test_cases_that_share_a_start_follow_each_other() -> None:
    members = [(case["ranks"], case["variant"]) for case in manifest("allreduce").cases("standard")]
    changes = sum(before != after for before, after in itertools.pairwise(members))
    assert changes == len(set(members)) - 1


def test_what_is_recorded_follows_from_the_times(workload: ModuleType, recorded: Recorded) -> None:
    size = 2**23
    workload._record([[0.01, 0.02, 0.03], [0.03, 0.04, 0.05]], size, 2, recorded.context)
    assert recorded.samples["bus_bandwidth"] == pytest.approx([0.02, 0.03, 0.04])
    assert recorded.values["time"] == pytest.approx(30_000)
    assert recorded.values["algorithm_bandwidth"] == pytest.approx(size / 0.03 / 1e9)
    assert recorded.values["bus_bandwidth"] == pytest.approx(size / 0.03 / 1e9)
    assert "flatness" not in recorded.values  # one size says nothing


def test_flatness_looks_at_large_messages_only(workload: ModuleType, recorded: Recorded) -> None:
    for index, (size, seconds) in enumerate([(2**22, 1.0), (2**23, 0.01), (2**24, 0.025)]):
        recorded.context.enter(index)
        workload._record([[seconds]], size, 4, recorded.context)
    assert recorded.values["flatness"] == pytest.approx(0.8)


def test_every_element_is_looked_at(alone: Rank) -> None:
    source = (torch.arange(1000) % 251).float()
    message = torch.empty_like(source)
    assert count_wrong(message, source, alone) == 0
    alone.count = 2  # the sums of one rank are not those of two
    assert count_wrong(message, source, alone) == 1000


def test_a_variant_is_what_its_name_says(workload: ModuleType, recorded: Recorded) -> None:
    workload.prepare(recorded.context)
    assert "NCCL_P2P_DISABLE" not in os.environ


def test_a_cpu_has_no_access_between_gpus(workload: ModuleType, recorded: Recorded) -> None:
    with pytest.raises(CaseSkipped, match="direct access"):
        workload.run(CASE | {"variant": "no_p2p"}, recorded.context)


@pytest.mark.parametrize("case", [CASE | {"bytes": 1001}, {"ranks": 2, "variant": "default"}])
def test_a_case_with_other_parameters_is_refused(
    workload: ModuleType, recorded: Recorded, case: dict[str, object]
) -> None:
    with pytest.raises(CaseFailed) as failure:
        workload.run(case, recorded.context)
    assert failure.value.kind == "usage"


def test_one_gpu_is_too_few(workload: ModuleType, recorded: Recorded) -> None:
    recorded.context.device, recorded.context.device_count = "cuda", 1
    with pytest.raises(CaseSkipped, match="needs 2 GPUs, found 1"):
        workload.run(CASE, recorded.context)
