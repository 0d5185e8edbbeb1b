"""Samplers, which choose the order of the samples of a dataset.

They draw from generators in PyTorch's order, so equal seeds give equal orders.
"""

from __future__ import annotations

import itertools
import math
from typing import TypeVar

import pytpu as torch

from .dataset import _length, _Subscriptable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence, Sized

    from pytpu import Generator

    from .dataset import Dataset


_T_co = TypeVar("_T_co", covariant=True)


def draw_seed(generator: Generator | None = None) -> int:
    """Draw a seed of 63 bits, from which another generator is made.

    Args:
        generator: Generator that the seed comes from. `None` is the default generator.
    """
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())


class Sampler(_Subscriptable[_T_co]):
    """Base class of samplers, which choose the order of samples.

    A subclass defines `__iter__`, which gives indices, or lists of indices for a batch sampler.

    Args:
        data_source: Accepted for compatibility.

    Example:
        >>> import pytpu as torch
        >>> class Backwards(torch.utils.data.Sampler):
        ...     def __init__(self, n):
        ...         self.n = n
        ...     def __iter__(self):
        ...         return iter(range(self.n - 1, -1, -1))
        ...     def __len__(self):
        ...         return self.n
        >>> loader = torch.utils.data.DataLoader([10, 20, 30], sampler=Backwards(3))
        >>> [batch.item() for batch in loader]
        [30, 20, 10]
    """

    def __init__(self, data_source: Sized | None = None) -> None:
        pass

    def __iter__(self) -> Iterator[_T_co]:
        raise NotImplementedError


class SequentialSampler(Sampler[int]):
    """Give all indices in order.

    Args:
        data_source: Dataset with a length.

    Example:
        >>> import pytpu as torch
        >>> list(torch.utils.data.SequentialSampler("abc"))
        [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Give indices in random order.

    Args:
        data_source: Dataset with a length.
        replacement: If `True`, draw each index on its own, so that indices can repeat.
        num_samples: Number of indices per epoch. `None` is the length of the dataset.
        generator: Generator of the order. `None` draws a new seed from the default generator each epoch.

    Raises:
        TypeError: If `replacement` is not a `bool`.
        ValueError: If `num_samples` is not a positive integer.

    Example:
        >>> import pytpu as torch
        >>> sorted(torch.utils.data.RandomSampler("abc"))
        [0, 1, 2]
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={self.num_samples}")

    @property
    def num_samples(self) -> int:
        """Number of indices per epoch."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n = len(self.data_source)
        generator = self.generator
        if generator is None:
            seed = draw_seed()
            generator = torch.Generator()
            generator.manual_seed(seed)
        if self.replacement:
            for _ in range(self.num_samples // 32):
                yield from torch.randint(high=n, size=(32,), dtype=torch.int64, generator=generator).tolist()
            yield from torch.randint(
                high=n, size=(self.num_samples % 32,), dtype=torch.int64, generator=generator
            ).tolist()
        else:
            for _ in range(self.num_samples // n):
                yield from torch.randperm(n, generator=generator).tolist()
            # Draw once more even if nothing is left: an explicit generator then has the state that it has in PyTorch.
            yield from torch.randperm(n, generator=generator).tolist()[: self.num_samples % n]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Give chosen indices in random order.

    Args:
        indices: Indices to choose from.
        generator: Generator of the order. `None` is the default generator.

    Example:
        >>> import pytpu as torch
        >>> sorted(torch.utils.data.SubsetRandomSampler([7, 3, 5]))
        [3, 5, 7]
    """

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in torch.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Draw indices with given probabilities.

    Args:
        weights: Weight of each index, in one dimension. The weights need not sum to 1.
        num_samples: Number of indices per epoch.
        replacement: If `False`, no index is drawn twice in an epoch.
        generator: Generator of the draws. `None` is the default generator.

    Raises:
        ValueError: If `num_samples` is not a positive integer, `replacement` is not a `bool`, or `weights` does not
            have one dimension.

    Example:
        >>> import pytpu as torch
        >>> list(torch.utils.data.WeightedRandomSampler([0.0, 1.0, 0.0], num_samples=4))
        [1, 1, 1, 1]
    """

    def __init__(
        self, weights: Sequence[float], num_samples: int, replacement: bool = True, generator: Generator | None = None
    ) -> None:
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.weights = torch.as_tensor(weights, dtype=torch.double)
        if self.weights.dim() != 1:
            shape = tuple(self.weights.shape)
            raise ValueError(f"weights should be a 1d sequence but given weights have shape {shape}")
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = torch.multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler["list[int]"]):
    """Give lists of indices, one list per batch.

    Args:
        sampler: Sampler of single indices.
        batch_size: Number of indices per batch.
        drop_last: If `True`, leave out a last batch that is smaller.

    Raises:
        ValueError: If `batch_size` is not a positive integer, or `drop_last` is not a `bool`.

    Example:
        >>> import pytpu as torch
        >>> list(torch.utils.data.BatchSampler(range(5), batch_size=2, drop_last=False))
        [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Sampler[int] | Iterable[int], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if self.drop_last and len(batch) < self.batch_size:
                return
            yield batch

    def __len__(self) -> int:
        n = _length(self.sampler)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


class DistributedSampler(Sampler[_T_co]):
    """Give one process of several its part of a dataset.

    Process `rank` takes every `num_replicas`-th index, from index `rank` on. Call `set_epoch` before each epoch, so
    that epochs have different orders.

    Args:
        dataset: Dataset with a length.
        num_replicas: Number of processes. `None` asks `torch.distributed`.
        rank: Number of this process, in `[0, num_replicas)`. `None` asks `torch.distributed`.
        shuffle: If `True`, shuffle the indices, in the same way in all processes.
        seed: Seed of the order. It must be the same in all processes.
        drop_last: If `True`, leave out the last samples, so that all processes get the same number. If `False`,
            repeat the first samples instead.

    Raises:
        RuntimeError: If a number is asked from `torch.distributed`, which is not available.
        ValueError: If `rank` is not in `[0, num_replicas)`.

    Example:
        >>> import pytpu as torch
        >>> sampler = torch.utils.data.DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False)
        >>> list(sampler)
        [1, 3, 0]
    """

    def __init__(
        self,
        dataset: Dataset,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            import pytpu.distributed as dist

            if not dist.is_available():
                raise RuntimeError("Requires distributed package to be available")
            num_replicas = dist.get_world_size() if num_replicas is None else num_replicas
            rank = dist.get_rank() if rank is None else rank
        if rank >= num_replicas or rank < 0:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        n = _length(dataset)
        if drop_last and n % num_replicas != 0:
            self.num_samples = math.ceil((n - num_replicas) / num_replicas)
        else:
            self.num_samples = math.ceil(n / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[_T_co]:
        n = _length(self.dataset)
        if self.shuffle:
            generator = torch.Generator()
            generator.manual_seed(self.seed + self.epoch)
            indices = torch.randperm(n, generator=generator).tolist()
        else:
            indices = list(range(n))
        if self.drop_last:
            indices = indices[: self.total_size]
        else:
            # Repeat the first indices, so that every process gets the same number.
            indices = list(itertools.islice(itertools.cycle(indices), self.total_size)) if indices else indices
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the epoch, which changes the order.

        Args:
            epoch: Number of the epoch.
        """
        self.epoch = epoch
