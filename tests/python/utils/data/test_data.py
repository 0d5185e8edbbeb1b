"""Datasets, samplers and the loader: orders, seeds, workers."""

import collections
import gc
import multiprocessing
import os
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

import pytpu as torch
from pytpu._utils import ExceptionWrapper
from pytpu.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    IterDataPipe,
    RandomSampler,
    SequentialSampler,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    get_worker_info,
    random_split,
)
from pytpu.utils.data.dataloader import _BaseDataLoaderIter, _DatasetKind
from pytpu.utils.data.graph_settings import apply_random_seed, apply_sharding, apply_shuffle_settings


class Squares(Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, i):
        return {"x": torch.tensor([float(i * i)]), "i": i}


class Failing(Squares):
    def __getitem__(self, i):
        raise KeyError(f"no sample {i}")


class Stream(IterableDataset):
    """Yield this worker's share of 0 to 6."""

    def __iter__(self):
        info = get_worker_info()
        return iter(range(7)) if info is None else iter(range(info.id, 7, info.num_workers))


def numbers(loader):
    return [batch[0].tolist() for batch in loader]


def test_batches_in_order():
    data = TensorDataset(torch.arange(7), torch.arange(7) * 2)
    assert numbers(DataLoader(data, batch_size=3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert numbers(DataLoader(data, batch_size=3, drop_last=True)) == [[0, 1, 2], [3, 4, 5]]
    assert len(DataLoader(data, batch_size=3)) == 3 and len(DataLoader(data, batch_size=3, drop_last=True)) == 2


def test_shuffle_draws_as_pytorch_does():
    # The loader draws its own seed, and at the first batch a seed of the permutation.
    torch.manual_seed(7)
    torch.empty((), dtype=torch.int64).random_()
    seed = int(torch.empty((), dtype=torch.int64).random_())
    after = torch.rand(1)
    want = torch.randperm(10, generator=torch.Generator().manual_seed(seed)).tolist()
    torch.manual_seed(7)
    got = [
        i
        for batch in DataLoader(TensorDataset(torch.arange(10)), batch_size=4, shuffle=True)
        for i in batch[0].tolist()
    ]
    assert got == want
    assert torch.equal(torch.rand(1), after)


def test_shuffle_changes_from_epoch_to_epoch_and_covers_all():
    loader = DataLoader(TensorDataset(torch.arange(20)), batch_size=20, shuffle=True)
    first, second = numbers(loader)[0], numbers(loader)[0]
    assert first != second and sorted(first) == sorted(second) == list(range(20))


def test_random_split_follows_one_permutation():
    torch.manual_seed(3)
    want = torch.randperm(10).tolist()
    torch.manual_seed(3)
    a, b = random_split(range(10), [7, 3])
    assert a.indices == want[:7] and b.indices == want[7:]
    assert [len(part) for part in random_split(range(10), [0.5, 0.25, 0.25])] == [6, 2, 2]
    with pytest.raises(ValueError, match="Sum of input lengths does not equal the length of the input dataset!"):
        random_split(range(10), [1, 2])


def test_samplers():
    assert list(SequentialSampler(range(3))) == [0, 1, 2]
    assert list(BatchSampler(range(5), 2, True)) == [[0, 1], [2, 3]]
    drawn = list(RandomSampler(range(3), replacement=True, num_samples=100))
    assert len(drawn) == 100 and set(drawn) == {0, 1, 2}
    assert set(WeightedRandomSampler([0.0, 1.0], 20)) == {1}
    with pytest.raises(ValueError, match="num_samples should be a positive integer value, but got num_samples=0"):
        RandomSampler([])


def test_distributed_sampler_gives_every_process_its_share():
    shares = [list(DistributedSampler(range(5), 2, rank, shuffle=False)) for rank in range(2)]
    assert shares == [[0, 2, 4], [1, 3, 0]]


def test_datasets():
    joined = ConcatDataset([range(3), range(10, 12)])
    assert len(joined) == 5 and [joined[i] for i in range(5)] == [0, 1, 2, 10, 11] and joined[-1] == 11
    assert [Subset("abc", [2, 0])[i] for i in range(2)] == ["c", "a"]
    with pytest.raises(AssertionError, match="Size mismatch between tensors"):
        TensorDataset(torch.zeros(2), torch.zeros(3))


def test_collate_keeps_structure():
    batch = default_collate([{"a": 1, "b": (np.float64(2.0), "x")}, {"a": 3, "b": (np.float64(4.0), "y")}])
    assert batch["a"].tolist() == [1, 3] and batch["a"].dtype == torch.int64
    assert batch["b"][0].tolist() == [2.0, 4.0] and batch["b"][0].dtype == torch.float64
    assert list(batch["b"][1]) == ["x", "y"]
    assert default_collate([1.5, 2.5]).dtype == torch.float64
    with pytest.raises(RuntimeError, match="each element in list of batch should be of equal size"):
        default_collate([[1], [1, 2]])
    with pytest.raises(TypeError, match="default_collate: batch must contain tensors"):
        default_collate([object()])


def test_options_that_exclude_each_other():
    data = TensorDataset(torch.arange(3))
    with pytest.raises(ValueError, match="sampler option is mutually exclusive with shuffle"):
        DataLoader(data, sampler=SequentialSampler(data), shuffle=True)
    with pytest.raises(ValueError, match="prefetch_factor option could only be specified in multiprocessing"):
        DataLoader(data, prefetch_factor=2)
    with pytest.raises(ValueError, match="expected unspecified shuffle option, but got shuffle=True"):
        DataLoader(Stream(), shuffle=True)


def test_workers_give_the_batches_of_a_single_process():
    def batches(workers):
        torch.manual_seed(5)
        loader = DataLoader(Squares(), batch_size=4, shuffle=True, num_workers=workers)
        return [(batch["x"].tolist(), batch["i"].tolist()) for batch in loader]

    assert batches(2) == batches(0)


def test_persistent_workers_serve_several_epochs_of_a_stream():
    loader = DataLoader(Stream(), batch_size=2, num_workers=2, persistent_workers=True)
    epochs = [sorted(i for batch in loader for i in batch.tolist()) for _ in range(2)]
    assert epochs == [list(range(7))] * 2


def test_an_error_in_a_worker_keeps_its_type_and_text():
    with pytest.raises(KeyError, match="Caught KeyError in DataLoader worker process 0"):
        list(DataLoader(Failing(), num_workers=1))


def test_workers_end_with_the_error_that_they_caused():
    loader = DataLoader(Failing(), num_workers=2)
    gc.disable()
    try:
        with pytest.raises(KeyError):
            list(loader)
        assert multiprocessing.active_children() == []
    finally:
        gc.enable()


class Ending(Squares):
    def __getitem__(self, i):
        if i == 5:
            raise StopIteration
        return i


@pytest.mark.parametrize("workers", [0, 2])
def test_a_sample_that_raises_stop_iteration_ends_the_epoch(workers):
    assert [batch.tolist() for batch in DataLoader(Ending(), batch_size=2, num_workers=workers)] == [[0, 1], [2, 3]]


class Layouts(Dataset):
    def __len__(self):
        return 1

    def __getitem__(self, i):
        return [
            torch.arange(6.0).view(2, 3).t(),
            torch.ones(1, 2, 2, 2).contiguous(memory_format=torch.channels_last),
            torch.zeros(2, 1).expand(2, 3),
            torch.tensor([1 + 2j]).conj(),
            torch.tensor(2.5, dtype=torch.bfloat16),
            torch.empty(0, 3, dtype=torch.int16),
            torch.tensor([True, False]),
        ]


def test_tensors_from_workers_keep_values_dtypes_and_strides():
    (batch,) = DataLoader(Layouts(), batch_size=None, num_workers=1)
    for x, y in zip(batch, Layouts()[0]):
        assert x.dtype == y.dtype and x.shape == y.shape and torch.equal(x, y)
        assert x.stride() == torch.empty_like(y).stride()


def test_a_loader_with_workers_imports_no_numpy():
    code = """
import sys
import pytpu as torch
assert [b.tolist() for b in torch.utils.data.DataLoader(range(3), num_workers=1)] == [[0], [1], [2]]
print("numpy" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "False\n"


class Slow(Squares):
    def __getitem__(self, i):
        import time

        time.sleep(60)


class Dying(Squares):
    def __getitem__(self, i):
        import os

        os._exit(3)


class Seeded(Squares):
    def __getitem__(self, i):
        return torch.tensor([get_worker_info().id, offset])


offset = 0


def set_offset(worker_id):
    global offset
    offset = 100 + worker_id


def fail(worker_id):
    raise OSError(f"worker {worker_id} has no disk")


def test_worker_init_fn_runs_in_every_worker():
    loader = DataLoader(Seeded(), batch_size=2, num_workers=2, worker_init_fn=set_offset, pin_memory=True)
    rows = [row for batch in loader for row in batch.tolist()]
    assert sorted(map(tuple, rows)) == [(0, 100)] * 6 + [(1, 101)] * 4
    with pytest.raises(OSError, match="worker 0 has no disk"):
        list(DataLoader(Squares(), num_workers=1, worker_init_fn=fail))


def test_a_worker_that_dies_or_hangs_is_an_error():
    with pytest.raises(RuntimeError, match=r"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly"):
        list(DataLoader(Dying(), num_workers=1))
    with pytest.raises(RuntimeError, match="DataLoader timed out after 2 seconds"):
        list(DataLoader(Slow(), num_workers=1, timeout=2))


def test_options_of_workers():
    for options, text in [
        ({"num_workers": -1}, "num_workers option should be non-negative"),
        ({"timeout": -1}, "timeout option should be non-negative"),
        ({"persistent_workers": True}, "persistent_workers option needs num_workers > 0"),
        ({"multiprocessing_context": "spawn"}, "multiprocessing_context can only be used with"),
        ({"num_workers": 1, "multiprocessing_context": "warp"}, "should specify a valid start method in .*'warp'"),
    ]:
        with pytest.raises(ValueError, match=text):
            DataLoader(Squares(), **options)


def test_more_workers_than_processors_warn():
    with pytest.warns(UserWarning, match="Our suggested max number of worker in current system is"):
        DataLoader(Squares(), num_workers=os.cpu_count() + 1)
    with pytest.raises(TypeError, match="should be a valid context object or a string"):
        DataLoader(Squares(), num_workers=1, multiprocessing_context=3)


def test_functions_that_cannot_be_pickled_raise_at_once():
    with pytest.raises(Exception, match="(?i)pickle"):
        list(DataLoader(Squares(), num_workers=1, multiprocessing_context="spawn", collate_fn=lambda batch: batch))


def test_spawned_and_forked_workers_give_the_same_batches():
    loaders = [DataLoader(Squares(), num_workers=2, multiprocessing_context=c) for c in (None, "spawn")]
    batches = [[b["x"].tolist() for b in loader] for loader in loaders]
    assert batches[0] == batches[1] and len(batches[0]) == 10


@pytest.mark.skipif(sys.platform != "linux" or sys.version_info >= (3, 14), reason="workers are not forked here")
def test_a_script_without_main_guard_may_use_workers_beside_a_busy_device(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        """
import pytpu as torch
from pytpu.utils.data import DataLoader

class Local(torch.utils.data.Dataset):
    transform = staticmethod(lambda x: x * 2)
    def __len__(self):
        return 24
    def __getitem__(self, i):
        return self.transform(torch.full((64,), float(i)))

torch.manual_seed(0)
w = torch.zeros(64, 1, device="tpu", requires_grad=True)
optimizer = torch.optim.SGD([w], lr=1e-6)
big = torch.rand(512, 512, device="tpu")
seen = []
for epoch in range(4):
    for x in DataLoader(Local(), batch_size=8, num_workers=2, collate_fn=lambda rows: torch.stack(rows)):
        seen.append(x[:, 0].sum().item())
        x = x.to("tpu")
        loss = ((x @ w - 1) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for _ in range(epoch):
            big = big @ big / 256  # at work while the next epoch's workers are forked
            torch.tpu.mark_step()
assert seen == [56.0, 184.0, 312.0] * 4, seen
assert loss.item() < 1 and torch.isfinite(big).all()

on_device = torch.utils.data.TensorDataset(torch.arange(4.0, device="tpu"))
try:
    list(DataLoader(on_device, num_workers=1))
except RuntimeError as e:
    assert "Cannot re-initialize TPU in forked subprocess" in str(e), e
else:
    raise AssertionError("a forked worker used the device")
print("done")
"""
    )
    out = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert out.stdout == "done\n", out.stdout + out.stderr


class Wide(torch.utils.data.Dataset):
    """Samples whose batches are larger than a pipe's buffer."""

    def __len__(self):
        return 64

    def __getitem__(self, i):
        return torch.zeros(3, 64, 64)


class Bad(torch.utils.data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, i):
        if i == 2:
            raise ValueError("two")
        return i


def test_workers_end_when_their_batches_are_not_read():
    start = time.monotonic()
    assert next(iter(DataLoader(Wide(), batch_size=16, num_workers=2))).shape == (16, 3, 64, 64)
    loader = DataLoader(Wide(), batch_size=16, num_workers=2, persistent_workers=True)
    pool = iter(loader)._pool
    processes = list(pool._processes)
    del loader, pool
    gc.collect()
    for process in processes:
        process.join(timeout=20)
        # The worker ended without being terminated.
        assert process.exitcode == 0
    assert time.monotonic() - start < 60


def test_iteration_continues_after_a_bad_sample():
    batches = iter(DataLoader(Bad(), batch_size=None, num_workers=1))
    seen = []
    for _ in range(10):
        try:
            seen.append(next(batches))
        except ValueError:
            seen.append("bad")
        except StopIteration:
            seen.append("end")
            break
    assert seen == [0, 1, "bad", 3, 4, 5, "end"]


def test_batches_keep_their_kind():
    for workers in (0, 1):
        data = [collections.defaultdict(list, {"a": torch.tensor([1 + 2j]).conj()})]
        (batch,) = DataLoader(data, batch_size=None, num_workers=workers, pin_memory=workers == 0)
        assert batch.default_factory is list and batch["a"].tolist() == [1 - 2j]
    with pytest.raises(AssertionError, match="prefetch_factor must be greater than 0"):
        DataLoader([1], num_workers=1, prefetch_factor=0)


@pytest.mark.parametrize(
    "name", ["batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"]
)
def test_attributes_of_a_loader_cannot_be_changed(name):
    class Mine(DataLoader):
        pass

    loader = Mine(Squares())
    with pytest.raises(ValueError, match=f"^{name} attribute should not be set after Mine is initialized$"):
        setattr(loader, name, None)
    loader.collate_fn = None
    assert loader.collate_fn is None


def test_how_workers_start_can_be_chosen_later():
    loader = DataLoader(Squares(), num_workers=1)
    loader.multiprocessing_context = "spawn"
    assert loader.multiprocessing_context.get_start_method() == "spawn"
    with pytest.raises(ValueError, match="should specify a valid start method"):
        loader.multiprocessing_context = "elsewhere"
    with pytest.raises(TypeError, match="valid context object or a string"):
        loader.multiprocessing_context = 3
    with pytest.raises(ValueError, match="can only be used with multi-process loading"):
        DataLoader(Squares()).multiprocessing_context = "spawn"


class Items(collections.abc.MutableSequence):
    def __init__(self, items):
        self.items = list(items)

    def __getitem__(self, i):
        return self.items[i]

    def __setitem__(self, i, value):
        self.items[i] = value

    def __delitem__(self, i):
        del self.items[i]

    def __len__(self):
        return len(self.items)

    def insert(self, i, value):
        self.items.insert(i, value)

    def __copy__(self):
        return Items(self.items)


class Row(list):
    def __init__(self, a, b):
        super().__init__([a, b])


def test_sequences_keep_their_kind():
    array = np.ones(2, dtype=np.float32)
    for make in (Row, lambda a, b: Items([a, b]), lambda a, b: collections.deque([a, b])):
        sample = make(array, 1)
        for made in (torch.utils.data.default_convert(sample), default_collate([sample, sample])):
            assert type(made) is type(sample) and isinstance(made[0], torch.Tensor)
        assert isinstance(sample[0], np.ndarray)
    assert torch.utils.data.default_convert(range(2)) == [0, 1]


def test_a_table_says_how_samples_are_collated():
    from pytpu.utils.data._utils.collate import collate, default_collate_fn_map

    class Box:
        pass

    def count(batch, *, collate_fn_map=None):
        return len(batch)

    assert collate([[Box(), "a"], [Box(), "b"]], collate_fn_map={Box: count, str: count}) == [2, 2]
    with pytest.raises(TypeError, match="found <class 'int'>"):
        collate([[Box(), 1]], collate_fn_map={Box: count})
    default_collate_fn_map[Box] = count
    try:
        assert default_collate([(Box(), 1.5)])[0] == 1
    finally:
        del default_collate_fn_map[Box]
    assert default_collate_fn_map[np.ndarray] is not None


def test_stacked_datasets_are_asked_for_a_batch_at_once():
    asked = []

    class Many(Squares):
        def __getitems__(self, indices):
            asked.append(indices)
            return [i * 10 for i in indices[:2]]

    pair = torch.utils.data.StackDataset(Many(), range(10))
    assert pair.__getitems__([3, 4]) == [(30, 3), (40, 4)] and asked == [[3, 4]]
    assert torch.utils.data.StackDataset(a=range(3)).__getitems__([2, 0]) == [{"a": 2}, {"a": 0}]
    with pytest.raises(ValueError, match="output size mismatch. Expected 3, got 2"):
        pair.__getitems__([1, 2, 3])
    with pytest.warns(FutureWarning, match="is renamed to `cumulative_sizes`"):
        assert ConcatDataset([range(2), range(3)]).cummulative_sizes == [2, 5]


class Understated(IterableDataset):
    def __iter__(self):
        return iter(range(4))

    def __len__(self):
        return 3


@pytest.mark.parametrize("workers", [0, 1])
def test_a_stream_longer_than_its_length_warns(workers):
    loader = DataLoader(Understated(), num_workers=workers)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sum(1 for _ in loader) == 4  # The length was not read.
    assert len(loader) == 3
    text = "was reported to be 3.when accessing len.dataloader.., but 4 samples have been fetched."
    with pytest.warns(UserWarning, match=text + (" For multiprocessing" if workers else "")) as seen:
        assert sum(1 for _ in loader) == 4
    # A fork in a process with JAX gives a warning of its own.
    ours = [w.filename for w in seen if w.category is UserWarning]
    assert ours == [__file__]


class Resumable(DataLoader):
    """A loader of another package, which makes its batches from the parts of the loader here."""

    start = 0

    def __iter__(self):
        return ResumableIterator(self)


class ResumableIterator(_BaseDataLoaderIter):
    def __init__(self, loader):
        super().__init__(loader)
        self.fetcher = _DatasetKind.create_fetcher(
            self._dataset_kind, self._dataset, self._auto_collation, self._collate_fn, self._drop_last
        )
        for _ in range(loader.start):
            next(self)

    def _next_data(self):
        return self.fetcher.fetch(self._next_index())


class Counted(IterableDataset):
    def __iter__(self):
        yield from range(10)


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("batch_size", [None, 4])
@pytest.mark.parametrize("dataset", [range(10), Counted()], ids=["indices", "stream"])
def test_loaders_of_other_packages_give_the_same_batches(dataset, batch_size, drop_last):
    drop_last = drop_last and batch_size is not None
    expected = [torch.as_tensor(x).tolist() for x in DataLoader(dataset, batch_size, drop_last=drop_last)]
    loader = Resumable(dataset, batch_size, drop_last=drop_last)
    assert [torch.as_tensor(x).tolist() for x in loader] == expected
    loader.start = 1
    assert [torch.as_tensor(x).tolist() for x in loader] == expected[1:]


def test_a_loader_of_another_package_draws_the_same_numbers():
    torch.manual_seed(0)
    expected = [x.tolist() for x in DataLoader(range(10), 4, shuffle=True)], torch.rand(1).item()
    torch.manual_seed(0)
    assert ([x.tolist() for x in Resumable(range(10), 4, shuffle=True)], torch.rand(1).item()) == expected


def test_a_loader_of_another_package_warns_of_long_streams():
    class Short(Counted):
        def __len__(self):
            return 2

    loader = Resumable(Short(), None)
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="was reported to be 2"):
        assert list(loader) == list(range(10))


@pytest.mark.parametrize("options", [{}, {"num_workers": 1}, {"num_workers": 1, "persistent_workers": True}], ids=str)
def test_a_package_may_replace_how_iterators_begin(monkeypatch, options):
    # speechbrain does, to go on within an epoch.
    begin = _BaseDataLoaderIter.__init__

    def skipping(self, loader):
        begin(self, loader)
        for _ in range(loader.skipped):
            next(self._sampler_iter)
        loader.skipped = 0

    def reset(self, loader, first_iter=False):
        if not first_iter:
            self._sampler_iter, self._num_yielded = iter(self._index_sampler), 0
            self._IterableDataset_len_called = loader._IterableDataset_len_called

    monkeypatch.setattr(_BaseDataLoaderIter, "__init__", skipping)
    monkeypatch.setattr(_BaseDataLoaderIter, "_reset", reset)
    loader = DataLoader(range(8), 2, **options)
    loader.skipped = 1
    assert [x.tolist() for x in loader] == [[2, 3], [4, 5], [6, 7]]
    assert [x.tolist() for x in loader] == [[0, 1], [2, 3], [4, 5], [6, 7]]


class Pipe(IterDataPipe):
    def __init__(self, *sources):
        self.sources, self.said = list(sources), []

    def __iter__(self):
        yield from range(10)

    def apply_sharding(self, *part):
        self.said.append(part)

    def set_shuffle(self, shuffle):
        self.said.append(shuffle)

    def set_seed(self, seed):
        self.said.append(seed)


def test_settings_reach_all_data_pipes():
    first = Pipe()
    last = Pipe(first, {"again": first})
    assert apply_sharding(last, 4, 1) is last
    apply_shuffle_settings(last, shuffle=True)
    apply_shuffle_settings(last)
    apply_random_seed(last, torch.Generator().manual_seed(0))
    assert first.said[:2] == last.said[:2] == [(4, 1), True] and len(first.said) == len(last.said) == 3
    assert first.said[2] != last.said[2]
    with pytest.raises(NotImplementedError, match="shuffle=True needs a data pipe"):
        apply_shuffle_settings(IterDataPipe(), shuffle=True)


@pytest.mark.parametrize("kind", [ValueError, KeyError, UnicodeDecodeError])
def test_an_exception_is_raised_again(kind):
    try:
        raise kind("wrong") if kind is not UnicodeDecodeError else kind("utf-8", b"", 0, 1, "wrong")
    except kind:
        caught = ExceptionWrapper(where="in a thread")
    # An exception that does not take one message becomes a `RuntimeError`.
    with pytest.raises(
        RuntimeError if kind is UnicodeDecodeError else kind, match=f"Caught {kind.__name__} in a thread"
    ):
        caught.reraise()
