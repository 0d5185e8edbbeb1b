"""Tensors that leave and come back: safetensors and DLPack."""

import copy
import io
import json
import os
import pickle
import struct
import sys
import threading
import zipfile

import numpy as np
import pytest

import pytpu as torch
from pytpu import nn, safetensors
from pytpu.safetensors import SafetensorError, safe_open
from pytpu.utils import dlpack

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint8,
    torch.bool,
]


def tensors():
    return {str(d): torch.arange(6).reshape(2, 3).to(d) for d in DTYPES} | {
        "scalar": torch.tensor(1.5),
        "empty": torch.zeros(0, 3),
    }


def assert_same(a, b):
    assert a.keys() == b.keys()
    for k in a:
        assert a[k].dtype == b[k].dtype and a[k].shape == b[k].shape and torch.equal(a[k].cpu(), b[k].cpu()), k


# ---- safetensors


def test_every_dtype_survives(tmp_path, device):
    path = tmp_path / "a.safetensors"
    given = {k: v.to(device) for k, v in tensors().items()}
    safetensors.save_file(given, path, metadata={"made": "here"})
    assert_same(safetensors.load_file(path, device=device), given)
    assert_same(safetensors.load(safetensors.save(given)), given)
    with safe_open(path, "pt") as f:
        assert sorted(f.keys()) == sorted(given) and f.metadata() == {"made": "here"}
        part = f.get_slice("torch.int64")
        assert part.get_shape() == [2, 3] and part.get_dtype() == "I64" and part[:, 1].tolist() == [1, 4]
        with pytest.raises(SafetensorError, match="File does not contain tensor other"):
            f.get_tensor("other")
    with pytest.raises(SafetensorError, match="File is closed"):
        f.get_tensor("scalar")


def damaged(header, data=b""):
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(header)) + header + data


@pytest.mark.parametrize(
    "content, text",
    [
        (b"", "header too small"),
        (b"\xff" * 20, "header too large"),
        (struct.pack("<Q", 50) + b"{}", "invalid header length"),
        (damaged(b'{"a":'), "invalid JSON in header"),
        (damaged(b"\xff\xfe"), "invalid UTF-8 in header"),
        (damaged({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, b"1234"), "file not fully covered"),
        (damaged({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, b"12345"), "file not fully covered"),
        (
            damaged({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, b"1234"),
            "invalid shape, data type, or offset",
        ),
        (
            damaged({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}, b"12345678"),
            "invalid offset for tensor `a`",
        ),
        (damaged({"a": {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]}}, b"1234"), "unknown variant `F99`"),
        (damaged({"a": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 4]}}, b"1234"), "overflow"),
    ],
)
def test_damaged_files_are_refused(tmp_path, content, text):
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    with pytest.raises(SafetensorError, match=text):
        safetensors.load(content)
    with pytest.raises(SafetensorError, match=text):
        safetensors.load_file(path)
    with pytest.raises(SafetensorError, match=text):
        safe_open(path, "pt")


def test_what_cannot_be_saved_leaves_nothing_behind(tmp_path):
    path = tmp_path / "a.safetensors"
    x = torch.ones(4)
    safetensors.save_file({"a": x}, path)
    for bad, error in [
        ({"a": x, "b": x}, RuntimeError),
        ({"a": x, "b": x[1:]}, RuntimeError),
        ({"a": torch.rand(2, 2).T}, ValueError),
        ({"a": 3}, ValueError),
        ([x], ValueError),
    ]:
        with pytest.raises(error):
            safetensors.save_file(bad, path)
    with pytest.raises(SafetensorError, match="I/O error"):
        safetensors.save_file({"a": x}, tmp_path / "no" / "a.safetensors")
    with pytest.raises(FileNotFoundError):
        safetensors.load_file(tmp_path / "other")
    assert os.listdir(tmp_path) == ["a.safetensors"]
    assert_same(safetensors.load_file(path), {"a": x})
    # Parts of one storage that do not overlap are two tensors.
    assert_same(safetensors.load(safetensors.save({"a": x[:2], "b": x[2:]})), {"a": x[:2], "b": x[2:]})


@pytest.mark.skipif(os.name != "posix", reason="permissions and links are those of POSIX")
def test_files_keep_permissions_and_links_stay(tmp_path):
    path, plain, link = tmp_path / "a.safetensors", tmp_path / "plain", tmp_path / "link"
    plain.write_bytes(b"")
    safetensors.save_file({"a": torch.ones(1)}, path)
    assert path.stat().st_mode == plain.stat().st_mode
    path.chmod(0o604)
    link.symlink_to("a.safetensors")
    safetensors.save_file({"a": torch.zeros(2)}, link)
    assert link.is_symlink() and path.stat().st_mode & 0o777 == 0o604
    assert_same(safetensors.load_file(path), {"a": torch.zeros(2)})
    for call in (
        lambda: safetensors.load_file(tmp_path),
        lambda: safetensors.save_file({"a": torch.ones(1)}, tmp_path),
    ):
        with pytest.raises(SafetensorError, match="is a directory") as e:
            call()
        assert str(e.value).count(str(tmp_path)) == 1
    if os.path.exists("/dev/full"):
        with pytest.raises(SafetensorError, match="No space left on device"):
            safetensors.save_file({"a": torch.ones(1)}, "/dev/full")
        assert not os.path.isfile("/dev/full")


def test_modules_with_tied_weights(tmp_path):
    def model():
        m = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
        m[1].weight = m[0].weight
        return m

    a, b = model(), model()
    safetensors.save_model(a, tmp_path / "m")
    assert safetensors.load_model(b, tmp_path / "m") == (set(), [])
    assert torch.equal(a[1].weight, b[1].weight) and b[0].weight is b[1].weight
    with pytest.raises(RuntimeError, match="Missing key"):
        safetensors.load_model(nn.Linear(2, 2), tmp_path / "m")


# ---- DLPack


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != torch.bfloat16], ids=str)
def test_numpy_takes_our_memory_and_gives_its_own(dtype):
    x = torch.arange(6).reshape(2, 3).to(dtype)
    a = np.from_dlpack(x)
    assert a.tolist() == x.tolist() and a.ctypes.data == x.data_ptr()
    assert np.from_dlpack(x.T).tolist() == x.T.tolist()
    assert np.from_dlpack(x[:, 1:]).tolist() == x[:, 1:].tolist()
    b = np.arange(6).reshape(2, 3).astype(str(dtype).removeprefix("torch."))
    y = torch.from_dlpack(b)
    assert y.dtype == dtype and y.data_ptr() == b.ctypes.data and y.tolist() == b.tolist()
    y[0, 0] = 1
    assert b[0, 0] == 1
    assert torch.from_dlpack(b.T).stride() == (1, 3)


def test_memory_lives_as_long_as_it_is_used():
    y = torch.from_dlpack(np.full(100_000, 7.0))
    a = np.from_dlpack(torch.full((100_000,), 3.0))
    assert y.sum().item() == 700_000 and a.sum() == 300_000
    x = torch.ones(3)
    x.__dlpack__()  # a capsule that nobody takes
    capsule = dlpack.to_dlpack(x)
    torch.from_dlpack(capsule)
    with pytest.raises(RuntimeError, match="DLTensor capsules can be consumed only once"):
        torch.from_dlpack(capsule)


def test_what_cannot_be_exchanged():
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(BufferError, match="Can't export tensors that require gradient, use tensor.detach()"):
        x.__dlpack__()
    with pytest.raises(BufferError, match="Cannot pack tensors on meta"):
        torch.ones(2, device="meta").__dlpack__()
    with pytest.raises(BufferError, match="negative strides"):
        torch.from_dlpack(np.arange(6)[::-1])
    with pytest.raises(BufferError, match="no dtype for DLPack code 1 with 16 bits"):
        torch.from_dlpack(np.arange(3, dtype=np.uint16))
    with pytest.raises(BufferError, match="Can't export tensors with the conjugate bit set"):
        torch.ones(2, dtype=torch.complex64).conj().__dlpack__()
    with torch.no_grad(), pytest.raises(BufferError, match="require gradient"):
        x.__dlpack__(copy=True)
    with pytest.raises(BufferError, match="cannot export a tensor on cpu to DLPack device .2, 0."):
        torch.ones(2).__dlpack__(dl_device=(dlpack.DLDeviceType.kDLCUDA, 0))
    with pytest.raises(AssertionError, match="stream should be None on cpu"):
        torch.ones(2).__dlpack__(stream=1)
    with pytest.raises(RuntimeError, match="invalid capsule"):
        torch.from_dlpack(3)
    a = np.arange(3.0)
    a.flags.writeable = False
    y = torch.from_dlpack(a)
    y[0] = 5
    assert a[0] == 0.0


def test_a_capsule_that_is_refused_keeps_its_memory():
    a = np.arange(6)
    capsule = a[::-1].__dlpack__()
    for _ in range(2):
        with pytest.raises(BufferError, match="negative strides"):
            torch.from_dlpack(capsule)
    count = sys.getrefcount(a)
    del capsule
    assert sys.getrefcount(a) == count - 1


def test_memory_is_given_back_once():
    a = np.arange(6.0)
    count = sys.getrefcount(a)
    x = torch.from_dlpack(a)
    y = x[2:]
    assert sys.getrefcount(a) == count + 1
    del x
    assert sys.getrefcount(a) == count + 1 and y.tolist() == [2, 3, 4, 5]
    del y
    assert sys.getrefcount(a) == count
    dropped = threading.Thread(target=torch.from_dlpack, args=(a,))
    dropped.start()
    dropped.join()
    del dropped
    assert sys.getrefcount(a) == count


def test_the_plain_capsule_leaves_history_behind():
    x = torch.ones(2, requires_grad=True)
    y = torch.from_dlpack(dlpack.to_dlpack(x))
    assert y.data_ptr() == x.data_ptr() and not y.requires_grad
    with pytest.raises(TypeError):
        dlpack.to_dlpack(3)


def test_a_copy_on_the_host():
    x = torch.ones(3, device="tpu")
    with pytest.raises(BufferError, match="Cannot pack tensors on tpu"):
        x.__dlpack__()
    assert x.__dlpack_device__()[0] == dlpack.DLDeviceType.kDLExtDev
    assert torch.from_dlpack(x.__dlpack__(dl_device=(1, 0), max_version=(1, 0))).tolist() == [1.0] * 3
    assert torch.from_dlpack(x).device.type == "tpu"
    y = torch.ones(3)
    assert torch.from_dlpack(y, copy=True).data_ptr() != y.data_ptr()
    with pytest.raises(ValueError, match="without a copy"):
        x.__dlpack__(dl_device=(1, 0), copy=False)


def _saved_and_loaded(obj, **kwargs):
    file = io.BytesIO()
    torch.save(obj, file)
    file.seek(0)
    return torch.load(file, **kwargs)


@pytest.mark.parametrize("again", [copy.deepcopy, _saved_and_loaded])
def test_what_shares_memory_shares_it_afterwards(again, device):
    x = torch.arange(6.0, device=device)
    made = again([x, x[1:], x.view(2, 3), x[::2], x.view(2, 3).t(), x.detach(), x[2]])
    assert {y.device.type for y in made} == {device}
    assert [y.tolist() for y in made[1:4]] == [[1, 2, 3, 4, 5], [[0, 1, 2], [3, 4, 5]], [0, 2, 4]]
    made[0][2] = 100
    made[4][1, 1] = -5
    assert made[0].tolist() == made[5].tolist() == [0, 1, 100, 3, -5, 5]
    assert made[2].tolist() == [[0, 1, 100], [3, -5, 5]] and made[6].item() == 100
    assert made[4].stride() == (1, 3) and made[1].storage_offset() == 1
    assert x.tolist() == [0, 1, 2, 3, 4, 5]
    net = nn.Linear(2, 2, device=device)
    tied = again({"a": net.weight, "b": net.weight, "c": net.weight.detach()})
    assert tied["a"] is tied["b"] and isinstance(tied["a"], nn.Parameter) and tied["a"].is_leaf
    with torch.no_grad():
        tied["a"].fill_(3)
    # A copy of a parameter has memory of its own, as PyTorch's.
    assert (tied["c"].tolist() == [[3, 3], [3, 3]]) == (again is _saved_and_loaded)
    z = torch.tensor([1 + 2j, 3 - 1j], device=device)
    assert [y.tolist() for y in again([z, z.conj()])] == [[1 + 2j, 3 - 1j], [1 - 2j, 3 + 1j]]


def test_tensors_go_back_to_their_device():
    x = torch.arange(4.0)
    both = {"cpu": x, "tpu": x.to("tpu")[1:]}
    for key, y in _saved_and_loaded(both).items():
        assert y.device.type == key
    for key, y in _saved_and_loaded(both, map_location="cpu").items():
        assert y.device.type == "cpu" and y.tolist() == both[key].tolist()
    for y in _saved_and_loaded(both, map_location={"cpu": "tpu:0", "tpu:0": "cpu"}).values():
        assert y.device.type == ("tpu" if y.numel() == 4 else "cpu")


class Marked(torch.Tensor):
    pass


@pytest.mark.parametrize("is_new", [True, False])
def test_files_keep_attributes_and_classes_of_tensors(tmp_path, is_new):
    x, p = torch.arange(4.0), nn.Parameter(torch.ones(2))
    x.foo, p.tag = {"a": 1}, "t"
    marked = torch.ones(2).as_subclass(Marked)
    marked.z = 5
    path = tmp_path / "file.pt"
    torch.save({"x": x, "p": p, "view": x[1:3], "marked": marked}, path, _use_new_zipfile_serialization=is_new)
    assert zipfile.is_zipfile(path) == is_new
    with torch.serialization.safe_globals([Marked]):
        back = torch.load(path)
    assert back["x"].foo == {"a": 1} and back["p"].tag == "t" and type(back["p"]) is nn.Parameter
    assert type(back["marked"]) is Marked and back["marked"].z == 5
    back["x"].zero_()
    assert back["view"].tolist() == [0, 0]
    with pytest.raises(
        pickle.UnpicklingError, match=r"Please use `torch.serialization.add_safe_globals\(\[.*Marked\]\)`"
    ):
        torch.load(path)
    if is_new:
        assert [n.rpartition(".")[2] for n in torch.serialization.get_unsafe_globals_in_checkpoint(path)] == ["Marked"]


def test_what_cannot_be_saved_or_loaded_is_refused_in_pytorchs_words(tmp_path):
    with pytest.raises(RuntimeError, match="Parent directory .*nowhere does not exist."):
        torch.save(1, tmp_path / "nowhere" / "file.pt")
    with pytest.raises(
        AttributeError, match="expected 'f' to be string, path, or a file-like object with a 'write' attribute"
    ):
        torch.save(1, 3)
    with pytest.raises(AttributeError, match="Can't pickle local object '.*<lambda>'"):
        torch.save(lambda: 1, io.BytesIO())
    with pytest.raises(
        AttributeError, match="'int' object has no attribute 'seek'. You can only torch.load from a file that is"
    ):
        torch.load(3)
    with pytest.raises(ValueError, match="f must be a file path in order to use the mmap argument"):
        torch.load(io.BytesIO(), mmap=True)
    torch.save(torch.ones(1), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match="mmap can only be used with files saved with"):
        torch.load(tmp_path / "old.pt", mmap=True)
    assert torch.load(tmp_path / "old.pt").tolist() == [1]


HOMES = {
    "nn.modules": {
        "Flatten": "flatten",
        "Unflatten": "flatten",
        "Upsample": "upsampling",
        "InstanceNorm2d": "instancenorm",
        "Fold": "fold",
        "PixelShuffle": "pixelshuffle",
        "CosineSimilarity": "distance",
        "ChannelShuffle": "channelshuffle",
        "Linear": "linear",
        "BatchNorm2d": "batchnorm",
        "ReLU": "activation",
        "Sequential": "container",
        "Dropout": "dropout",
    },
    "optim": {
        "AdamW": "adamw",
        "Adagrad": "adagrad",
        "NAdam": "nadam",
        "RAdam": "radam",
        "Rprop": "rprop",
        "ASGD": "asgd",
        "Adamax": "adamax",
        "Adadelta": "adadelta",
        "SGD": "sgd",
        "Adam": "adam",
        "RMSprop": "rmsprop",
    },
}


@pytest.mark.parametrize("package, name, home", [(p, n, h) for p, names in HOMES.items() for n, h in names.items()])
def test_classes_are_in_the_modules_that_files_name(package, name, home):
    import importlib

    where = f"torch.{package}.{home}"
    kind = getattr(importlib.import_module(f"pytpu.{package}"), name)
    assert kind.__module__ == where and getattr(importlib.import_module(where), name) is kind
    assert pickle.loads(pickle.dumps(kind)) is kind


def test_a_file_names_modules_as_pytorch_does():
    model = nn.Sequential(nn.Upsample(scale_factor=2), nn.Flatten(), nn.InstanceNorm1d(2))
    file = io.BytesIO()
    torch.save(model, file)
    with zipfile.ZipFile(file) as archive:
        text = archive.read("archive/data.pkl")
    for name in (
        b"torch.nn.modules.upsampling\nUpsample",
        b"torch.nn.modules.flatten\nFlatten",
        b"torch.nn.modules.instancenorm",
    ):
        assert name in text
    file.seek(0)
    assert repr(torch.load(file, weights_only=False)) == repr(model)


def test_files_hold_what_pytorch_looks_for():
    def state(module):
        file = io.BytesIO()
        torch.save(module, file)
        file.seek(0)
        return torch.load(file, weights_only=False), module.__getstate__()

    lstm, saved = state(nn.LSTM(2, 3))
    assert [w.shape for w in saved["_flat_weights"]] == [
        w.shape for w in lstm._flat_weights
    ] and "_flat_weights" not in vars(lstm)
    layers = [nn.TransformerEncoderLayer(4, 2, 8, activation=a) for a in ("relu", "gelu", torch.sin)]
    assert [layer.activation_relu_or_gelu for layer in layers] == [1, 2, 0]
    normed, saved = state(nn.utils.spectral_norm(nn.Linear(2, 2)))
    assert [type(h).__name__ for h in saved["_state_dict_hooks"].values()] == ["SpectralNormStateDictHook"]
    assert normed.state_dict()._metadata[""]["spectral_norm"] == {"weight.version": 1}
    nn.utils.remove_spectral_norm(normed)
    assert not normed._state_dict_hooks and not normed._load_state_dict_pre_hooks
    assert torch.optim.Adafactor.__module__ == torch.optim.Muon.__module__ == "torch.optim"


def test_buffers_are_shared():
    b = bytearray(range(16))
    x = torch.frombuffer(b, dtype=torch.int32, count=2, offset=4)
    assert x.tolist() == [0x07060504, 0x0B0A0908]
    b[4] = 0
    x[1] = 0
    assert x[0].item() == 0x07060500 and bytes(b[8:12]) == bytes(4)
    with pytest.raises(BufferError):
        b.append(1)
    del x
    b.append(1)
    # What is not aligned is copied.
    assert torch.frombuffer(b, dtype=torch.int16, offset=1, count=1).item() == 0x0201
    assert torch.frombuffer(bytearray([0, 2, 1]), dtype=torch.bool).tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"offset": 3},
            r"buffer length \(13 bytes\) after offset \(3 bytes\) must be a multiple of element size \(4\)",
        ),
        ({"count": 9}, r"requested buffer length \(9 \* 4 bytes\) after offset \(0 bytes\) must not be greater than"),
        (
            {"offset": 17},
            r"offset \(17 bytes\) must be non-negative and no greater than buffer length \(16 bytes\) minus 1",
        ),
        ({"offset": -1}, r"offset \(-1 bytes\) must be non-negative"),
        ({"count": 0}, r"both buffer length \(16\) and count \(0\) must not be 0"),
    ],
)
def test_too_little_of_a_buffer(arguments, message):
    with pytest.raises(ValueError, match=message):
        torch.frombuffer(bytearray(16), dtype=torch.int32, **arguments)


def test_no_buffer():
    with pytest.raises(ValueError, match="object does not implement Python buffer protocol"):
        torch.frombuffer(3, dtype=torch.int32)
    with pytest.raises(RuntimeError, match="non-contiguous buffers are not supported"):
        torch.frombuffer(memoryview(bytearray(4))[::2], dtype=torch.uint8)


def test_files_are_mapped(tmp_path):
    path = str(tmp_path / "numbers")
    with open(path, "wb") as f:
        f.write(np.arange(4, dtype=np.float32).tobytes())
    x = torch.from_file(path, size=4)
    assert x.fill_(7).tolist() == [7.0] * 4
    assert torch.from_file(path, shared=True, size=2).fill_(9).tolist() == [9.0] * 2
    assert np.fromfile(path, dtype=np.float32).tolist() == [9.0, 9.0, 2.0, 3.0]
    assert torch.UntypedStorage.from_file(path, False, 16).nbytes() == 16
    assert torch.from_file(str(tmp_path / "new"), shared=True, size=3).tolist() == [0.0] * 3
    with pytest.raises(RuntimeError, match="size <16> is smaller than the required mapping size <20>"):
        torch.from_file(path, size=5)
    with pytest.raises(RuntimeError, match="unable to open file .* in read-only mode: No such file or directory"):
        torch.from_file(str(tmp_path / "absent"), size=1)


def test_storages_on_tpu_have_numbers_of_their_own():
    x, y = torch.ones(3, device="tpu"), torch.ones(3, device="tpu")
    assert x.data_ptr() != y.data_ptr() and x[1:].data_ptr() == x.data_ptr() + 4
    assert x[1:].untyped_storage().data_ptr() == x.untyped_storage().data_ptr() == x.data_ptr()
