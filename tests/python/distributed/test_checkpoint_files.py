"""Files of `torch.distributed.checkpoint`: PyTorch's, damaged ones, hostile ones, and those of saves that fail."""

import collections
import importlib.util
import io
import json
import os
import pathlib
import pickle
import random
import shutil
import signal
import subprocess
import sys

import pytest
from checkpoint_ranks import pieces, run_ranks, succeed

import pytpu as torch
import pytpu.distributed.checkpoint as dcp
from pytpu.distributed.checkpoint import _metadata_file
from pytpu.distributed.checkpoint._consolidate_hf_safetensors import (
    consolidate_safetensors_files,
    consolidate_safetensors_files_on_every_rank,
)
from pytpu.distributed.checkpoint.filesystem import _StorageInfo
from pytpu.distributed.checkpoint.metadata import MetadataIndex, StorageMeta, TensorProperties
from pytpu.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys

pytestmark = pytest.mark.filterwarnings(
    "ignore:torch.distributed is disabled", "ignore:Detected an existing checkpoint"
)

GOLDENS = pathlib.Path(__file__).parents[1] / "goldens" / "checkpoints"


def recorded():
    """Return the script that has written the files of PyTorch, which says what they hold."""
    spec = importlib.util.spec_from_file_location("record", GOLDENS / "record.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def assert_same(got, want):
    if isinstance(want, torch.Tensor):
        assert got.dtype == want.dtype and torch.equal(got, want)
    elif isinstance(want, (dict, list)):
        assert len(got) == len(want)
        for key in want if isinstance(want, dict) else range(len(want)):
            assert_same(got[key], want[key])
    else:
        assert type(got) is type(want) and got == want


def load_tensors(folder):
    """Return the tensors of a checkpoint, or the error of loading them."""
    try:
        return _load_state_dict_from_keys(checkpoint_id=folder)
    except dcp.CheckpointException as error:
        return error.failures[0][0]


# ---- files of PyTorch


def test_checkpoints_of_pytorch_are_read():
    assert_same(load_tensors(GOLDENS / "one"), recorded().values(torch))
    whole = recorded().sharded(torch)
    want = {"rows": whole, "columns": whole, "same": torch.full((3,), 2.0), "step": 5}
    assert_same(load_tensors(GOLDENS / "two"), want)


@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_checkpoints_of_two_ranks_of_pytorch_are_read_by_other_numbers(monkeypatch, world):
    whole = recorded().sharded(torch)

    def load(rank):
        parts = {"rows": (world, 1), "columns": (1, world)}
        state = {name: pieces(torch.zeros_like(whole), part, rank, world) for name, part in parts.items()}
        dcp.load(state, checkpoint_id=GOLDENS / "two")
        for name, part in parts.items():
            for (_, got), (_, want) in zip(state[name].chunks, pieces(whole, part, rank, world).chunks):
                assert torch.equal(got, want)

    succeed(run_ranks(monkeypatch, world, load))


def structure(value):
    """Return what a pickled object holds, without the names of one save."""
    if isinstance(value, StorageMeta):
        return "meta", type(value.save_id), value.modules
    if isinstance(value, _StorageInfo):
        return "place", value.relative_path, value.transform_descriptors
    return value


@pytest.mark.parametrize("name", ["one", "two"])
def test_metadata_is_what_pytorch_writes(tmp_path, monkeypatch, name):
    if name == "one":
        dcp.save(recorded().values(torch), checkpoint_id=tmp_path, no_dist=True)
    else:
        whole = recorded().sharded(torch)

        def save(rank):
            parts = {"rows": (2, 1), "columns": (1, 2)}
            state = {key: pieces(whole, part, rank, 2) for key, part in parts.items()}
            planner = dcp.DefaultSavePlanner(dedup_save_to_lowest_rank=True)
            dcp.save({**state, "same": torch.full((3,), 2.0), "step": 5}, checkpoint_id=tmp_path, planner=planner)

        succeed(run_ranks(monkeypatch, 2, save))
    got, want = (dcp.FileSystemReader(folder).read_metadata() for folder in (tmp_path, GOLDENS / name))
    for tensor in (*got.state_dict_metadata.values(), *want.state_dict_metadata.values()):
        if isinstance(tensor, dcp.TensorStorageMetadata):
            # A column of a matrix is copied here, and is a view in PyTorch.
            tensor.properties.strides = None
            tensor.chunks.sort(key=lambda chunk: chunk.offsets)
    assert got.state_dict_metadata == want.state_dict_metadata
    assert got.planner_data == want.planner_data and got.version == want.version
    assert got.storage_data.keys() == want.storage_data.keys()
    assert structure(got.storage_meta) == structure(want.storage_meta)


def globals_of(data):
    """Return the names in a pickle."""
    found = set()

    class Named(pickle.Unpickler):
        def find_class(self, module, name):
            found.add(f"{module}.{name}")
            return super().find_class(module, name)

    Named(io.BytesIO(data)).load()
    return found


@pytest.mark.parametrize("has_name", [True, False])
def test_pickles_name_the_classes_of_pytorch(tmp_path, monkeypatch, has_name):
    # Beside a real PyTorch, this package does not have the name `torch`, and the names are replaced.
    monkeypatch.setattr(_metadata_file, "_has_name_of_torch", lambda: has_name)
    dcp.save(recorded().values(torch), checkpoint_id=tmp_path, no_dist=True)
    got = globals_of((tmp_path / ".metadata").read_bytes())
    assert got == globals_of((GOLDENS / "one" / ".metadata").read_bytes())
    assert "torch.distributed.checkpoint.metadata.Metadata" in got and "torch.float32" in got
    assert_same(load_tensors(tmp_path), recorded().values(torch))


def test_metadata_of_older_versions_is_read(tmp_path, monkeypatch):
    dcp.save({"x": torch.ones(2)}, checkpoint_id=tmp_path, no_dist=True)
    content = dcp.FileSystemReader(tmp_path).read_metadata()
    # The names are texts in the pickle then.
    monkeypatch.setattr(_metadata_file, "_has_name_of_torch", lambda: False)
    # Without strides, a version and the name of a save.
    monkeypatch.setattr(
        TensorProperties, "__getstate__", lambda self, _state=TensorProperties.__getstate__: _state(self)[:5]
    )
    del content.version, content.storage_meta
    with open(tmp_path / ".metadata", "wb") as file:
        _metadata_file.write(content, file)
    data = (tmp_path / ".metadata").read_bytes()
    old = b"torch.distributed._shard.sharded_tensor.metadata\n"
    for new_name, old_name in (
        (b"TensorProperties", b"TensorProperties"),
        (b"_MEM_FORMAT_ENCODING", b"MEM_FORMAT_ENCODING"),
    ):
        assert b"torch.distributed.checkpoint.metadata\n" + new_name in data
        data = data.replace(b"torch.distributed.checkpoint.metadata\n" + new_name, old + old_name)
    # The frame of protocol 4 has a size.
    assert data[2:3] == pickle.FRAME
    (tmp_path / ".metadata").write_bytes(data[:2] + data[11:])
    assert load_tensors(tmp_path)["x"].tolist() == [1, 1]


# ---- damaged files


def test_each_truncated_metadata_is_an_error_that_names_the_file(tmp_path):
    shutil.copytree(GOLDENS / "two", tmp_path / "c")
    path = tmp_path / "c" / ".metadata"
    data = path.read_bytes()
    for size in range(len(data)):
        with pytest.raises(pickle.UnpicklingError, match="/.metadata: the file is damaged: "):
            _metadata_file.read(data[:size], path)
    path.write_bytes(data[:100])
    error = load_tensors(tmp_path / "c")
    assert isinstance(error, AssertionError) and f"global metadata read failed: {path}: the file is damaged" in str(
        error
    )


def test_metadata_with_changed_bytes_is_read_or_refused():
    data = (GOLDENS / "one" / ".metadata").read_bytes()
    rng = random.Random(0)
    for _ in range(2000):
        changed = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        try:
            assert isinstance(_metadata_file.read(bytes(changed), "name"), dcp.Metadata)
        except pickle.UnpicklingError as error:
            assert str(error).startswith("name: ")


def test_missing_files_are_named(tmp_path):
    error = load_tensors(tmp_path)
    assert isinstance(error, AssertionError)
    assert str(error).startswith("metadata is None; global metadata read failed: [Errno 2] No such file or directory: ")
    assert "/.metadata'; rank local metadata read failed: " in str(error) and "/__0.metadata'" in str(error)
    shutil.copytree(GOLDENS / "two", tmp_path / "c")
    os.unlink(tmp_path / "c" / "__1_0.distcp")
    error = load_tensors(tmp_path / "c")
    assert isinstance(error, FileNotFoundError) and error.filename == str(tmp_path / "c" / "__1_0.distcp")


def test_truncated_files_are_named_with_their_value(tmp_path):
    shutil.copytree(GOLDENS / "one", tmp_path / "c")
    path = tmp_path / "c" / "__0_0.distcp"
    data = path.read_bytes()
    for size in (0, 1000, len(data) - 1):
        path.write_bytes(data[:size])
        error = load_tensors(tmp_path / "c")
        assert isinstance(error, RuntimeError) and f"{path}: " in str(error)
        assert f"the file is truncated: it has {size} bytes, and the item needs the bytes from" in str(error)


def test_changed_bytes_of_tensors_are_found(tmp_path):
    shutil.copytree(GOLDENS / "two", tmp_path / "c")
    path = tmp_path / "c" / "__0_0.distcp"
    data = path.read_bytes()
    place = dcp.FileSystemReader(tmp_path / "c").read_metadata().storage_data[MetadataIndex("rows", [0, 0])]
    assert place.relative_path == "__0_0.distcp"
    for at in range(place.offset, place.offset + place.length, 7):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        got = load_tensors(tmp_path / "c")
        if isinstance(got, dict):
            assert torch.equal(got["rows"], recorded().sharded(torch))
        else:
            assert isinstance(got, RuntimeError) and f"{path}: rows: " in str(got)


def test_metadata_of_another_checkpoint_is_refused(tmp_path):
    for name, size in (("a", 4), ("b", 3)):
        dcp.save({"x": torch.ones(size)}, checkpoint_id=tmp_path / name, no_dist=True)
    shutil.copy(tmp_path / "a" / ".metadata", tmp_path / "b" / ".metadata")
    error = load_tensors(tmp_path / "b")
    assert isinstance(error, RuntimeError) and "__0_0.distcp: x: " in str(error)


def test_values_without_a_place_are_named(tmp_path):
    dcp.save({"x": torch.ones(2)}, checkpoint_id=tmp_path, no_dist=True)
    content = dcp.FileSystemReader(tmp_path).read_metadata()
    content.storage_data = {}
    with open(tmp_path / ".metadata", "wb") as file:
        _metadata_file.write(content, file)
    error = load_tensors(tmp_path)
    assert isinstance(error, RuntimeError) and "/.metadata: no file is named for MetadataIndex(fqn='x'" in str(error)


# ---- hostile files


class Calls:
    """An object that is pickled as a call."""

    def __init__(self, function, *args):
        self.made = function, args

    def __reduce__(self):
        return self.made


Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize("protocol", range(6))
def test_metadata_cannot_run_code(tmp_path, protocol):
    target = tmp_path / "made"
    for call in (
        Calls(os.system, f"touch {target}"),
        Calls(open, str(target), "w"),
        Calls(eval, f"open({str(target)!r}, 'w')"),
    ):
        for value in (call, {"state": [call]}, torch.distributed.checkpoint.Metadata({"x": call})):
            with pytest.raises(pickle.UnpicklingError, match="^name: "):
                _metadata_file.read(pickle.dumps(value, protocol), "name")
    assert not target.exists()


def test_metadata_cannot_change_classes():
    kind = b"\x8c\x25torch.distributed.checkpoint.metadata\x8c\x08Metadata\x93"
    for state in (b"}\x8c\x01xK\x01s", b"N}\x8c\x01xK\x01s\x86"):
        with pytest.raises(pickle.UnpicklingError, match="^name: "):
            _metadata_file.read(b"\x80\x04" + kind + state + b"b.", "name")
    assert not hasattr(dcp.Metadata, "x")


def test_names_whose_hash_takes_long_are_refused():
    bomb = ()
    for _ in range(200):
        bomb = (bomb, bomb)
    index = MetadataIndex("x")
    object.__setattr__(index, "offset", bomb)
    for protocol in (2, 4):
        with pytest.raises(pickle.UnpicklingError, match="the offset is no size"):
            _metadata_file.read(pickle.dumps([index], protocol), "name")


def test_contents_that_no_save_writes_are_refused():
    def read(content):
        file = io.BytesIO()
        _metadata_file.write(content, file)
        return _metadata_file.read(file.getvalue(), "name")

    properties = TensorProperties()
    chunk = dcp.ChunkStorageMetadata(torch.Size([2]), torch.Size([3]))
    for content, text in (
        ({}, "expected Metadata, got dict"),
        (dcp.Metadata({1: dcp.BytesStorageMetadata()}), "the name 1 is no string"),
        (dcp.Metadata({"x": 1}), "x: unknown kind int"),
        (dcp.Metadata({"x": dcp.TensorStorageMetadata(properties, torch.Size([4]), [chunk])}), "outside of the tensor"),
        (dcp.Metadata({"x": dcp.TensorStorageMetadata(properties, [4], [])}), "x: no size, properties or chunks"),
        (dcp.Metadata({}, planner_data={"x": ("x", -1)}), "x: the path ('x', -1) is not possible"),
        (dcp.Metadata({}, planner_data={"x": ("x", 10**9)}), "the paths need lists that are too long"),
        (dcp.Metadata({}, planner_data={i: (f"{i}", 10**4) for i in range(200)}), "lists that are too long"),
    ):
        with pytest.raises(pickle.UnpicklingError) as caught:
            read(content)
        assert text in str(caught.value)
    with pytest.raises(TypeError, match="cannot hold tensors"):
        read(dcp.Metadata({}, planner_data=torch.ones(2)))


def test_other_classes_are_read_if_they_are_allowed(tmp_path):
    class Planner(dcp.DefaultSavePlanner):
        def create_global_plan(self, all_plans):
            plans, content = super().create_global_plan(all_plans)
            content.planner_data["point"] = Point(1, 2)
            return plans, content

    dcp.save({"x": torch.ones(2), "p": Point(3, 4)}, checkpoint_id=tmp_path, planner=Planner(), no_dist=True)
    error = load_tensors(tmp_path)
    assert isinstance(error, AssertionError) and "add_safe_globals" in str(error) and "Point" in str(error)
    with torch.serialization.safe_globals([Point]):
        assert load_tensors(tmp_path)["p"] == Point(3, 4)


def test_objects_are_read_without_trust(tmp_path):
    target = tmp_path / "made"
    dcp.save({"x": Calls(os.system, f"touch {target}")}, checkpoint_id=tmp_path / "c", no_dist=True)
    error = load_tensors(tmp_path / "c")
    assert isinstance(error, pickle.UnpicklingError) and "__0_0.distcp: x: Weights only load failed" in str(error)
    assert not target.exists()


# ---- saves that fail


class Failing(dcp.DefaultSavePlanner):
    """A planner that raises an error for one value."""

    def resolve_data(self, write_item):
        if write_item.index.fqn == "b":
            raise OSError("no space left")
        return super().resolve_data(write_item)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_save_that_fails_leaves_the_old_checkpoint(tmp_path, threads):
    dcp.save({"a": torch.zeros(2), "b": torch.zeros(2)}, checkpoint_id=tmp_path, no_dist=True)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    writer = dcp.FileSystemWriter(tmp_path, thread_count=threads)
    with pytest.raises(dcp.CheckpointException, match="no space left"):
        state = {"a": torch.ones(2), "b": torch.ones(2)}
        dcp.save(state, storage_writer=writer, planner=Failing(), no_dist=True)
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert {name: after[name] for name in before} == before
    assert not any(name.endswith(".tmp") for name in after)
    # The next save removes what the failed one has left.
    dcp.save({"a": torch.ones(2), "b": torch.ones(2)}, checkpoint_id=tmp_path, no_dist=True)
    assert len(list(tmp_path.iterdir())) == 2 and load_tensors(tmp_path)["b"].tolist() == [1, 1]


def test_files_that_are_not_of_the_checkpoint_stay(tmp_path):
    for name in ("notes.txt", "__0_0.pt", "model.distcp"):
        (tmp_path / name).write_text("x")
    for name in ("__7_0.distcp", "__1_0.distcp.01234567.tmp", ".metadata.01234567.tmp"):
        (tmp_path / name).write_text("of an earlier save")
    dcp.save({"a": torch.ones(2)}, checkpoint_id=tmp_path, no_dist=True)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [".metadata", "__0_0.distcp", "__0_0.pt", "model.distcp", "notes.txt"]


def test_a_killed_save_leaves_the_old_or_the_new_checkpoint(tmp_path):
    code = f"""
import itertools, warnings
import pytpu as torch, pytpu.distributed.checkpoint as dcp
warnings.simplefilter("ignore")
for i in itertools.count():
    state = {{"a": torch.full((1000,), i), "b": torch.full((2000,), i), "i": i}}
    print(i, flush=True)
    writer = dcp.FileSystemWriter({str(tmp_path)!r}, thread_count=2)
    dcp.save(state, storage_writer=writer, no_dist=True)
"""
    for rounds in (3, 8, 20):
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        try:
            for _ in range(rounds):
                assert child.stdout.readline()
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait(60)
            child.stdout.close()
        got = load_tensors(tmp_path)
        assert got["a"].eq(got["i"]).all() and got["b"].eq(got["i"]).all() and got["i"] >= rounds - 2


# ---- safetensors


def test_safetensors_of_pytorch_are_read(tmp_path):
    want = {"a": torch.arange(6, dtype=torch.float32).reshape(2, 3), "b": torch.tensor([1, 2, 3])}
    reader = dcp.HuggingFaceStorageReader(str(GOLDENS / "safetensors"))
    got = {name: torch.zeros_like(value) for name, value in want.items()}
    dcp.load(got, storage_reader=reader, no_dist=True)
    assert_same(got, want)
    dcp.save(want, storage_writer=dcp.HuggingFaceStorageWriter(str(tmp_path)), no_dist=True)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == sorted(path.name for path in (GOLDENS / "safetensors").iterdir())
    for name in names:
        got, want = ((folder / name).read_bytes() for folder in (tmp_path, GOLDENS / "safetensors"))
        if name.endswith(".json"):
            assert json.loads(got) == json.loads(want)
        else:
            # The order of the entries of a header may differ.
            size = 8 + int.from_bytes(got[:8], "little")
            assert json.loads(got[8:size]) == json.loads(want[8:size]) and got[size:] == want[size:]


@pytest.mark.parametrize("threads", [1, 2])
def test_safetensors_go_to_numbered_files(tmp_path, threads):
    state = {"a": torch.ones(2), "b": torch.zeros(3), "c": torch.arange(4)}
    mapping = {"a": 1, "b": 2, "c": 1}
    writer = dcp.HuggingFaceStorageWriter(str(tmp_path), mapping, thread_count=threads)
    dcp.save(state, storage_writer=writer, no_dist=True)
    names = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    assert sorted(torch.safetensors.load_file(tmp_path / names[0])) == ["a", "c"]
    index = json.loads((tmp_path / writer.metadata_path).read_text())
    assert index == {"metadata": {"total_size": 52}, "weight_map": {"a": names[0], "b": names[1], "c": names[0]}}
    got = {name: torch.zeros_like(value) for name, value in state.items()}
    dcp.load(got, storage_reader=dcp.HuggingFaceStorageReader(str(tmp_path), threads), no_dist=True)
    assert_same(got, state)
    (tmp_path / names[1]).write_bytes(b"damaged")
    with pytest.raises(dcp.CheckpointException, match=f"{names[1]}: the file is damaged"):
        dcp.load(got, storage_reader=dcp.HuggingFaceStorageReader(str(tmp_path)), no_dist=True)


def test_safetensors_hold_tensors_only(tmp_path):
    writer = dcp.HuggingFaceStorageWriter(str(tmp_path))
    with pytest.raises(dcp.CheckpointException, match="a file of safetensors holds tensors only, and n is none"):
        dcp.save({"n": 3}, storage_writer=writer, no_dist=True)


@pytest.mark.parametrize("is_consolidated", [False, True])
def test_safetensors_of_several_ranks(tmp_path, monkeypatch, is_consolidated):
    whole = torch.arange(35.0).reshape(5, 7)

    def save(rank):
        writer = dcp.HuggingFaceStorageWriter(
            str(tmp_path), save_distributed=True, enable_consolidation=is_consolidated
        )
        state = {"x": pieces(whole, (3, 1), rank, 3), "same": torch.ones(2)}
        dcp.save(state, storage_writer=writer)

    succeed(run_ranks(monkeypatch, 3, save))
    if not is_consolidated:
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            f"shard-0000{i}-model-00001-of-00001.safetensors" for i in (1, 2, 3)
        ]
        out = tmp_path / "out"
        out.mkdir()
        consolidate_safetensors_files(str(tmp_path), str(out), {"x": 1, "same": 2})
        got = torch.safetensors.load_file(out / "model-00001-of-00002.safetensors")
        assert sorted(got) == ["x"] and torch.equal(got["x"], whole)
        monkeypatch.undo()
        consolidate_safetensors_files_on_every_rank(str(tmp_path), str(out), {"x": 1})
        assert torch.equal(torch.safetensors.load_file(out / "model-00001-of-00001.safetensors")["x"], whole)
        with pytest.raises(RuntimeError, match=r"no file has the tensors \['y'\]"):
            consolidate_safetensors_files(str(tmp_path), str(out), {"y": 1})
    else:
        got = torch.safetensors.load_file(tmp_path / "model-00001-of-00001.safetensors")
        assert torch.equal(got["x"], whole) and got["same"].tolist() == [1, 1]

    def load(rank):
        state = {"x": pieces(torch.zeros_like(whole), (1, 2), rank, 2), "same": torch.zeros(2)}
        dcp.load(state, storage_reader=dcp.HuggingFaceStorageReader(str(tmp_path)))
        for (_, got), (_, want) in zip(state["x"].chunks, pieces(whole, (1, 2), rank, 2).chunks):
            assert torch.equal(got, want)
        assert state["same"].tolist() == [1, 1]

    succeed(run_ranks(monkeypatch, 2, load))
