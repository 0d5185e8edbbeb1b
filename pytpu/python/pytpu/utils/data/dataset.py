"""Datasets: maps from an index to a sample, and streams of samples."""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

import pytpu as torch

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytpu import Generator, Tensor

    class _Subscriptable(Generic[_T_co]):
        """`Generic`, which the class has for type checkers only."""

else:

    class _Subscriptable:
        """Let `Dataset[int]` name the type of the samples. At run time it is `Dataset`."""

        def __class_getitem__(cls, item):
            return cls


class Dataset(_Subscriptable[_T_co]):
    """Base class of datasets: a map from an index to a sample.

    A subclass defines `__getitem__`, and usually `__len__`. It may define `__getitems__(indices)`, which returns the
    samples of one batch as a list. `a + b` is a `ConcatDataset`.

    Example:
        >>> import pytpu as torch
        >>> class Squares(torch.utils.data.Dataset):
        ...     def __getitem__(self, index):
        ...         return index**2
        ...     def __len__(self):
        ...         return 10
        >>> Squares()[3]
        9
        >>> len(Squares() + Squares())
        20
    """

    def __getitem__(self, index: Any) -> _T_co:
        """Return the sample at `index`."""
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[_T_co]) -> ConcatDataset[_T_co]:
        """Return both datasets as one `ConcatDataset`."""
        return ConcatDataset([self, other])


class IterableDataset(Dataset[_T_co]):
    """Base class of datasets that are streams of samples.

    A subclass defines `__iter__`. `a + b` is a `ChainDataset`. With workers, each worker process has a copy of the
    dataset: use `get_worker_info` in `__iter__` to give each worker its own part.

    Example:
        >>> import pytpu as torch
        >>> class Countdown(torch.utils.data.IterableDataset):
        ...     def __iter__(self):
        ...         return iter([3, 2, 1])
        >>> [batch.tolist() for batch in torch.utils.data.DataLoader(Countdown(), batch_size=2)]
        [[3, 2], [1]]
    """

    if TYPE_CHECKING:

        def __iter__(self) -> Iterator[_T_co]: ...

    def __add__(self, other: Dataset[_T_co]) -> ChainDataset[_T_co]:  # type: ignore[override]  # A stream is chained.
        """Return both streams as one `ChainDataset`."""
        return ChainDataset([self, other])


class TensorDataset(Dataset["tuple[Tensor, ...]"]):
    """Rows of tensors, as tuples.

    Args:
        tensors: Tensors with the same size `n` in dimension 0.

    Raises:
        AssertionError: If the sizes in dimension 0 differ.

    Example:
        >>> import pytpu as torch
        >>> dataset = torch.utils.data.TensorDataset(torch.arange(6).view(3, 2), torch.tensor([0, 1, 0]))
        >>> len(dataset)
        3
        >>> dataset[1]
        (tensor([2, 3]), tensor(1))
    """

    def __init__(self, *tensors: Tensor) -> None:
        if any(tensors[0].size(0) != tensor.size(0) for tensor in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        """Return the row `index` of each tensor."""
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)


class StackDataset(Dataset[Any]):
    """Several datasets side by side.

    A sample is a tuple of the samples of `args`, or a dict of the samples of `kwargs`.

    Args:
        args: Datasets of the same length.
        kwargs: Datasets of the same length, by name.

    Raises:
        ValueError: If the lengths differ, if there is no dataset, or if both kinds of arguments are given.

    Example:
        >>> import pytpu as torch
        >>> dataset = torch.utils.data.StackDataset(x=[1, 2, 3], y=[10, 20, 30])
        >>> dataset[1]
        {'x': 2, 'y': 20}
    """

    def __init__(self, *args: Dataset[_T_co], **kwargs: Dataset[_T_co]) -> None:
        if args and kwargs:
            # The missing space is PyTorch's.
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or"
                "``dict``- (via ``kwargs``) like input/output, but both types are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets: tuple[Dataset[Any], ...] | dict[str, Dataset[Any]] = args or kwargs
        parts = args or tuple(kwargs.values())
        self._length = _length(parts[0])
        if any(_length(part) != self._length for part in parts):
            raise ValueError("Size mismatch between datasets")

    def __getitem__(self, index: Any) -> tuple[Any, ...] | dict[str, Any]:
        """Return the samples at `index` of all datasets."""
        if isinstance(self.datasets, dict):
            return {k: dataset[index] for k, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices: list[Any]) -> list[tuple[Any, ...]] | list[dict[str, Any]]:
        """Return the samples at several indices, one call for each dataset that has `__getitems__`.

        Raises:
            ValueError: If a dataset returns another number of samples.

        Example:
            >>> import pytpu as torch
            >>> torch.utils.data.StackDataset("ab", "cd").__getitems__([0, 1])
            [('a', 'c'), ('b', 'd')]
        """
        columns = []
        for dataset in self.datasets.values() if isinstance(self.datasets, dict) else self.datasets:
            fetch = getattr(dataset, "__getitems__", None)
            if callable(fetch):
                column = fetch(indices)
                if len(column) != len(indices):
                    raise ValueError(
                        f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(column)}"
                    )
            else:
                column = [dataset[i] for i in indices]
            columns.append(column)
        rows = [tuple(column[i] for column in columns) for i in range(len(indices))]
        if isinstance(self.datasets, dict):
            return [dict(zip(self.datasets, row)) for row in rows]
        return rows

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[_T_co]):
    """Several datasets one after the other.

    Args:
        datasets: Datasets with a length.

    Raises:
        AssertionError: If there is no dataset, or one is an `IterableDataset`.

    Example:
        >>> import pytpu as torch
        >>> dataset = torch.utils.data.ConcatDataset(["ab", "cde"])
        >>> len(dataset), dataset[3], dataset[-1]
        (5, 'd', 'e')
    """

    def __init__(self, datasets: Iterable[Dataset[_T_co]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = list(itertools.accumulate(_length(d) for d in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> _T_co:
        """Return the sample at `idx`, which counts from the end if it is negative.

        Raises:
            ValueError: If `idx` is less than `-len(self)`.
        """
        if idx < 0:
            if -idx > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            idx += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, idx)
        before = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][idx - before]

    @property
    def cummulative_sizes(self) -> list[int]:
        """Deprecated name of `cumulative_sizes`."""
        warnings.warn("`cummulative_sizes` attribute is renamed to `cumulative_sizes`", FutureWarning, stacklevel=2)
        return self.cumulative_sizes


class ChainDataset(IterableDataset[_T_co]):
    """Several streams one after the other.

    Args:
        datasets: Datasets of type `IterableDataset`.

    Raises:
        AssertionError: During iteration: if a dataset is not an `IterableDataset`.

    Example:
        >>> import pytpu as torch
        >>> class Letters(torch.utils.data.IterableDataset):
        ...     def __iter__(self):
        ...         return iter("ab")
        >>> list(torch.utils.data.ChainDataset([Letters(), Letters()]))
        ['a', 'b', 'a', 'b']
    """

    def __init__(self, datasets: Iterable[Dataset[_T_co]]) -> None:
        super().__init__()
        self.datasets = datasets

    def __iter__(self) -> Iterator[_T_co]:
        for d in self.datasets:
            if not isinstance(d, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield from d

    def __len__(self) -> int:
        return sum(_length(d) for d in self.datasets)


class Subset(Dataset[_T_co]):
    """Some samples of a dataset, by index.

    Args:
        dataset: The whole dataset.
        indices: Indices of the samples, in order.

    Example:
        >>> import pytpu as torch
        >>> subset = torch.utils.data.Subset("abcdef", [4, 0])
        >>> list(subset)
        ['e', 'a']
    """

    def __init__(self, dataset: Dataset[_T_co], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, idx: Any) -> _T_co:
        """Return the sample at position `idx` of the subset. A list of positions indexes the dataset with a list."""
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list[int]) -> list[_T_co]:
        """Return the samples at several positions of the subset."""
        fetch = getattr(self.dataset, "__getitems__", None)
        if callable(fetch):
            return fetch([self.indices[i] for i in indices])
        return [self.dataset[self.indices[i]] for i in indices]

    def __len__(self) -> int:
        return len(self.indices)


def _length(dataset: Any) -> int:
    """Return the length of a dataset, which need not have one."""
    return len(dataset)


def random_split(
    dataset: Dataset[_T], lengths: Sequence[int | float], generator: Generator | None = None
) -> list[Subset[_T]]:
    """Split a dataset at random into parts that do not overlap.

    Args:
        dataset: Dataset to split.
        lengths: Sizes of the parts, which sum to `len(dataset)`, or fractions, which sum to 1. Fractions are rounded
            down. The samples that are left over go to the first parts, one each.
        generator: Generator of the permutation. `None` is the default generator.

    Returns:
        A list with one `Subset` per part.

    Raises:
        ValueError: If the lengths do not sum to the length of the dataset, or a fraction is not in `[0, 1]`.

    Example:
        >>> import pytpu as torch
        >>> generator = torch.Generator().manual_seed(42)
        >>> parts = torch.utils.data.random_split(range(10), [0.7, 0.3], generator=generator)
        >>> [len(part) for part in parts]
        [7, 3]
    """
    counts: list[Any] = list(lengths)
    if math.isclose(sum(counts), 1) and sum(counts) <= 1:
        fractions, counts = counts, []
        for i, fraction in enumerate(fractions):
            if fraction < 0 or fraction > 1:
                raise ValueError(f"Fraction at index {i} is not between 0 and 1")
            counts.append(math.floor(_length(dataset) * fraction))
        # Rounding down leaves some samples. The first parts get one each.
        for i in range(_length(dataset) - sum(counts)):
            counts[i % len(counts)] += 1
        for i, count in enumerate(counts):
            if count == 0:
                warnings.warn(
                    f"Length of split at index {i} is 0. This might result in an empty dataset.", stacklevel=2
                )
    if sum(counts) != _length(dataset):
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    indices = torch.randperm(sum(counts), generator=generator).tolist()
    return [Subset(dataset, indices[end - count : end]) for end, count in zip(itertools.accumulate(counts), counts)]
