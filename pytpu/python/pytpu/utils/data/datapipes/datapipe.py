"""The base classes of data pipes."""

from ..dataset import Dataset, IterableDataset


class IterDataPipe(IterableDataset):
    """An iterable dataset that other ones are made of."""

    def reset(self):
        """Start from the beginning."""


class MapDataPipe(Dataset):
    """A dataset with indices that other ones are made of."""


class DFIterDataPipe(IterDataPipe):
    """An iterable dataset of data frames."""
