"""`torch.save` and `torch.load` of tensors: shared memory, devices, attributes, errors."""

import copy
import io
import pickle
import zipfile

import numpy as np
import pytest

import pytpu as torch
from pytpu import nn


def _saved_and_loaded(obj, **kwargs):
    file = io.BytesIO()
    torch.save(obj, file)
    file.seek(0)
    return torch.load(file, **kwargs)


@pytest.mark.parametrize("again", [copy.deepcopy, _saved_and_loaded])
def test_shared_memory_is_shared_after_loading(again, device):
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


def test_errors_of_saving_and_loading_equal_pytorchs(tmp_path):
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
