"""Batches of a data set in a seeded order that can be entered anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader

from .stopping import leave_signals_to_parent, signals_held

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch.utils.data import Dataset

__all__ = ["ResumableBatches"]


class ResumableBatches:
    """Endless batches: each epoch is a permutation of its own, and each rank gets its share of it.

    The position counts the batches that were handed out, not those that data workers have prepared ahead. The
    loader draws no number from torch's global generator, whose state is then the same with and without an
    interruption. What a data set draws at random must follow from the index of the element alone (a generator
    seeded with it): the generators of data workers begin anew with each epoch and each restart.

    Args:
        dataset: With a length, and elements by index.
        batch_size: Of each rank.
        seed: Of the order.
        rank: Of this process.
        ranks: How many there are; what does not fill a batch on every rank is left out in that epoch.
        options: More arguments of the DataLoader, such as {"num_workers": 2}.

    Raises:
        ValueError: The data set does not fill one batch on every rank.
    """

    def __init__(
        self,
        dataset: Dataset[Any],
        *,
        batch_size: int,
        seed: int,
        rank: int = 0,
        ranks: int = 1,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._dataset = dataset
        self._length = len(dataset)
        self._batch_size = batch_size
        self._seed = seed
        self._rank = rank
        self._ranks = ranks
        self._options = dict(options or {})
        self._epoch = 0
        self._batch = 0
        self.batches_per_epoch = self._length // (batch_size * ranks)
        if not self.batches_per_epoch:
            msg = f"{self._length} elements do not fill a batch of {batch_size} on {ranks} ranks"
            raise ValueError(msg)

    def __iter__(self) -> Iterator[Any]:
        """Yield batches from the present position on."""
        while True:
            generator = torch.Generator().manual_seed(self._seed + self._epoch)
            loader = DataLoader(
                self._dataset,
                batch_sampler=self._order(generator)[self._batch :],
                generator=generator,
                worker_init_fn=leave_signals_to_parent,
                **self._options,
            )
            with signals_held():  # a worker cannot say that it ignores them before it runs
                batches = iter(loader)
            for batch in batches:
                self._batch += 1
                yield batch
            self._epoch, self._batch = self._epoch + 1, 0

    def state_dict(self) -> dict[str, int]:
        """Return the position, and what it depends on."""
        return {"epoch": self._epoch, "batch": self._batch, **self._fixed()}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go to a position; batches that are asked for from now on come from there.

        Raises:
            ValueError: It is one in other data: their length, the batch size, the seed or the ranks differ.
        """
        fixed = self._fixed()
        if differing := [name for name in fixed if state[name] != fixed[name]]:
            said = ", ".join(f"{name} is {fixed[name]} instead of {state[name]}" for name in differing)
            msg = f"the checkpoint's position is one in other data: {said}"
            raise ValueError(msg)
        self._epoch, self._batch = state["epoch"], state["batch"]

    def _fixed(self) -> dict[str, int]:
        return {
            "length": self._length,
            "batch_size": self._batch_size,
            "seed": self._seed,
            "ranks": self._ranks,
        }

    def _order(self, generator: torch.Generator) -> list[list[int]]:
        """Return the indices of this rank's batches in this epoch."""
        order = torch.randperm(self._length, generator=generator)
        whole = self.batches_per_epoch * self._batch_size * self._ranks
        batches: list[list[int]] = (
            order[:whole].view(-1, self._ranks, self._batch_size)[:, self._rank].tolist()
        )
        return batches
