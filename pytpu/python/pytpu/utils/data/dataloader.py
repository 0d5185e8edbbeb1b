"""`DataLoader`: batches of a dataset, made here or by worker processes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import pytpu as torch

from .collate import default_collate, default_convert
from .dataset import IterableDataset, _length, _Subscriptable
from .iteration import (
    _BaseDataLoaderIter,
    _DatasetKind,
    _InfiniteConstantSampler,
    _sharding_worker_init_fn as _sharding_worker_init_fn,
)
from .sampler import BatchSampler, RandomSampler, SequentialSampler
from .worker import (
    WorkerPool,
    _MultiProcessingDataLoaderIter as _MultiProcessingDataLoaderIter,
    get_worker_info,
    like,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from multiprocessing.context import BaseContext

    from pytpu import Generator

    from .dataset import Dataset
    from .sampler import Sampler


_T_co = TypeVar("_T_co", covariant=True)
_collate_fn_t = Callable[[list], Any]
_worker_init_fn_t = Callable[[int], None]

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]


# Attributes that an iterator may already use.
_FIXED = {"batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"}


def _context(given):
    """Return the requested context of `multiprocessing`."""
    import multiprocessing

    if isinstance(given, str):
        methods = multiprocessing.get_all_start_methods()
        if given not in methods:
            raise ValueError(
                f"multiprocessing_context option should specify a valid start method in {methods!r}, but got "
                f"multiprocessing_context={given!r}"
            )
        return multiprocessing.get_context(given)
    if not isinstance(given, multiprocessing.context.BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string specifying the start method, "
            "but got "
            f"multiprocessing_context={given}"
        )
    return given


class DataLoader(_Subscriptable[_T_co]):
    """Iterate over a dataset in batches.

    Args:
        dataset: Dataset with `__getitem__` and `__len__`, or an `IterableDataset`.
        batch_size: Number of samples per batch. `None` turns batches off: each sample comes alone.
        shuffle: If `True`, take the samples in a new random order each epoch.
        sampler: Sampler or other iterable of indices. It replaces `shuffle`.
        batch_sampler: Iterable of lists of indices. It replaces `batch_size`, `shuffle`, `sampler` and `drop_last`.
        num_workers: Number of worker processes. `0` loads in this process.
        collate_fn: Function that combines a list of samples to a batch. `None` is `default_collate`, or
            `default_convert` without batches.
        pin_memory: If `True`, call `pin_memory` on the tensors of a batch.
        drop_last: If `True`, leave out a last batch that is smaller.
        timeout: Seconds to wait for a worker. `0` waits without a limit.
        worker_init_fn: Function that each worker calls with its number when it starts.
        multiprocessing_context: Context of `multiprocessing`, or the name of a start method. `None` is the default.
        generator: Generator of the order and of the seeds of the workers. `None` is the default generator.
        prefetch_factor: Number of batches that each worker loads in advance. `None` is 2 with workers.
        persistent_workers: If `True`, keep the workers between epochs.
        pin_memory_device: Accepted for compatibility.
        in_order: If `True`, give batches in the order of the sampler. If `False`, in the order in which they are ready.

    Raises:
        ValueError: If arguments exclude each other or are out of their range.
        TypeError: If `multiprocessing_context` is neither a context nor a name.
        RuntimeError: During iteration: if a worker dies, or takes longer than `timeout`.

    Example:
        >>> import pytpu as torch
        >>> dataset = torch.utils.data.TensorDataset(torch.arange(5.0), torch.arange(5))
        >>> for x, y in torch.utils.data.DataLoader(dataset, batch_size=2):
        ...     print(x, y)
        tensor([0., 1.]) tensor([0, 1])
        tensor([2., 3.]) tensor([2, 3])
        tensor([4.]) tensor([4])
    """

    def __init__(
        self,
        dataset: Dataset[_T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler | Iterable | None = None,
        batch_sampler: Sampler[list] | Iterable[list] | None = None,
        num_workers: int = 0,
        collate_fn: _collate_fn_t | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: _worker_init_fn_t | None = None,
        multiprocessing_context: BaseContext | str | None = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        if num_workers < 0:
            raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError(
                "prefetch_factor option could only be specified in multiprocessing."
                "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
            )
        if num_workers > 0 and prefetch_factor is None:
            prefetch_factor = 2
        if prefetch_factor is not None and prefetch_factor < 0:
            raise ValueError("prefetch_factor option should be non-negative")
        if prefetch_factor == 0:
            raise AssertionError("prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter")
        if persistent_workers and num_workers == 0:
            raise ValueError("persistent_workers option needs num_workers > 0")
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        self.persistent_workers = persistent_workers
        self.generator = generator
        self.check_worker_number_rationality()
        self._dataset_kind = _DatasetKind.Iterable if isinstance(dataset, IterableDataset) else _DatasetKind.Map
        sized: Any = dataset
        if self._streams:
            if shuffle not in (False, None):
                raise ValueError(
                    f"DataLoader with IterableDataset: expected unspecified shuffle option, but got shuffle={shuffle}"
                )
            if sampler is not None:
                raise ValueError(
                    f"DataLoader with IterableDataset: expected unspecified sampler option, but got sampler={sampler}"
                )
            if batch_sampler is not None:
                raise ValueError(
                    "DataLoader with IterableDataset: expected unspecified batch_sampler option, but got "
                    f"batch_sampler={batch_sampler}"
                )
        shuffle = bool(shuffle)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
                )
            batch_size = None
            drop_last = False
        elif batch_size is None:
            if drop_last:
                raise ValueError(
                    "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
                )
        if sampler is None:
            if self._streams:
                sampler = _InfiniteConstantSampler()
            elif shuffle:
                sampler = RandomSampler(sized, generator=generator)
            else:
                sampler = SequentialSampler(sized)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.collate_fn = collate_fn or (default_collate if batch_sampler is not None else default_convert)
        # Persistent workers, and the iterator that used them last.
        self._pool: WorkerPool | None = None
        self._iterator: Iterator[Any] | None = None
        # Length of a stream as `len` returned it. The stream may give more.
        self._IterableDataset_len_called: int | None = None
        self.__initialized = True

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and self.__dict__.get("_DataLoader__initialized"):
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> BaseContext | None:
        """Context of `multiprocessing` that starts the workers, or `None` for the default.

        The name of a start method can be assigned.

        Raises:
            ValueError: On assignment: if there are no workers, or the name is unknown.
            TypeError: On assignment: if the value is neither a context nor a name.
        """
        return self._multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, given: BaseContext | str | None) -> None:
        if given is not None:
            if self.num_workers == 0:
                raise ValueError(
                    "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
                    f"num_workers={self.num_workers}"
                )
        self._multiprocessing_context = None if given is None else _context(given)

    def check_worker_number_rationality(self) -> None:
        """Warn if there are more workers than processors."""
        available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        if available is not None and self.num_workers > available:
            warnings.warn(
                f"This DataLoader will create {self.num_workers} worker processes in total. Our suggested max number "
                f"of worker in current system is {available}, which is smaller than what this DataLoader is going to "
                "create. Please be aware that excessive worker creation might get DataLoader running slow or even "
                "freeze, lower the worker number to avoid potential slowness/freeze if necessary.",
                stacklevel=3,
            )

    @property
    def _streams(self):
        return self._dataset_kind == _DatasetKind.Iterable

    @property
    def _auto_collation(self):
        return self.batch_sampler is not None

    @property
    def _index_sampler(self):
        return self.batch_sampler if self._auto_collation else self.sampler

    def __len__(self) -> int:
        """Return the number of batches of one epoch.

        For an `IterableDataset` this is computed from the length of the dataset, which may be wrong with workers.
        """
        if not self._streams:
            return len(self._index_sampler)
        length = self._IterableDataset_len_called = _length(self.dataset)
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        """Return an iterator over the batches of one epoch."""
        iterator = self._get_iterator()
        if self.persistent_workers:
            self._iterator = iterator
        return iterator

    def _get_iterator(self):
        """Return a new iterator. ultralytics calls it."""
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        return _MultiProcessingDataLoaderIter(self)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Iterator over the batches of one epoch, made in this process."""

    def __init__(self, loader):
        super().__init__(loader)
        self._pin_memory = loader.pin_memory
        # The base class has the attributes that PyTorch's iterators have. fastai gives a loader of its own.
        self._dataset_fetcher = _DatasetKind.create_fetcher(
            self._dataset_kind, self._dataset, self._auto_collation, self._collate_fn, self._drop_last
        )

    def _next_data(self):
        batch = self._dataset_fetcher.fetch(self._next_index())
        return pinned(batch) if self._pin_memory else batch


def pinned(batch: Any) -> Any:
    """Return a batch with its tensors in pinned memory."""
    if isinstance(batch, torch.Tensor):
        return batch.pin_memory()
    if isinstance(batch, dict):
        return like(batch, {k: pinned(v) for k, v in batch.items()})
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(pinned(v) for v in batch))
    if isinstance(batch, (tuple, list)):
        return type(batch)(pinned(v) for v in batch)
    return batch.pin_memory() if hasattr(batch, "pin_memory") else batch
