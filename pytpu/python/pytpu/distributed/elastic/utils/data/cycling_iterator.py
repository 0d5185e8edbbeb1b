"""An iterator of several epochs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

__all__ = ["CyclingIterator"]

_T = TypeVar("_T")


class CyclingIterator(Generic[_T]):
    """Iterate over several epochs.

    Args:
        n: number of epochs, with those before `start_epoch`.
        generator_fn: a function of the number of an epoch, which returns the epoch's iterator.
        start_epoch: number of the first epoch.

    Example:
        >>> from pytpu.distributed.elastic.utils.data import CyclingIterator
        >>> list(CyclingIterator(2, lambda epoch: iter([epoch, 10 + epoch])))
        [0, 10, 1, 11]
    """

    def __init__(self, n: int, generator_fn: Callable[[int], Iterator[_T]], start_epoch: int = 0) -> None:
        self._end = n
        self._generator_fn = generator_fn
        self._epoch = start_epoch
        self._iterator = generator_fn(start_epoch)

    def __iter__(self) -> CyclingIterator[_T]:
        return self

    def __next__(self) -> _T:
        while True:
            try:
                return next(self._iterator)
            except StopIteration:
                if self._epoch + 1 >= self._end:
                    raise
                self._epoch += 1
                self._iterator = self._generator_fn(self._epoch)
