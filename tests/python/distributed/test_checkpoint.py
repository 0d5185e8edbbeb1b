"""`save`, `load` and `async_save` of `torch.distributed.checkpoint` in one process."""

import contextlib
import io
import os
import pathlib
import subprocess
import sys
import threading
import types
import typing

import pytest
from patience import HANG_SECONDS

import pytpu as torch
import pytpu.distributed.checkpoint as dcp
from pytpu import nn
from pytpu.distributed.checkpoint.default_planner import create_default_local_load_plan
from pytpu.distributed.checkpoint.format_utils import dcp_to_torch_save, torch_save_to_dcp
from pytpu.distributed.checkpoint.staging import BlockingAsyncStager, DefaultStager, StagingOptions
from pytpu.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys
from pytpu.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType, AsyncSaveResponse
from pytpu.distributed.checkpoint.stateful import Stateful

pytestmark = pytest.mark.filterwarnings(
    "ignore:torch.distributed is disabled", "ignore:Detected an existing checkpoint"
)


def nested(device="cpu"):
    return {
        "model": {
            "weight": torch.arange(12, dtype=torch.float32, device=device).reshape(3, 4),
            "transposed": torch.arange(6, dtype=torch.float32, device=device).reshape(2, 3).t(),
            "part": torch.arange(10, dtype=torch.int64, device=device)[2:5],
            "bias": torch.tensor([1.5, -2.0], dtype=torch.bfloat16, device=device),
            "count": torch.tensor(7, device=device),
            "none": torch.zeros(0, 3, device=device),
        },
        "list": [torch.ones(2, device=device), {"name": "x"}],
        "step": 3,
        "text": "straße",
        "nothing": None,
        "pair": (1, 2.5),
    }


def emptied(value):
    """Return a state dict of the same form without its values."""
    if isinstance(value, torch.Tensor):
        return torch.zeros_like(value)
    if isinstance(value, dict):
        return {key: emptied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [emptied(item) for item in value]
    return ""


def assert_same(got, want):
    if isinstance(want, torch.Tensor):
        assert got.dtype == want.dtype and got.device == want.device and torch.equal(got, want)
    elif isinstance(want, (dict, list)):
        keys = want.keys() if isinstance(want, dict) else range(len(want))
        assert len(got) == len(want)
        for key in keys:
            assert_same(got[key], want[key])
    else:
        assert type(got) is type(want) and got == want


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("single_file", [True, False])
def test_nested_values_come_back(tmp_path, device, threads, single_file):
    want = nested(device)
    writer = dcp.FileSystemWriter(tmp_path / "a" / "b", single_file_per_rank=single_file, thread_count=threads)
    dcp.save(want, storage_writer=writer, no_dist=True)
    got = emptied(want)
    memory = got["model"]["weight"]
    dcp.load(got, checkpoint_id=tmp_path / "a" / "b", no_dist=True)
    assert_same(got, want)
    # Tensors are filled in place.
    assert got["model"]["weight"] is memory


def test_views_are_filled_in_the_memory_of_their_base(tmp_path, device):
    dcp.save({"x": torch.arange(4.0)}, checkpoint_id=tmp_path, no_dist=True)
    base = torch.zeros(2, 4, device=device)
    dcp.load({"x": base[1]}, checkpoint_id=tmp_path, no_dist=True)
    assert base.tolist() == [[0, 0, 0, 0], [0, 1, 2, 3]]


def test_a_view_is_saved_without_the_rest_of_its_base(tmp_path):
    base = torch.zeros(1 << 18)
    dcp.save({"x": base[5:9]}, checkpoint_id=tmp_path, no_dist=True)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 10_000


def test_a_model_and_its_optimizer_train_on_from_a_checkpoint(tmp_path, device):
    def make():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 2)

    data = torch.randn(4, 8, 3).to(device)

    def train(model, optimizer, schedule, batches):
        for x in batches:
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()

    kept = make()
    train(*kept, data[:2])
    names = ("model", "optimizer", "schedule")
    dcp.save(dict(zip(names, kept)), checkpoint_id=tmp_path, no_dist=True)
    train(*kept, data[2:])
    resumed = make()
    # The state of an optimizer is filled in place, so it has to exist.
    train(*resumed, data[:1])
    dcp.load(dict(zip(names, resumed)), checkpoint_id=tmp_path, no_dist=True)
    train(*resumed, data[2:])
    for got, want in zip(resumed[0].state_dict().values(), kept[0].state_dict().values()):
        assert torch.equal(got, want)
    assert resumed[2].state_dict() == kept[2].state_dict()


def test_stateful_objects_give_and_take_their_state(tmp_path):
    class Counter:
        count = 5

        def state_dict(self):
            return {"count": self.count, "where": torch.ones(2) * self.count}

        def load_state_dict(self, state):
            self.count = state["count"]
            self.where = state["where"]

    assert isinstance(Counter(), Stateful) and not isinstance(3, Stateful)
    dcp.save({"counter": Counter()}, checkpoint_id=tmp_path, no_dist=True)
    counter = Counter()
    counter.count = 0
    state = {"counter": counter}
    dcp.load(state, checkpoint_id=tmp_path, no_dist=True)
    assert state["counter"] is counter and counter.count == 5 and counter.where.tolist() == [5, 5]


def test_parameters_that_require_gradients_stay_leaves(tmp_path):
    dcp.save({"w": torch.arange(3.0)}, checkpoint_id=tmp_path, no_dist=True)
    w = nn.Parameter(torch.zeros(3))
    dcp.load({"w": w}, checkpoint_id=tmp_path, no_dist=True)
    assert w.is_leaf and w.requires_grad and w.tolist() == [0, 1, 2]


def test_values_of_device_meta_get_memory(tmp_path):
    dcp.save({"w": torch.arange(3.0), "n": {"v": torch.ones(2)}}, checkpoint_id=tmp_path, no_dist=True)
    state = {"w": torch.empty(3, device="meta"), "n": {"v": torch.empty(2, device="meta")}}
    dcp.load(state, checkpoint_id=tmp_path, no_dist=True)
    assert state["w"].tolist() == [0, 1, 2] and state["n"]["v"].tolist() == [1, 1]


def test_dtypes_and_devices_are_those_of_the_values_that_are_filled(tmp_path):
    dcp.save({"w": torch.arange(3.0)}, checkpoint_id=tmp_path, no_dist=True)
    state = {"w": torch.zeros(3, dtype=torch.float64, device="tpu")}
    dcp.load(state, checkpoint_id=tmp_path, no_dist=True)
    assert state["w"].dtype == torch.float64 and state["w"].device.type == "tpu" and state["w"].tolist() == [0, 1, 2]


def failure_of(call, *args, **kwargs):
    """Return the error of the only rank."""
    with pytest.raises(dcp.CheckpointException) as caught:
        call(*args, **kwargs)
    assert list(caught.value.failures) == [0]
    return caught.value.failures[0][0]


def test_missing_values_and_other_sizes_are_errors(tmp_path):
    dcp.save({"w": torch.arange(3.0)}, checkpoint_id=tmp_path, no_dist=True)
    error = failure_of(dcp.load, {"v": torch.zeros(3)}, checkpoint_id=tmp_path, no_dist=True)
    assert isinstance(error, RuntimeError) and str(error) == "Missing key in checkpoint state_dict: v."
    error = failure_of(dcp.load, {"w": torch.zeros(4)}, checkpoint_id=tmp_path, no_dist=True)
    assert isinstance(error, ValueError)
    assert str(error) == "Size mismatch between saved torch.Size([3]) and current: torch.Size([4]) for w"
    error = failure_of(dcp.load, {"w": 3}, checkpoint_id=tmp_path, no_dist=True)
    assert isinstance(error, ValueError) and "Invalid checkpoint metadata for w" in str(error)


def test_partial_loads_keep_other_values(tmp_path):
    dcp.save({"w": torch.arange(3.0)}, checkpoint_id=tmp_path, no_dist=True)
    state = {"v": torch.full((2,), 4.0), "w": torch.zeros(3)}
    planner = dcp.DefaultLoadPlanner(allow_partial_load=True)
    dcp.load(state, checkpoint_id=tmp_path, planner=planner, no_dist=True)
    assert state["v"].tolist() == [4, 4] and state["w"].tolist() == [0, 1, 2]


def test_values_go_to_keys_that_are_no_texts(tmp_path):
    dcp.save({"a": {1: {"n": 2}, "x": [{3: 4}]}}, checkpoint_id=tmp_path, no_dist=True)
    state = {"a": {1: {"n": 0}, "x": [{3: 0}]}}
    dcp.load(state, checkpoint_id=tmp_path, no_dist=True)
    assert state == {"a": {1: {"n": 2}, "x": [{3: 4}]}}


def test_tensors_of_other_classes_are_saved_as_plain_ones(tmp_path):
    class Own(torch.Tensor):
        pass

    dcp.save(
        {"x": torch.ones(2).as_subclass(Own), "p": nn.Parameter(torch.ones(2))}, checkpoint_id=tmp_path, no_dist=True
    )
    got = _load_state_dict_from_keys(checkpoint_id=tmp_path)
    assert type(got["x"]) is type(got["p"]) is torch.Tensor and got["x"].tolist() == [1, 1]


def test_values_are_loaded_by_their_names_alone(tmp_path):
    dcp.save(nested(), checkpoint_id=tmp_path, no_dist=True)
    assert_same(_load_state_dict_from_keys(checkpoint_id=tmp_path), nested())
    got = _load_state_dict_from_keys({"model.weight", "list", "step"}, checkpoint_id=tmp_path)
    assert_same(got, {"model": {"weight": nested()["model"]["weight"]}, "list": nested()["list"], "step": 3})


def test_an_existing_checkpoint_is_replaced_or_refused(tmp_path):
    dcp.save({"w": torch.zeros(2)}, checkpoint_id=tmp_path, no_dist=True)
    with pytest.warns(UserWarning, match="Detected an existing checkpoint in"):
        dcp.save({"w": torch.ones(2)}, checkpoint_id=tmp_path, no_dist=True)
    state = {"w": torch.zeros(2)}
    dcp.load(state, checkpoint_id=tmp_path, no_dist=True)
    assert state["w"].tolist() == [1, 1] and len(os.listdir(tmp_path)) == 2
    writer = dcp.FileSystemWriter(tmp_path, overwrite=False)
    error = failure_of(dcp.save, {"w": torch.ones(2)}, storage_writer=writer, no_dist=True)
    assert isinstance(error, RuntimeError) and "Checkpoint already exists" in str(error)


def test_equal_flat_names_are_an_error(tmp_path):
    error = failure_of(dcp.save, {"a": {"b": 1}, "a.b": 2}, checkpoint_id=tmp_path, no_dist=True)
    assert str(error) == "duplicated flatten key a.b"


def test_without_flattening_nested_values_are_one_item(tmp_path):
    planner = dcp.DefaultSavePlanner(flatten_state_dict=False)
    content = dcp.save({"a": {"b": torch.ones(2)}}, checkpoint_id=tmp_path, planner=planner, no_dist=True)
    assert list(content.state_dict_metadata) == ["a"]
    state = {"a": {}}
    planner = dcp.DefaultLoadPlanner(flatten_state_dict=False)
    dcp.load(state, checkpoint_id=tmp_path, planner=planner, no_dist=True)
    assert state["a"]["b"].tolist() == [1, 1]


def test_calls_without_a_place_and_with_old_arguments(tmp_path):
    with pytest.raises(RuntimeError, match="`checkpoint_id` must be specified"):
        dcp.save({}, no_dist=True)
    with pytest.raises(RuntimeError, match="Cannot detect which StorageReader or StorageWriter"):
        dcp.save({}, checkpoint_id="unknown://x/y", no_dist=True)
    with pytest.warns(UserWarning, match="The argument order of save has been changed"):
        dcp.save({"w": torch.ones(2)}, dcp.FileSystemWriter(tmp_path), no_dist=True)
    with pytest.warns(FutureWarning, match="`save_state_dict` is deprecated"):
        dcp.save_state_dict({"w": torch.ones(2)}, dcp.FileSystemWriter(tmp_path), no_dist=True)
    state = {"w": torch.zeros(2)}
    with pytest.warns(FutureWarning, match="`load_state_dict` is deprecated"):
        dcp.load_state_dict(state, dcp.FileSystemReader(tmp_path), no_dist=True)
    assert state["w"].tolist() == [1, 1]


# ---- async_save


def test_async_save_writes_the_values_of_the_call(tmp_path, device):
    state = nested(device)
    want = emptied(state)
    future = dcp.async_save(state, checkpoint_id=tmp_path, no_dist=True)
    state["model"]["weight"].zero_()
    state["list"][0].zero_()
    assert sorted(future.result(60).state_dict_metadata)[:2] == ["list.0", "list.1.name"]
    dcp.load(want, checkpoint_id=tmp_path, no_dist=True)
    assert_same(want, nested(device))


def test_async_save_with_a_thread_for_the_copy(tmp_path):
    stager = DefaultStager(StagingOptions(False, False, True, False))
    futures = dcp.async_save({"w": torch.ones(2)}, checkpoint_id=tmp_path, async_stager=stager, no_dist=True)
    assert isinstance(futures, AsyncSaveResponse)
    assert futures.staging_completion.result(60) is None
    futures.upload_completion.result(60)
    stager.close()
    assert _load_state_dict_from_keys(checkpoint_id=tmp_path)["w"].tolist() == [1, 1]


def test_errors_of_the_copy_reach_both_futures(tmp_path):
    class Bad:
        def __deepcopy__(self, memo):
            raise TypeError("cannot be copied")

    stager = DefaultStager(StagingOptions(False, False, True, False))
    futures = dcp.async_save({"w": Bad()}, checkpoint_id=tmp_path, async_stager=stager, no_dist=True)
    for future in (futures.staging_completion, futures.upload_completion):
        with pytest.raises(TypeError, match="cannot be copied"):
            future.result(60)


def test_errors_of_writing_reach_the_future(tmp_path):
    (tmp_path / "file").write_text("x")
    future = dcp.async_save({"w": torch.ones(2)}, checkpoint_id=tmp_path / "file", no_dist=True)
    with pytest.raises(dcp.CheckpointException, match="file"):
        future.result(60)


def test_the_writer_copies_and_may_keep_its_memory(tmp_path):
    writer = dcp.FileSystemWriter(tmp_path, cache_staged_state_dict=True)
    w = torch.zeros(2)
    addresses = set()
    for i in range(3):
        w.fill_(i)
        dcp.async_save({"w": w}, storage_writer=writer, no_dist=True).result(60)
        addresses.add(writer.state_dict_cache["w"].data_ptr())
        assert _load_state_dict_from_keys(checkpoint_id=tmp_path)["w"].tolist() == [i, i]
    assert len(addresses) == 1 and w.data_ptr() not in addresses


def test_copies_keep_tied_tensors_and_other_objects():
    x = torch.arange(4.0)
    state = {"a": x, "b": x, "c": x[1:], "d": [io.BytesIO(b"abc"), (1, "x")], "e": {"f": None}}
    copied = BlockingAsyncStager().stage(state)
    x.zero_()
    assert copied["a"] is copied["b"] and copied["a"].tolist() == [0, 1, 2, 3] and copied["c"].tolist() == [1, 2, 3]
    assert copied["d"][0].getvalue() == b"abc" and copied["d"][1] == (1, "x") and copied["e"] == {"f": None}


def test_another_process_is_refused_by_name(tmp_path):
    with pytest.raises(NotImplementedError, match="AsyncCheckpointerType.PROCESS"):
        dcp.async_save({}, checkpoint_id=tmp_path, async_checkpointer_type=AsyncCheckpointerType.PROCESS, no_dist=True)


def test_a_process_that_ends_finishes_its_save(tmp_path):
    code = f"""
import pytpu as torch, pytpu.distributed.checkpoint as dcp
dcp.async_save({{"w": torch.ones(100_000)}}, checkpoint_id={str(tmp_path)!r}, no_dist=True)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=HANG_SECONDS)
    assert _load_state_dict_from_keys(checkpoint_id=tmp_path)["w"].sum() == 100_000


# ---- other forms of files


def test_files_of_save_become_checkpoints_and_back(tmp_path):
    torch.save(nested(), tmp_path / "a.pt")
    torch_save_to_dcp(tmp_path / "a.pt", tmp_path / "b")
    dcp_to_torch_save(tmp_path / "b", tmp_path / "c.pt")
    assert_same(torch.load(tmp_path / "c.pt"), nested())


def test_the_module_of_formats_is_a_program(tmp_path):
    torch.save(nested(), tmp_path / "a.pt")
    run = [sys.executable, "-m", "pytpu", "-m", "torch.distributed.checkpoint.format_utils"]
    for args in (["torch_to_dcp", "a.pt", "b"], ["dcp_to_torch", "b", "c.pt"], ["dcp_to_torch", "missing", "d.pt"]):
        out = subprocess.run(
            [*run, *args], cwd=tmp_path, check=True, timeout=HANG_SECONDS, capture_output=True, text=True
        ).stdout
        assert f"Converting checkpoint from {args[1]} to {args[2]}" in out
        assert ("No checkpoint found at" in out) == (args[1] == "missing")
    assert_same(torch.load(tmp_path / "c.pt"), nested())


def test_extensions_change_the_bytes_of_items(tmp_path):
    from pytpu.distributed.checkpoint._extension import ExtensionRegistry, StreamTransformExtension

    class Inverted(StreamTransformExtension):
        @staticmethod
        def registry_name():
            return "inverted"

        @staticmethod
        def from_descriptor(version):
            assert version == "7"
            return Inverted()

        def get_descriptor(self):
            return "inverted/7"

        def transform_to(self, output):
            class Stream(io.RawIOBase):
                def writable(self):
                    return True

                def write(self, data):
                    return output.write(bytes(255 - b for b in memoryview(data).cast("B")))

                def close(self):
                    output.close()

            return Stream()

        def transform_from(self, input):
            class Stream(io.RawIOBase):
                def read(self, size=-1):
                    return bytes(255 - b for b in input.read(size))

                def seekable(self):
                    return False

            return Stream()

    writer = dcp.FileSystemWriter(tmp_path, _extensions=[Inverted()])
    dcp.save(nested(), storage_writer=writer, no_dist=True)
    registry = ExtensionRegistry()
    with pytest.raises(dcp.CheckpointException, match="Unknown extension name='inverted'"):
        dcp.load(emptied(nested()), storage_reader=dcp.FileSystemReader(tmp_path), no_dist=True)
    registry.register(Inverted)
    got = emptied(nested())
    dcp.load(got, storage_reader=dcp.FileSystemReader(tmp_path, registry), no_dist=True)
    assert_same(got, nested())


def test_storages_of_others_are_called_in_order(tmp_path):
    calls = []

    class Memory(dcp.StorageWriter, dcp.StorageReader):
        def __init__(self):
            self.data = {}

        def reset(self, checkpoint_id=None):
            calls.append("reset")

        def set_up_storage_writer(self, is_coordinator):
            calls.append("set up writer")

        def set_up_storage_reader(self, metadata, is_coordinator):
            calls.append("set up reader")

        def prepare_local_plan(self, plan):
            calls.append("local")
            return plan

        def prepare_global_plan(self, plans):
            calls.append("global")
            return plans

        def write_data(self, plan, planner):
            calls.append("write")
            for item in plan.items:
                data = planner.resolve_data(item)
                self.data[item.index] = data.clone() if isinstance(data, torch.Tensor) else data
            future = torch.futures.Future()
            future.set_result([])
            return future

        def finish(self, metadata, results):
            calls.append("finish")
            self.metadata = metadata

        def read_metadata(self):
            calls.append("metadata")
            return self.metadata

        def read_data(self, plan, planner):
            calls.append("read")
            for item in plan.items:
                data = self.data[item.storage_index]
                if isinstance(data, io.BytesIO):
                    data.seek(0)
                    planner.load_bytes(item, data)
                else:
                    planner.resolve_tensor(item).copy_(data)
            future = torch.futures.Future()
            future.set_result(None)
            return future

        @classmethod
        def validate_checkpoint_id(cls, checkpoint_id):
            return True

    storage = Memory()
    dcp.save(nested(), storage_writer=storage, checkpoint_id="x", no_dist=True)
    got = emptied(nested())
    dcp.load(got, storage_reader=storage, no_dist=True)
    assert_same(got, nested())
    assert calls == [
        *("reset", "set up writer", "local", "global", "write", "finish"),
        *("metadata", "set up reader", "local", "global", "read"),
    ]


def test_planners_may_change_names_and_values(tmp_path):
    class Renamed(dcp.DefaultSavePlanner):
        def set_up_planner(self, state_dict, storage_meta=None, is_coordinator=False):
            super().set_up_planner({f"old_{k}": v for k, v in state_dict.items()}, storage_meta, is_coordinator)

        def transform_object(self, write_item, object):
            return super().transform_object(write_item, object * 2)

    dcp.save({"w": torch.ones(2), "n": 3}, checkpoint_id=tmp_path, planner=Renamed(), no_dist=True)
    state = {"old_w": torch.zeros(2), "old_n": 0}
    dcp.load(state, checkpoint_id=tmp_path, no_dist=True)
    assert state["old_w"].tolist() == [2, 2] and state["old_n"] == 6


class MemoryFiles:
    """The operations of a file system of the package `fsspec` that checkpoints use."""

    files: typing.ClassVar[dict[str, bytes]] = {}

    @contextlib.contextmanager
    def open(self, path, mode):
        stream = io.BytesIO(self.files[path] if "r" in mode else b"")
        yield stream
        if "w" in mode:
            self.files[path] = stream.getvalue()

    def rename(self, path, new_path):
        assert new_path not in self.files
        self.files[new_path] = self.files.pop(path)

    def makedirs(self, path, exist_ok):
        assert exist_ok

    def exists(self, path):
        return path in self.files

    def rm(self, path):
        del self.files[path]

    def ls(self, path, detail):
        return [file for file in self.files if file.startswith(f"{path}/")]


@pytest.mark.filterwarnings("ignore:fsync not supported for this stream")
def test_urls_are_files_of_the_package_fsspec(monkeypatch):
    core = types.ModuleType("fsspec.core")
    core.url_to_fs = lambda url: (MemoryFiles(), url)
    for module in (types.ModuleType("fsspec"), core):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    url = "somewhere://step-1"
    for _ in range(2):
        dcp.save(nested(), checkpoint_id=url, no_dist=True)
        got = emptied(nested())
        dcp.load(got, checkpoint_id=url, no_dist=True)
        assert_same(got, nested())
    # The files of the first save are gone.
    assert sorted(MemoryFiles.files) == [f"{url}/.metadata", f"{url}/__0_1.distcp"]
    failing = dcp.FsspecWriter(url)

    class Failing(dcp.DefaultSavePlanner):
        def resolve_data(self, write_item):
            raise OSError("no data")

    failure_of(dcp.save, nested(), storage_writer=failing, planner=Failing(), no_dist=True)
    assert sorted(MemoryFiles.files) == [f"{url}/.metadata", f"{url}/__0_1.distcp"]


def test_saves_from_two_threads_do_not_mix(tmp_path):
    errors = []

    def run(i):
        try:
            for _ in range(5):
                dcp.save({"w": torch.full((100,), float(i))}, checkpoint_id=tmp_path / str(i), no_dist=True)
                assert _load_state_dict_from_keys(checkpoint_id=tmp_path / str(i))["w"].eq(i).all()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []


def test_objects_that_are_no_tensors_need_no_reading_of_tensors():
    plan = create_default_local_load_plan({"n": 3}, dcp.Metadata({"n": dcp.BytesStorageMetadata()}))
    assert [item.type.name for item in plan.items] == ["BYTE_IO"]


def test_paths_may_be_texts(tmp_path):
    dcp.save({"n": 1}, checkpoint_id=str(tmp_path / "x"), no_dist=True)
    assert pathlib.Path(tmp_path / "x" / ".metadata").exists()
    state = {"n": 0}
    dcp.load(state, checkpoint_id=str(tmp_path / "x"), no_dist=True)
    assert state == {"n": 1}
