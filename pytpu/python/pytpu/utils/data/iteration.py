"""How batches are taken from datasets, and the parts that loaders of other packages are built from.

`torchdata.stateful_dataloader` has a loader that inherits from `DataLoader` and `_BaseDataLoaderIter`. It names the
classes of this file, and attributes of the iterator.
"""

from __future__ import annotations

import itertools
import warnings
from typing import Any

from .datapipes.datapipe import IterDataPipe
from .graph_settings import apply_sharding
from .sampler import Sampler, draw_seed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class _InfiniteConstantSampler(Sampler):
    """Sampler of a stream: it gives `None` without end."""

    def __iter__(self):
        while True:
            yield None


def fetch(dataset: Any, indices: Any, auto_collate: bool, collate_fn: Callable[..., Any]) -> Any:
    """Return the batch of a map-style dataset at `indices`."""
    if not auto_collate:
        return collate_fn(dataset[indices])
    if hasattr(dataset, "__getitems__") and dataset.__getitems__:
        return collate_fn(dataset.__getitems__(indices))
    return collate_fn([dataset[i] for i in indices])


def fetch_stream(
    iterator: Iterator[Any], indices: Any, auto_collate: bool, collate_fn: Callable[..., Any], drop_last: bool
) -> Any:
    """Return the next batch of a stream, or raise `StopIteration` at its end."""
    if not auto_collate:
        return collate_fn(next(iterator))
    samples = list(itertools.islice(iterator, len(indices)))
    if not samples or (drop_last and len(samples) < len(indices)):
        raise StopIteration
    return collate_fn(samples)


class _MapFetcher:
    """Batches of a map-style dataset."""

    def __init__(self, dataset, auto_collation, collate_fn, drop_last):
        self.dataset, self.auto_collation, self.collate_fn = dataset, auto_collation, collate_fn

    def fetch(self, indices):
        """Return the batch at `indices`."""
        return fetch(self.dataset, indices, self.auto_collation, self.collate_fn)


class _StreamFetcher:
    """Batches of a stream. `ended` says whether the last batch was a smaller one."""

    def __init__(self, dataset, auto_collation, collate_fn, drop_last):
        self.dataset, self.auto_collation, self.collate_fn, self.drop_last = (
            dataset,
            auto_collation,
            collate_fn,
            drop_last,
        )
        self.dataset_iter, self.ended = iter(dataset), False

    def fetch(self, indices):
        """Return the next batch.

        Raises:
            StopIteration: at the end of the stream.
        """
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.dataset_iter))
        samples = list(itertools.islice(self.dataset_iter, len(indices)))
        self.ended = len(samples) < len(indices)
        if not samples or (self.drop_last and self.ended):
            raise StopIteration
        return self.collate_fn(samples)


class _DatasetKind:
    """Names of the two kinds of datasets."""

    Map, Iterable = 0, 1

    @staticmethod
    def create_fetcher(kind, dataset, auto_collation, collate_fn, drop_last):
        """Return an object whose `fetch` makes batches of a dataset."""
        made = _MapFetcher if kind == _DatasetKind.Map else _StreamFetcher
        return made(dataset, auto_collation, collate_fn, drop_last)


class _BaseDataLoaderIter:
    """Iterator over the batches of one epoch. A subclass defines `_next_data`, or `__next__`."""

    def __init__(self, loader):
        self._take_attributes(loader)
        self._begin_epoch(loader)
        # PyTorch draws it also where no worker needs it, which changes the state of the generator.
        self._base_seed = draw_seed(loader.generator)

    def _take_attributes(self, loader):
        self._dataset, self._dataset_kind = loader.dataset, loader._dataset_kind
        self._auto_collation, self._collate_fn, self._drop_last = (
            loader._auto_collation,
            loader.collate_fn,
            loader.drop_last,
        )
        self._index_sampler, self._num_workers, self._timeout = (
            loader._index_sampler,
            loader.num_workers,
            loader.timeout,
        )
        self._persistent_workers = loader.persistent_workers
        # Data pipes are not divided among ranks, and page-locked memory is not needed.
        self._world_size, self._rank = 1, 0
        self._pin_memory, self._pin_memory_device = False, None

    def _reset(self, loader, first_iter=False):
        """Begin another epoch. speechbrain replaces this method, so `__init__` does not call it."""
        self._begin_epoch(loader)

    def _begin_epoch(self, loader):
        self._sampler_iter, self._num_yielded = iter(self._index_sampler), 0
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        self._shared_seed = draw_seed(loader.generator) if isinstance(self._dataset, IterDataPipe) else None

    def _next_index(self):
        """Return the indices of the next batch."""
        return next(self._sampler_iter)

    def _next_data(self):
        raise NotImplementedError

    def __iter__(self):
        return self

    def __next__(self):
        batch = self._next_data()
        self._num_yielded += 1
        if self._dataset_kind == _DatasetKind.Iterable:
            length = self._IterableDataset_len_called
            warn_beyond_length(self._dataset, self._num_workers, length, self._num_yielded)
        return batch

    def __len__(self):
        return len(self._index_sampler)


def warn_beyond_length(dataset: Any, num_workers: int, length: int | None, yielded: int) -> None:
    """Warn if a stream gives more batches than the length of its dataset allows."""
    if length is None or yielded <= length:
        return
    text = (
        f"Length of IterableDataset {dataset} was reported to be {length}(when accessing len(dataloader)), but "
        f"{yielded} "
        "samples have been fetched. "
    )
    if num_workers > 0:
        text += (
            "For multiprocessing data-loading, this could be caused by not properly configuring the IterableDataset "
            "replica at "
            "each worker. Please see https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for "
            "examples."
        )
    warnings.warn(text, stacklevel=3)


def _sharding_worker_init_fn(
    worker_init_fn: Callable[[int], None] | None, world_size: int, rank_id: int, worker_id: int
) -> None:
    """Divide a data pipe among the workers of all ranks, and call the function of the user."""
    from .worker import get_worker_info

    info: Any = get_worker_info()
    apply_sharding(info.dataset, world_size * info.num_workers, rank_id * info.num_workers + worker_id)
    if worker_init_fn is not None:
        worker_init_fn(worker_id)
