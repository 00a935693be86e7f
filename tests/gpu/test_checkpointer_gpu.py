"""The checkpointer on a real card: page-locked copies, tied weights, and losses that go on bit by bit."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from support.suites import SUITES

torch = pytest.importorskip("torch")

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here"),
]


@pytest.fixture(autouse=True)
def _library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(SUITES / "interruption")])


def test_copies_are_page_locked_reused_and_exact() -> None:
    from checkpointer.state import HostCopies

    layer = torch.nn.Linear(64, 64, device="cuda")
    state = {"model": layer.state_dict(), "tied": [layer.weight, layer.weight.t()], "step": 3}
    copies = HostCopies()
    first = copies.of(state)
    assert first["model"]["weight"].is_pinned()
    assert first["tied"][0].data_ptr() == first["model"]["weight"].data_ptr()
    assert torch.equal(first["tied"][1], layer.weight.detach().cpu().t())
    assert first["step"] == 3
    layer.weight.data.add_(1)
    second = copies.of(state)
    assert second["model"]["weight"].data_ptr() == first["model"]["weight"].data_ptr()
    assert torch.equal(second["model"]["weight"], layer.weight.detach().cpu())


def test_losses_go_on_bit_by_bit(tmp_path: Path) -> None:
    from checkpointer import Checkpointer, TrainingState

    def job() -> tuple[TrainingState, list[str], torch.nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(1)
        layers = torch.nn.Linear(32, 256), torch.nn.Dropout(0.5), torch.nn.Linear(256, 1)
        model = torch.nn.Sequential(*layers).cuda()
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        return TrainingState(model, optimizer=optimizer), [], model, optimizer

    def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> str:
        loss = model(torch.randn(16, 32, device="cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item().hex()

    _, whole, model, optimizer = job()
    whole += [step(model, optimizer) for _ in range(20)]
    state, first, model, optimizer = job()
    with Checkpointer(tmp_path, state) as checkpoints:
        first += [step(model, optimizer) for _ in range(8)]
        assert checkpoints.finish(8)
    state, second, model, optimizer = job()
    with Checkpointer(tmp_path, state) as checkpoints:
        assert checkpoints.restore() == 8
        second += [step(model, optimizer) for _ in range(12)]
    assert first + second == whole
