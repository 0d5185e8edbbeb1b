"""`torch.save`, `torch.load` and safetensors: files after failed writes, and loaded values."""

import copy
import gzip
import importlib.util
import io
import json
import os
import pathlib
import pickle
import stat
import struct
import subprocess
import sys
import textwrap
import threading
import zipfile
import zlib

import pytest

import pytpu as torch
from pytpu import _replace_file, safetensors, serialization
from pytpu.safetensors import SafetensorError

HERE = pathlib.Path(__file__).parents[1]


def attack(name):
    """Import a program of `tests/attack`."""
    spec = importlib.util.spec_from_file_location(name, HERE.parent / "attack" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def save_zip(x, path):
    torch.save({"x": x}, path)


def save_legacy(x, path):
    torch.save({"x": x}, path, _use_new_zipfile_serialization=False)


def save_tensors(x, path):
    safetensors.save_file({"x": x}, path)


def load(path):
    with open(path, "rb") as f:
        is_safetensors = f.read(16)[8:9] == b"{"
    return (safetensors.load_file(path) if is_safetensors else torch.load(path))["x"].tolist()


@pytest.fixture(params=[save_zip, save_legacy, save_tensors])
def save(request):
    """Return functions of a tensor and a path, one for each writer of files."""
    return request.param


# ---- the old file stays whole


@pytest.mark.parametrize("name", ["kill_save", "files"])
def test_attacks_on_files_find_nothing(name):
    arguments = {"kill_save": ["2", "1"], "files": ["zip,legacy,pickle,safetensors", "250", "3"]}[name]
    done = subprocess.run(
        [sys.executable, HERE.parent / "attack" / f"{name}.py", *arguments], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].endswith(("0 files lost", "0 findings"))


def test_an_error_in_the_middle_keeps_the_old_file(tmp_path, save, monkeypatch):
    path = tmp_path / "a"
    save(torch.zeros(3), path)

    def fail(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_replace_file.os, "fsync", fail)
    with pytest.raises((OSError, SafetensorError), match="No space left on device"):
        save(torch.ones(3), path)
    assert load(path) == [0, 0, 0] and os.listdir(tmp_path) == ["a"]


def test_a_file_is_flushed_before_it_replaces_the_old_one(tmp_path, save, monkeypatch):
    calls = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(
        _replace_file.os, "fsync", lambda fd: (calls.append(("fsync", stat.S_ISDIR(os.fstat(fd).st_mode))), fsync(fd))
    )
    monkeypatch.setattr(_replace_file.os, "replace", lambda a, b: (calls.append("replace"), replace(a, b)))
    save(torch.ones(3), tmp_path / "a")
    assert calls == [("fsync", False), "replace", ("fsync", True)]


@pytest.mark.parametrize("is_zip", [True, False])
def test_an_open_file_can_be_read_by_its_name_after_save(tmp_path, is_zip):
    with open(tmp_path / "a", "wb", buffering=1 << 20) as file:
        torch.save({"x": torch.ones(3)}, file, _use_new_zipfile_serialization=is_zip)
        assert load(tmp_path / "a") == [1, 1, 1]


def test_save_needs_nothing_but_write(tmp_path):
    parts = []

    class Sink:
        def write(self, data):
            parts.append(bytes(data))
            return len(data)

    torch.save({"x": torch.ones(2)}, Sink())
    (tmp_path / "a").write_bytes(b"".join(parts))
    assert load(tmp_path / "a") == [1, 1]


def test_permissions_stay_and_links_are_followed(tmp_path, save):
    path, plain, link = tmp_path / "a", tmp_path / "plain", tmp_path / "link"
    before = os.umask(0o027)
    try:
        plain.write_bytes(b"")
        save(torch.zeros(1), path)
    finally:
        os.umask(before)
    assert path.stat().st_mode == plain.stat().st_mode
    path.chmod(0o604)
    link.symlink_to("a")
    save(torch.ones(2), link)
    assert link.is_symlink() and load(path) == [1, 1] and stat.S_IMODE(path.stat().st_mode) == 0o604
    link.unlink()
    link.symlink_to("new")
    save(torch.ones(1), link)
    assert link.is_symlink() and load(tmp_path / "new") == [1]


def test_special_files_are_written_in_place(tmp_path, save):
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)

    def read():
        with open(pipe, "rb") as f:
            got.append(f.read())

    reader = threading.Thread(target=read)
    reader.start()
    save(torch.ones(2), pipe)
    reader.join()
    (tmp_path / "copy").write_bytes(got[0])
    assert load(tmp_path / "copy") == [1, 1] and stat.S_ISFIFO(pipe.stat().st_mode)
    with pytest.raises((OSError, SafetensorError), match="No space left on device"):
        save(torch.ones(1), "/dev/full")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
    with pytest.raises((OSError, SafetensorError), match="(?i)is a directory"):
        save(torch.ones(1), tmp_path)


@pytest.mark.parametrize("is_new", [True, False])
def test_objects_with_write_alone_are_enough(is_new):
    class Sink:
        def __init__(self):
            self.data = b""

        def write(self, data):
            self.data += bytes(data)

    sink = Sink()
    torch.save({"x": torch.arange(5)}, sink, _use_new_zipfile_serialization=is_new)
    assert torch.load(io.BytesIO(sink.data))["x"].tolist() == [0, 1, 2, 3, 4]


def leftover(folder, pid, boot=None, age=7200):
    """Make a temporary file like one that a killed process left."""
    path = folder / f".model.pt.{boot or _replace_file._this_boot()}.{pid}.{os.urandom(4).hex()}.torchtmp"
    path.write_bytes(b"half")
    then = path.stat().st_mtime - age
    os.utime(path, (then, then))
    return path


def test_only_old_temporary_files_of_ended_processes_of_this_boot_are_removed(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    gone = leftover(tmp_path, child.pid)
    kept = [
        leftover(tmp_path, child.pid, age=3000),
        leftover(tmp_path, os.getpid()),
        leftover(tmp_path, 1),
        leftover(tmp_path, child.pid, boot="0" * 16),
        leftover(tmp_path, child.pid, boot="f" * 16),
    ]
    other = tmp_path / ".model.pt.torchtmp"
    other.write_bytes(b"")
    os.utime(other, (0, 0))
    link = tmp_path / gone.name.replace("model", "link")
    link.symlink_to(other)
    folder = tmp_path / gone.name.replace("model", "folder")
    folder.mkdir()
    os.utime(folder, (0, 0))
    torch.save(1, tmp_path / "a.pt")
    assert not gone.exists() and all(p.exists() for p in (*kept, other, link, folder))


def test_a_folder_is_looked_through_once_an_hour(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    torch.save(1, tmp_path / "a.pt")
    left = leftover(tmp_path, child.pid)
    torch.save(1, tmp_path / "a.pt")
    assert left.exists()
    _replace_file._swept.clear()
    torch.save(1, tmp_path / "a.pt")
    assert not left.exists()


def test_a_long_name_can_be_saved(tmp_path, save):
    path = tmp_path / ("é" * 120)
    save(torch.ones(1), path)
    assert load(path) == [1] and len(os.listdir(tmp_path)) == 1


# ---- archives


def test_archives_are_plain_zip_files(tmp_path):
    path = tmp_path / "model.pt"
    torch.save({"x": torch.arange(100), "y": torch.ones(3)}, path)
    with zipfile.ZipFile(path) as z:
        assert z.testzip() is None
        assert z.namelist() == ["model/data.pkl", "model/byteorder", "model/data/0", "model/data/1", "model/version"]
        data = path.read_bytes()
        for info in z.infolist():
            name, extra = struct.unpack("<2H", data[info.header_offset + 26 : info.header_offset + 30])
            assert (info.header_offset + 30 + name + extra) % 64 == 0


def test_archives_of_many_files():
    from pytpu._archive import ZipWriter

    file = io.BytesIO()
    z = ZipWriter(file)
    for i in range(70_000):
        z.add(f"a/{i}", memoryview(b""))
    z.close()
    with zipfile.ZipFile(file) as read:
        assert len(read.namelist()) == 70_000


def test_a_storage_of_five_gigabytes_has_room_in_a_sparse_file(tmp_path):
    from pytpu._archive import ZipWriter

    path = tmp_path / "large"
    with open(path, "wb") as file:
        z = ZipWriter(file)
        z.add("a/large", None, 5 << 30)
        z.add("a/after", memoryview(b"after"))
        z.close()
    assert path.stat().st_blocks * 512 < 1 << 20
    with zipfile.ZipFile(path) as read:
        assert read.getinfo("a/large").file_size == 5 << 30 and read.read("a/after") == b"after"


def test_damaged_bytes_are_noticed(tmp_path):
    path = tmp_path / "a.pt"
    torch.save(torch.arange(1000), path)
    data = bytearray(path.read_bytes())
    at = data.find(torch.arange(1000).numpy().tobytes())
    data[at + 9] ^= 1
    path.write_bytes(data)
    with pytest.raises(RuntimeError, match="reading file data/0: its checksum is wrong"):
        torch.load(path)


def test_large_records_are_read_and_checked(tmp_path):
    path, x = tmp_path / "a.pt", torch.arange(300_000)
    torch.save({"x": x, "half": x.to(torch.bfloat16), "v": x[5:]}, path)
    for file in (path, io.BytesIO(path.read_bytes())):
        back = torch.load(file)
        assert (
            torch.equal(back["x"], x)
            and torch.equal(back["half"], x.to(torch.bfloat16))
            and torch.equal(back["v"], x[5:])
        )
        assert back["v"].data_ptr() == back["x"].data_ptr() + 40
    data = bytearray(path.read_bytes())
    data[1_000_000] ^= 1
    with pytest.raises(RuntimeError, match="its checksum is wrong"):
        torch.load(io.BytesIO(data))


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["data.pkl", "version"], "file in archive is not in a subdirectory: data.pkl"),
        (["a/data.pkl"], r'Expected hasRecord\("version"\) to be true, but got false'),
        (["a/version"], "PytorchStreamReader failed locating file data.pkl: file not found"),
        (["b/version", "a/data.pkl", "a/version"], "PytorchStreamReader failed locating file data.pkl: file not found"),
    ],
)
def test_archives_of_others_are_refused(names, text):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as z:
        for name in names:
            z.writestr(name, "3")
    file.seek(0)
    with pytest.raises(RuntimeError, match=text):
        torch.load(file)


def test_file_objects_need_only_read_seek_and_tell():
    data = io.BytesIO()
    torch.save(torch.ones(2), data)
    packed = io.BytesIO()
    with zipfile.ZipFile(data) as z, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as other:
        for name in z.namelist():
            other.writestr(name, z.read(name))

    class Minimal:
        def __init__(self, b):
            self.read, self.readline, self.seek, self.tell = b.read, b.readline, b.seek, b.tell

    for b in (data, packed):
        b.seek(0)
        assert torch.load(Minimal(b)).tolist() == [1, 1]


def test_old_files_in_other_streams(tmp_path):
    old = io.BytesIO()
    old.write(b"xxxxx")
    save_legacy(torch.ones(2), old)
    old.seek(5)
    assert torch.load(old)["x"].tolist() == [1, 1]
    with gzip.open(tmp_path / "a.gz", "wb") as f:
        f.write(old.getvalue()[5:])
    with gzip.open(tmp_path / "a.gz", "rb") as f:
        assert torch.load(f)["x"].tolist() == [1, 1]
    for end in (10, 60, 200, len(old.getvalue()) - 3):
        with pytest.raises((EOFError, RuntimeError, pickle.UnpicklingError)):
            torch.load(io.BytesIO(old.getvalue()[5:end]))


def test_old_files_keep_shared_memory_and_devices(device):
    x = torch.arange(6.0, device=device)
    file = io.BytesIO()
    torch.save(
        [x, x[2:4], torch.nn.Parameter(torch.ones(2, device=device))], file, _use_new_zipfile_serialization=False
    )
    for map_location in (None, "cpu", "tpu"):
        file.seek(0)
        a, b, p = torch.load(file, map_location=map_location)
        assert a.device.type == b.device.type == p.device.type == (map_location or device)
        assert a.tolist() == [0, 1, 2, 3, 4, 5] and b.tolist() == [2, 3] and p.tolist() == [1, 1]
        a[2] = 9
        assert b.tolist() == [9, 3]


# ---- byte order and options


def big_endian(file):
    """Return the file as a big-endian machine writes it."""
    out = io.BytesIO()
    with zipfile.ZipFile(file) as z, zipfile.ZipFile(out, "w") as other:
        for name in z.namelist():
            data = z.read(name)
            if name.endswith("/byteorder"):
                data = b"big"
            elif "/data/" in name:
                data = b"".join(data[i : i + 4][::-1] for i in range(0, len(data), 4))
            other.writestr(name, data)
    out.seek(0)
    return out


def test_files_of_big_endian_machines_are_read():
    file = io.BytesIO()
    made = {"f": torch.tensor([1.5, -2.0]), "i": torch.tensor([1, -3], dtype=torch.int32), "c": torch.tensor([1 + 2j])}
    torch.save(made, file)
    back = torch.load(big_endian(file))
    assert all(torch.equal(back[k], v) for k, v in made.items())


def test_files_without_a_byte_order_use_the_chosen_one():
    file, bare = io.BytesIO(), io.BytesIO()
    torch.save(torch.tensor([1.5]), file)
    with zipfile.ZipFile(big_endian(file)) as z, zipfile.ZipFile(bare, "w") as other:
        for name in z.namelist():
            if not name.endswith("byteorder"):
                other.writestr(name, z.read(name))
    assert serialization.get_default_load_endianness() is None
    serialization.set_default_load_endianness(serialization.LoadEndianness.BIG)
    try:
        bare.seek(0)
        assert torch.load(bare).tolist() == [1.5]
    finally:
        serialization.set_default_load_endianness(None)
    with pytest.raises(TypeError, match="Invalid argument type in function set_default_load_endianness"):
        serialization.set_default_load_endianness("big")


def test_checksums_can_be_left_out(tmp_path):
    path = tmp_path / "a.pt"
    assert serialization.get_crc32_options() is True
    serialization.set_crc32_options(False)
    try:
        torch.save(torch.ones(2), path)
    finally:
        serialization.set_crc32_options(True)
    with zipfile.ZipFile(path) as z:
        assert {i.CRC for i in z.infolist()} == {0}
    assert torch.load(path).tolist() == [1, 1]
    torch.save(torch.ones(2), path)
    with zipfile.ZipFile(path) as z:
        assert all(i.CRC == zlib.crc32(z.read(i)) for i in z.infolist())


def test_writes_to_a_mapped_file_are_private_or_shared(tmp_path):
    path = tmp_path / "a.pt"
    torch.save({"x": torch.ones(3), "e": torch.zeros(0)}, path)
    assert serialization.get_default_mmap_options() == serialization.MAP_PRIVATE
    torch.load(path, mmap=True)["x"][0] = 5
    assert torch.load(path)["x"].tolist() == [1, 1, 1]
    with serialization.set_default_mmap_options(serialization.MAP_SHARED):
        torch.load(path, mmap=True)["x"][0] = 5
    assert serialization.get_default_mmap_options() == serialization.MAP_PRIVATE
    with zipfile.ZipFile(path) as z, pytest.raises(zipfile.BadZipFile, match="Bad CRC"):
        z.read("a/data/0")
    with pytest.raises(ValueError, match="expected mmap.MAP_PRIVATE or mmap.MAP_SHARED, but got 99"):
        serialization.set_default_mmap_options(99)


def test_data_can_be_skipped(tmp_path):
    path = tmp_path / "a.pt"
    with serialization.skip_data():
        torch.save({"x": torch.ones(1000)}, path)
        with pytest.raises(RuntimeError, match="Cannot use skip_data=True with _use_new_zipfile_serialization=False"):
            save_legacy(torch.ones(1), path)
    with zipfile.ZipFile(path) as z:
        assert z.getinfo("a/data/0").file_size == 4000
    assert torch.load(path)["x"].shape == (1000,)
    torch.save({"x": torch.ones(3)}, path)
    with serialization.skip_data():
        assert torch.load(path)["x"].shape == (3,)
    assert torch.load(path)["x"].tolist() == [1, 1, 1]


# ---- devices


@pytest.mark.parametrize("is_new", [True, False])
def test_meta_tensors_are_saved(is_new):
    file = io.BytesIO()
    made = {"m": torch.ones(2, 3, device="meta"), "p": torch.nn.Parameter(torch.ones(2, device="meta"))}
    torch.save(made, file, _use_new_zipfile_serialization=is_new)
    file.seek(0)
    back = torch.load(file)
    assert back["m"].device.type == "meta" and back["m"].shape == (2, 3) and back["p"].requires_grad
    assert type(back["p"]) is torch.nn.Parameter
    file = io.BytesIO()
    torch.save(torch.ones(4), file)
    file.seek(0)
    assert torch.load(file, map_location="meta").device.type == "meta"


def test_missing_devices_are_refused():
    file = io.BytesIO()
    torch.save(torch.ones(2), file)

    def load_to(map_location):
        file.seek(0)
        return torch.load(file, map_location=map_location)

    cuda = (
        "Attempting to deserialize object on a CUDA device but torch.cuda.is_available.. is False. If you are running "
        "on a CPU-only"
    )
    with pytest.raises(RuntimeError, match=cuda):
        load_to("cuda:9")
    with pytest.raises(
        RuntimeError, match="don't know how to restore data location of torch.storage.UntypedStorage .tagged with foo."
    ):
        load_to("foo")
    with pytest.raises(TypeError, match="'int' object is not callable"):
        load_to(5)
    assert load_to({"cpu": "meta"}).device.type == "meta" and load_to({"x": "y"}).device.type == "cpu"
    seen = []
    load_to(lambda storage, location: seen.append((type(storage), storage.nbytes(), location)))
    assert seen == [(torch.UntypedStorage, 8, "cpu")]
    assert load_to(lambda storage, location: storage.to(device="tpu")).device.type == "tpu"


def test_files_from_a_gpu_need_map_location():
    file, out = io.BytesIO(), io.BytesIO()
    torch.save(torch.ones(2), file)
    with zipfile.ZipFile(file) as z, zipfile.ZipFile(out, "w") as other:
        for name in z.namelist():
            other.writestr(name, z.read(name).replace(b"X\x03\0\0\0cpu", b"X\x06\0\0\0cuda:0"))
    out.seek(0)
    with pytest.raises(
        RuntimeError, match="use torch.load with map_location=torch.device.'cpu'. to map your storages to the CPU"
    ):
        torch.load(out)
    for map_location in ("cpu", torch.device("cpu"), {"cuda:0": "cpu"}, lambda storage, location: storage):
        out.seek(0)
        assert torch.load(out, map_location=map_location).tolist() == [1, 1]


def test_packages_for_other_devices(monkeypatch):
    monkeypatch.setattr(serialization._file_places, "_packages", [])
    serialization.register_package(
        5, lambda s: "mine:0", lambda s, location: s.to(device="meta") if location == "mine:0" else None
    )
    file = io.BytesIO()
    torch.save(torch.ones(2), file)
    assert b"mine:0" in file.getvalue()
    file.seek(0)
    assert torch.load(file).device.type == "meta"
    assert serialization.location_tag(torch.ones(1).untyped_storage()) == "mine:0"


# ---- storages in files


@pytest.mark.parametrize("is_new", [True, False])
def test_storages_are_saved_and_share_memory_with_tensors(is_new):
    x, file = torch.arange(3.0), io.BytesIO()
    torch.save(
        [x, x.storage(), torch.ones(2, dtype=torch.uint8).untyped_storage()],
        file,
        _use_new_zipfile_serialization=is_new,
    )
    file.seek(0)
    tensor, typed, other = torch.load(file)
    assert type(typed) is torch.TypedStorage and typed.dtype == torch.float32 and typed.tolist() == [0, 1, 2]
    assert type(other) is torch.TypedStorage and other.dtype == torch.uint8 and other.tolist() == [1, 1]
    tensor[0] = 7
    assert typed[0] == 7
    if is_new:
        with pytest.raises(
            RuntimeError, match="Cannot save multiple tensors or storages that view the same data as different types"
        ):
            torch.save([x, x.untyped_storage()], file)


def test_complex_storages_are_copied():
    a = torch.randn(3, dtype=torch.complex64).storage()
    assert copy.deepcopy(a)[0] == a[0]


# ---- safetensors


def test_duplicate_keys_are_refused(tmp_path):
    one = '"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
    for header in (f"{{{one},{one}}}", '{"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}}'):
        data = struct.pack("<Q", len(header)) + header.encode() + bytes(4)
        path = tmp_path / "a.safetensors"
        path.write_bytes(data)
        for call in (
            lambda: safetensors.load(data),
            lambda: safetensors.load_file(path),
            lambda: safetensors.safe_open(path, "pt"),
        ):
            with pytest.raises(SafetensorError, match="the key `(a|dtype)` occurs twice"):
                call()


def test_a_size_beyond_all_tensors_is_refused():
    header = json.dumps({"a": {"dtype": "F32", "shape": [0, 2**63], "data_offsets": [0, 0]}})
    with pytest.raises(SafetensorError, match="is too large"):
        safetensors.load(struct.pack("<Q", len(header)) + header.encode())


def test_the_writer_of_files_and_that_of_bytes_agree(tmp_path):
    dtypes = [
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
        torch.complex64,
    ]
    made = {f'{d} é"\\\n': torch.arange(5).to(d) for d in dtypes} | {
        "empty": torch.zeros(0, 3),
        "scalar": torch.tensor(2.0),
    }
    for metadata in (None, {}, {"key": "value é\x01"}):
        safetensors.save_file(made, tmp_path / "a", metadata)
        assert (tmp_path / "a").read_bytes() == safetensors.save(made, metadata)
    for bad, error in (({"a": torch.ones(1, dtype=torch.complex128)}, TypeError), ({1: torch.ones(1)}, ValueError)):
        with pytest.raises(error):
            safetensors.save_file(bad, tmp_path / "b")
    with pytest.raises(TypeError):
        safetensors.save_file({"a": torch.ones(1)}, tmp_path / "b", {"a": 1})
    assert os.listdir(tmp_path) == ["a"]


def test_storages_are_read_without_a_copy_by_the_steps_of_the_package_safetensors(tmp_path):
    # Do as the package does: map the file, slice its bytes, and view them as tensors.
    path = tmp_path / "a.safetensors"
    x = torch.arange(6.0)
    safetensors.save_file({"x": x}, path)
    memory = torch.UntypedStorage.from_file(str(path), shared=False, nbytes=path.stat().st_size)
    start = path.stat().st_size - 24
    part = torch.asarray(memory[start : start + 24], dtype=torch.uint8)
    got = part.view(dtype=torch.float32).reshape([2, 3])
    assert got.tolist() == x.view(2, 3).tolist() and got.data_ptr() == memory.data_ptr() + start
    got[0, 0] = 5
    assert memory[start : start + 4].tolist() == list(struct.pack("<f", 5)) and safetensors.load_file(path)["x"][0] == 0
    del memory, part
    assert got.tolist() == [[5, 1, 2], [3, 4, 5]]


def test_the_package_safetensors_learns_the_name_of_the_device(tmp_path):
    # A stand-in for the package with the names of devices that it knows.
    package = tmp_path / "safetensors"
    package.mkdir()
    (package / "__init__.py").write_text(
        textwrap.dedent("""
        def safe_open(filename, framework, device="cpu", *, backend="mmap"):
            if device != "cpu" and not isinstance(device, int):
                raise ValueError(f"device {device} is invalid")
            return device
    """)
    )
    script = tmp_path / "program.py"
    script.write_text(
        textwrap.dedent("""
        import torch, safetensors
        assert safetensors.safe_open("f", "pt") == "cpu" and safetensors.safe_open("f", "pt", device="tpu") == 0
        assert safetensors.safe_open("f", "pt", "tpu:0", backend="pread") == 0
        assert safetensors.safe_open("f", "pt", torch.device("tpu", 0)) == 0
        assert safetensors.safe_open("f", "pt", 3) == 3
        assert safetensors.safe_open("f", "pt", torch.device("cpu")) == "cpu"
        try:
            safetensors.safe_open("f", "pt", "cuda")
        except ValueError:
            print("done")
    """)
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytpu", script],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONSAFEPATH": ""},
        cwd=tmp_path,
    )
    assert done.stdout == "done\n", done.stderr
