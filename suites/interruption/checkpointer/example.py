"""A whole job with checkpoints, as small as it gets; README.md explains it.

Alone: `python -m checkpointer.example --folder /tmp/job --steps 1000`. With several ranks:
`torchrun --nproc-per-node 2 -m checkpointer.example …`. End it with SIGTERM, Ctrl-C or SIGKILL, and start the
same command again.
"""

from __future__ import annotations

import argparse
import json
import logging
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import Dataset

from . import Checkpointer, FolderDestination, ResumableBatches, TrainingState


class Squares(Dataset[tuple[torch.Tensor, torch.Tensor]]):  # type: ignore[misc]
    """Points of a plane in two classes, inside and outside a circle."""

    def __len__(self) -> int:
        """Return how many points there are."""
        return 512

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a point and its class; what is random about it follows from the index."""
        point = torch.rand(2, generator=torch.Generator().manual_seed(index)) * 2 - 1
        return point, (point.square().sum() < 0.6).long()


def main() -> None:
    """Train; the loss of each step goes to losses.jsonl of the folder."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--upload", type=Path)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--every", type=int, default=100)
    parser.add_argument("--workers", type=int, default=0)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if dist.is_torchelastic_launched():
        dist.init_process_group("gloo")
    rank = dist.get_rank() if dist.is_initialized() else 0
    ranks = dist.get_world_size() if dist.is_initialized() else 1
    torch.manual_seed(1 + rank)

    bare = torch.nn.Sequential(
        torch.nn.Linear(2, 32), torch.nn.Dropout(0.1), torch.nn.ReLU(), torch.nn.Linear(32, 2)
    )
    model = DistributedDataParallel(bare) if ranks > 1 else bare
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
    loading = {"num_workers": options.workers}
    batches = ResumableBatches(Squares(), batch_size=16, seed=1, rank=rank, ranks=ranks, options=loading)
    state = TrainingState(model, data=batches, optimizer=optimizer, scheduler=scheduler)

    destination = FolderDestination(options.upload) if options.upload else None
    options.folder.mkdir(parents=True, exist_ok=True)
    with (
        Checkpointer(
            options.folder / "checkpoints", state, destination=destination, every_steps=options.every
        ) as checkpoints,
        (options.folder / f"losses-{rank}.jsonl").open("a", buffering=1) as losses,
    ):
        step = checkpoints.restore()
        data = iter(batches)
        while step < options.steps:
            points, classes = next(data)
            loss = cross_entropy(model(points), classes)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            step += 1
            losses.write(json.dumps([step, loss.item().hex()]) + "\n")
            if checkpoints.after_step(step):
                break
        else:
            checkpoints.finish(step)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
