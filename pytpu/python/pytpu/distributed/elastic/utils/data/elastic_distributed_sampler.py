"""A `DistributedSampler` that can start inside an epoch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from .....utils.data.distributed import DistributedSampler

__all__ = ["ElasticDistributedSampler"]


class ElasticDistributedSampler(DistributedSampler):
    """Divide the samples from `start_index` on between the ranks, in random order.

    Args:
        dataset: the dataset.
        num_replicas: number of ranks. `None` takes the size of the default group.
        rank: rank of this process. `None` takes the rank in the default group.
        start_index: the first sample that is not done yet.
    """

    def __init__(
        self, dataset: Any, num_replicas: int | None = None, rank: int | None = None, start_index: int = 0
    ) -> None:
        super().__init__(dataset=dataset, num_replicas=num_replicas, rank=rank)
        self._size = len(dataset)
        if start_index >= self._size:
            raise ValueError(f"Start index {start_index} should be less than dataset size {self._size}")
        self.start_index = start_index
        self.num_samples = math.ceil((self._size - start_index) / self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        from ..... import Generator, randperm

        generator = Generator()
        generator.manual_seed(self.epoch)
        left = self._size - self.start_index
        indices = [self.start_index + i for i in randperm(left, generator=generator).tolist()]
        # Every rank gets the same number of samples: the first ones come again.
        indices = [indices[i % left] for i in range(self.total_size)]
        return iter(indices[self.rank : self.total_size : self.num_replicas])
