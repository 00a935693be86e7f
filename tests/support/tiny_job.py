"""A job of a few milliseconds a step, with everything in it that a checkpoint must keep."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from checkpointer import Checkpointer, ResumableBatches, TrainingState
from torch.utils.data import Dataset

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Numbers(Dataset):
    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.rand(4, generator=torch.Generator().manual_seed(index))


class TinyJob:
    """Model with dropout, optimizer with moments, schedule, gradient scaler, three generators, and data."""

    def __init__(self, *, seed: int = 1, workers: int = 0) -> None:
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        self.model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 50)
        self.scaler = torch.amp.GradScaler("cpu")
        options = {"num_workers": workers}
        self.batches = ResumableBatches(Numbers(), batch_size=3, seed=seed, options=options)
        self.state = TrainingState(
            self.model,
            data=self.batches,
            optimizer=self.optimizer,
            scheduler=self.scheduler,
            scaler=self.scaler,
        )
        self._data: Iterator[torch.Tensor] | None = None

    def step(self) -> str:
        """Do one step; return the loss, exactly."""
        if self._data is None:
            self._data = iter(self.batches)
        values = next(self._data)
        loss = self.model(values).square().mean() * (1 + random.random() + float(np.random.rand()))
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.scheduler.step()
        return loss.item().hex()

    def checkpoints(self, folder: Path, **options: Any) -> Checkpointer:
        return Checkpointer(folder, self.state, **options)


def uninterrupted(steps: int) -> list[str]:
    job = TinyJob()
    return [job.step() for _ in range(steps)]
