"""Storages: the memory behind tensors."""

import copy
import gc
import pickle
import struct
import warnings

import numpy as np
import pytest

import pytpu as torch


@pytest.fixture(autouse=True)
def quiet():
    """Ignore the warning that `TypedStorage` is deprecated."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="TypedStorage is deprecated")
        yield


def test_a_storage_is_one_object_while_it_is_referenced(device):
    x = torch.ones(4, device=device)
    assert x.untyped_storage() is x.untyped_storage() is x.view(2, 2).untyped_storage() is x[1:].untyped_storage()
    assert x.untyped_storage() is not x.clone().untyped_storage()
    storage = torch.UntypedStorage(16)
    assert torch.empty(0).set_(storage, 0, (4,)).untyped_storage() is storage
    x.untyped_storage().note = 1
    gc.collect()
    assert not hasattr(x.untyped_storage(), "note")


def test_a_storage_outlives_its_tensor():
    storage = torch.arange(4).untyped_storage()
    others = [torch.zeros(4, dtype=torch.int64) for _ in range(50)]
    assert storage[0:32].tolist()[8] == 1 and storage not in [t.untyped_storage() for t in others]


def test_a_storage_that_is_not_mapped_has_no_file_name(tmp_path):
    assert torch.ones(2).untyped_storage().filename is None
    path = tmp_path / "f"
    path.write_bytes(bytes(16))
    assert torch.UntypedStorage.from_file(str(path), shared=True, nbytes=16).filename == str(path)
    assert torch.UntypedStorage.from_file(str(path), shared=False, nbytes=16).filename is None


def test_classes_of_storages():
    assert torch.Storage is torch.FloatStorage and issubclass(torch.FloatStorage, torch.TypedStorage)
    assert type(torch.FloatStorage(3)) is torch.TypedStorage and torch.FloatStorage.dtype == torch.float32
    assert isinstance(torch.ones(1).storage(), torch.FloatStorage) and not isinstance(
        torch.ones(1).storage(), torch.LongStorage
    )
    assert torch.UntypedStorage(size=3).nbytes() == 3 and torch.UntypedStorage([1, 300]).tolist() == [1, 44]
    assert (
        torch.TypedStorage([1.5]).dtype == torch.float32
        and torch.TypedStorage(3, dtype=torch.int32, device="meta").device.type == "meta"
    )
    with pytest.raises(
        RuntimeError, match=r"from a sequence \(str\), but one of the items was of type str instead of int"
    ):
        torch.UntypedStorage("ab")
    storage = torch.ones(1).untyped_storage()
    with pytest.raises(RuntimeError, match="Argument 'dtype' must be specified"):
        torch.TypedStorage(wrap_storage=storage)
    with pytest.raises(RuntimeError, match="No positional arguments should be given when using 'wrap_storage'"):
        torch.TypedStorage(3, wrap_storage=storage, dtype=torch.float32)
    assert (
        storage.float().tolist() == [0, 0, 128, 63]
        and storage.get_device() == -1
        and storage.to(device="cpu") is storage
    )


def test_a_slice_shares_memory():
    x = torch.ones(4)
    storage = x.untyped_storage()
    part = storage[4:8]
    assert type(part) is torch.UntypedStorage and part.tolist() == [0, 0, 128, 63]
    assert part.data_ptr() == storage.data_ptr() + 4 and storage[0:4].data_ptr() == x.data_ptr()
    part.fill_(0)
    assert x.tolist() == [1, 0, 1, 1]
    assert (storage[-4:].nbytes(), storage[10:2].nbytes(), storage[:100].nbytes(), storage[None:4].nbytes()) == (
        4,
        0,
        16,
        4,
    )
    inner = storage[4:12][4:8]
    del storage, x, part
    gc.collect()
    assert torch.asarray(inner, dtype=torch.float32).tolist() == [1]
    with pytest.raises(RuntimeError, match="Trying to slice with a step of 2, but only a step of 1 is supported"):
        inner[::2]


def test_slices_on_a_device_have_the_bytes():
    assert torch.ones(2, device="tpu").untyped_storage()[4:8].tolist() == [0, 0, 128, 63]


def test_a_slice_of_a_loaded_storage_shares_memory(tmp_path):
    torch.save(torch.arange(4.0), tmp_path / "a")
    x = torch.load(tmp_path / "a")
    x.untyped_storage()[4:8].fill_(0)
    assert x.tolist() == [0, 0, 2, 3]


def test_elements_are_read_and_set():
    storage = torch.ones(4).untyped_storage()
    assert (storage[3], storage[-1]) == (63, 63)
    with pytest.raises(IndexError, match="index 16 out of range for storage of size 16"):
        storage[16]
    for index, name in (("a", "str"), (1.0, "float"), (torch.tensor(1), "Tensor")):
        with pytest.raises(TypeError, match=f"can't index a torch.UntypedStorage with {name}"):
            storage[index]
    storage[0], storage[4:8] = 300, 1
    assert storage.tolist()[:8] == [44, 0, 128, 63, 1, 1, 1, 1]
    for value, name in (([1, 2], "list"), ("a", "str"), (1.5, "float")):
        with pytest.raises(
            RuntimeError, match=f"can only set storage content with a int types, but got {name} instead"
        ):
            storage[0] = value
    with pytest.raises(RuntimeError, match="out of bounds"):
        storage[99] = 1


def test_asarray_of_a_storage_shares_its_memory():
    x = torch.tensor([1.0, 2.0])
    storage = x.untyped_storage()
    for dtype, shape in ((torch.uint8, (8,)), (torch.float32, (2,)), (torch.int16, (4,)), (None, (1,))):
        y = torch.asarray(storage, dtype=dtype)
        assert y.shape == shape and y.data_ptr() == x.data_ptr() and y.dtype == (dtype or torch.int64)
    assert torch.asarray(x.storage()).data_ptr() == x.data_ptr()
    assert torch.asarray(storage, dtype=torch.uint8, copy=True).data_ptr() != x.data_ptr()


def test_numbers_of_a_storage_are_not_read_one_by_one(monkeypatch):
    def never(self, *_):
        raise AssertionError("one by one")

    monkeypatch.setattr(torch.UntypedStorage, "__getitem__", never)
    monkeypatch.setattr(torch.TypedStorage, "__getitem__", never)
    x = torch.arange(1000.0)
    for make in (torch.tensor, torch.as_tensor, torch.asarray):
        assert torch.equal(make(x.storage()), x)
        assert torch.equal(make(x.untyped_storage(), dtype=torch.uint8), x.view(torch.uint8))
    assert torch.as_tensor(x.storage()).data_ptr() == x.data_ptr() != torch.tensor(x.storage()).data_ptr()
    assert np.asarray(x.storage()).tolist() == x.tolist()


def test_a_storage_grows_with_its_tensor():
    x = torch.arange(4.0)
    view = x[1:3]
    storage, other = x.untyped_storage(), view.untyped_storage()
    assert storage is other and storage.resizable()
    assert storage.resize_(32) is storage and storage.nbytes() == 32
    assert x.untyped_storage() is storage and x.tolist() == [0, 1, 2, 3] and view.tolist() == [1, 2]
    view.fill_(9)
    assert x.tolist() == [0, 9, 9, 3]
    typed = torch.FloatStorage([1, 2])
    assert typed.resize_(3).size() == 3 and typed.tolist()[:2] == [1, 2] and typed.resize_(1).tolist() == [1]


def test_a_storage_does_not_shrink_below_its_tensors():
    x = torch.ones(4)
    with pytest.raises(NotImplementedError, match=r"a tensor of shape \[4\] needs 16 bytes of this storage"):
        x.untyped_storage().resize_(0)
    assert x.tolist() == [1, 1, 1, 1]
    assert torch.UntypedStorage(8).resize_(0).nbytes() == 0


def test_memory_of_others_is_not_resized(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(bytes(16))
    for storage in (torch.UntypedStorage.from_file(str(path), False, 16), torch.ones(4).untyped_storage()[:8]):
        assert not storage.resizable()
        with pytest.raises(RuntimeError, match="Trying to resize storage that is not resizable"):
            storage.resize_(100)


BYTES = bytes(range(16))


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        ({"dtype": torch.uint8}, BYTES),
        ({"dtype": torch.int32, "byte_order": "little"}, BYTES),
        ({"dtype": torch.int32, "byte_order": "native"}, BYTES),
        ({"dtype": torch.int32, "byte_order": "big"}, [3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12]),
        ({"dtype": torch.int16, "byte_order": "big", "count": 2, "offset": 3}, [4, 3, 6, 5]),
        ({"dtype": torch.complex64, "byte_order": "big", "count": 1}, [3, 2, 1, 0, 7, 6, 5, 4]),
        ({"dtype": torch.bool}, [0] + [1] * 15),
    ],
)
def test_buffers_are_copied_in_their_byte_order(arguments, want):
    assert torch.UntypedStorage.from_buffer(BYTES, **arguments).tolist() == list(want)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({}, RuntimeError, "argument 'dtype' cannot be None"),
        ({"dtype": torch.int32}, RuntimeError, "function missing required argument 'byte_order'"),
        ({"dtype": torch.int32, "byte_order": "x"}, ValueError, "invalid byte_order 'x'"),
        (
            {"dtype": torch.uint8, "offset": 17},
            ValueError,
            "offset must be non-negative and no greater than buffer length",
        ),
        (
            {"dtype": torch.int16, "byte_order": "big", "offset": 3},
            ValueError,
            r"buffer size \(16\) must be a multiple of element size \(2\)",
        ),
        (
            {"dtype": torch.int16, "byte_order": "big", "count": 30},
            ValueError,
            "buffer has only 8 elements after offset 0",
        ),
    ],
)
def test_buffers_that_do_not_fit(arguments, error, text):
    with pytest.raises(error, match=text):
        torch.UntypedStorage.from_buffer(BYTES, **arguments)


def test_typed_storages_of_buffers_and_files(tmp_path):
    big = struct.pack(">2f", 1.5, -2)
    assert torch.FloatStorage.from_buffer(big, "big").tolist() == [1.5, -2]
    assert torch.TypedStorage.from_buffer(b"\0\1", dtype=torch.int16, byte_order="big").tolist() == [1]
    path = tmp_path / "f"
    path.write_bytes(struct.pack("<2f", 1.5, -2))
    made = torch.FloatStorage.from_file(str(path), True, 2)
    made[0] = 3
    del made
    assert torch.FloatStorage.from_file(str(path), False, 2).tolist() == [3, -2]
    with pytest.raises(RuntimeError, match="from_file can only be called on derived classes"):
        torch.TypedStorage.from_file(str(path), False, 2)
    with pytest.raises(RuntimeError, match="unable to open file <.*none> in read-only mode: No such file or directory"):
        torch.UntypedStorage.from_file(str(tmp_path / "none"), False, 2)


def test_bytes_are_swapped_in_place():
    x = torch.tensor([1, 256], dtype=torch.int16)
    x.untyped_storage().byteswap(torch.int16)
    assert x.tolist() == [256, 1]


def test_copies_of_storages():
    storage = torch.ones(2).untyped_storage()
    for other in (storage.clone(), copy.copy(storage), copy.deepcopy(storage)):
        assert other.tolist() == storage.tolist() and other != storage
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        storage.cuda()


def test_storages_are_pickled():
    x = torch.arange(3.0)
    for storage in (x.untyped_storage(), x.storage()):
        back = pickle.loads(pickle.dumps(storage))
        assert type(back) is type(storage) and back.tolist() == storage.tolist()


def test_a_storage_goes_to_shared_memory_with_its_tensor():
    x = torch.arange(3.0)
    storage = x.untyped_storage().share_memory_()
    assert storage.is_shared() and x.is_shared() and x.untyped_storage() is storage
    x[0] = 5
    assert storage[:4].tolist() == [0, 0, 160, 64]


def test_many_tensors_may_ask_for_one_storage():
    base = torch.zeros(20_000)
    storage, views = base.untyped_storage(), list(base)
    for view in views:
        assert view.untyped_storage() is storage
    assert len(storage._tensors) == 20_001
    del views, view
    assert len(storage._tensors) == 1


def test_storages_on_tpu_have_numbers_of_their_own():
    x, y = torch.ones(3, device="tpu"), torch.ones(3, device="tpu")
    assert x.data_ptr() != y.data_ptr() and x[1:].data_ptr() == x.data_ptr() + 4
    assert x[1:].untyped_storage().data_ptr() == x.untyped_storage().data_ptr() == x.data_ptr()


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_a_deep_copy_of_a_tensor_and_its_storage_shares_memory():
    for pick in (lambda x: x.storage(), lambda x: x.untyped_storage()):
        for order in (lambda x, s: [x, s], lambda x, s: [s, x]):
            x = torch.ones(3)
            first, second = copy.deepcopy(order(x, pick(x)))
            y, storage = (first, second) if isinstance(first, torch.Tensor) else (second, first)
            assert y.data_ptr() == storage.data_ptr() != x.data_ptr()
    x = torch.arange(4.0)
    y, v, bits = copy.deepcopy([x, x[1:], x.view(torch.int32)])
    v[0] = 9
    assert y.tolist() == [0, 9, 2, 3] and bits.view(torch.float32).tolist() == y.tolist() and x[1] == 1
