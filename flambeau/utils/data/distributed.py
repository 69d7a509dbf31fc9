"""A sampler for several processes, each of which takes a part of the dataset."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from flambeau.runtime.generator import Generator
from flambeau.tensor.functions_random import randperm
from flambeau.utils.data.sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[int]):
    """Every `num_replicas`-th index from `rank` on, shuffled by `seed` plus the epoch that `set_epoch` gives.

    The indices are repeated from the start to a multiple of `num_replicas`, or with `drop_last` cut. Raises RuntimeError without
    `num_replicas` and `rank`, and ValueError for a rank out of range.
    """

    def __init__(
        self, dataset: Any, num_replicas: int | None = None, rank: int | None = None, shuffle: bool = True, seed: int = 0,
        drop_last: bool = False,
    ) -> None:  # fmt: skip
        if num_replicas is None or rank is None:
            raise RuntimeError("Requires distributed package to be available; pass num_replicas and rank to DistributedSampler.")
        if rank >= num_replicas or rank < 0:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        whole = len(dataset) % num_replicas == 0
        self.num_samples = len(dataset) // num_replicas if drop_last or whole else math.ceil(len(dataset) / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        size = len(self.dataset)
        order = list(range(size))
        if self.shuffle:
            order = randperm(size, generator=Generator().manual_seed(self.seed + self.epoch)).tolist()
        repeats = math.ceil(self.total_size / size) if size else 0
        return iter((order * repeats)[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, so that each has an order of its own."""
        self.epoch = epoch
