"""Files in the safetensors format."""

import json
import os
import struct

import pytest

import pytpu as torch
from pytpu import nn, safetensors
from pytpu.safetensors import SafetensorError, safe_open

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


def test_a_failed_save_leaves_no_file(tmp_path):
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
