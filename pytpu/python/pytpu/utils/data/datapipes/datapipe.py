"""The base classes of data pipes."""

from __future__ import annotations

from ..dataset import Dataset, IterableDataset


class IterDataPipe(IterableDataset):
    """Base class of iterable datasets that are built from other ones."""

    def reset(self) -> None:
        """Start from the beginning. Does nothing by default."""


class MapDataPipe(Dataset):
    """Base class of datasets with indices that are built from other ones."""


class DFIterDataPipe(IterDataPipe):
    """Base class of iterable datasets of data frames."""
