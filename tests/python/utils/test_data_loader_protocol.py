"""The protocol of the iterators of `DataLoader` that libraries use: ultralytics, fastai."""

import itertools

import pytest

import pytpu as torch
from pytpu.utils.data import DataLoader, IterableDataset
from pytpu.utils.data.dataloader import _DatasetKind, _MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter


def test_a_new_iterator_draws_its_seed_from_the_generator():
    generator = torch.Generator().manual_seed(3)
    iterator = DataLoader(torch.arange(4), 2, generator=generator)._get_iterator()
    expected = torch.Generator().manual_seed(3)
    assert iterator._base_seed == torch.empty((), dtype=torch.int64).random_(generator=expected).item()
    assert torch.equal(generator.get_state(), expected.get_state())
    assert [batch.tolist() for batch in iterator] == [[0, 1], [2, 3]]


class Loader(IterableDataset):
    """A loader that is no `DataLoader`, with the attributes that fastai's has."""

    _IterableDataset_len_called = generator = prefetch_factor = None
    _auto_collation, drop_last, in_order, pin_memory, persistent_workers, timeout = False, False, True, False, False, 0
    _index_sampler, _dataset_kind = itertools.count(), _DatasetKind.Iterable
    worker_init_fn = multiprocessing_context = None

    def __init__(self, num_workers=0):
        self.dataset, self.num_workers, self.prefetch_factor = self, num_workers, 2

    def collate_fn(self, batch):
        """Return the batch itself."""
        return batch

    def __iter__(self):
        yield from (torch.tensor([1]), torch.tensor([2]))


def test_a_loader_of_another_library_is_iterated():
    assert [b.tolist() for b in _SingleProcessDataLoaderIter(Loader())] == [[1], [2]]
    assert [b.tolist() for b in _MultiProcessingDataLoaderIter(Loader(1))] == [[1], [2]]


@pytest.mark.parametrize("persistent", [False, True])
def test_workers_are_processes_that_can_be_ended(persistent):
    loader = DataLoader(torch.arange(8), 2, num_workers=2, persistent_workers=persistent)
    iterator = iter(loader)
    next(iterator)
    assert len(iterator._workers) == 2 and all(worker.is_alive() for worker in iterator._workers)
    workers = list(iterator._workers)
    iterator._shutdown_workers()
    assert not any(worker.is_alive() for worker in workers)
    assert (loader._iterator is iterator) == persistent
