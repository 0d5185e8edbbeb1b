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


class _IterDataPipeSerializationWrapper(IterDataPipe):
    """A data pipe that gives the samples of another one. Loaders of other packages send it to their workers."""

    def __init__(self, datapipe: IterDataPipe) -> None:
        self._datapipe = datapipe

    def __iter__(self):
        yield from self._datapipe

    def __len__(self) -> int:
        return len(self._datapipe)  # type: ignore[arg-type]  # As in PyTorch, the pipe may have no length.


class _MapDataPipeSerializationWrapper(MapDataPipe):
    """The same for data pipes with indices."""

    def __init__(self, datapipe: MapDataPipe) -> None:
        self._datapipe = datapipe

    def __getitem__(self, index):
        return self._datapipe[index]

    def __len__(self) -> int:
        return len(self._datapipe)  # type: ignore[arg-type]  # As in PyTorch, the pipe may have no length.
