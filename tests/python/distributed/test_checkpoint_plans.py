"""Who writes and reads which part of a checkpoint: planners, chunks, and other numbers of ranks."""

import itertools
import math
import random

import pytest
from checkpoint_ranks import Sharded, boxes_of, pieces, run_ranks, succeed

import pytpu as torch
import pytpu.distributed.checkpoint as dcp
from pytpu.distributed._checkpointable import _Checkpointable
from pytpu.distributed.checkpoint._dedup_save_plans import dedup_save_plans
from pytpu.distributed.checkpoint._dedup_tensors import dedup_tensors
from pytpu.distributed.checkpoint._nested_dict import flatten_state_dict, unflatten_state_dict
from pytpu.distributed.checkpoint._traverse import get_element, print_tensor, set_element
from pytpu.distributed.checkpoint.default_planner import (
    create_default_global_save_plan,
    create_default_local_load_plan,
    create_default_local_save_plan,
)
from pytpu.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from pytpu.distributed.checkpoint.planner import (
    LoadItemType,
    SavePlan,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)
from pytpu.distributed.checkpoint.planner_helpers import (
    _create_write_item_for_tensor,
    create_read_items_for_chunk_list,
)
from pytpu.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys
from pytpu.distributed.checkpoint.utils import Team

pytestmark = pytest.mark.filterwarnings(
    "ignore:torch.distributed is disabled", "ignore:Detected an existing checkpoint"
)


def chunk(offsets, sizes):
    return ChunkStorageMetadata(torch.Size(offsets), torch.Size(sizes))


def tensor_of(size, chunks):
    return TensorStorageMetadata(TensorProperties(), torch.Size(size), [chunk(*c) for c in chunks])


def item_of(name, offsets, sizes, size):
    data = TensorWriteData(chunk(offsets, sizes), TensorProperties(), torch.Size(size))
    return WriteItem(MetadataIndex(name, offsets), WriteItemType.SHARD, tensor_data=data)


# ---- items


def test_items_of_values_say_their_kind_and_place():
    whole = torch.arange(12.0).reshape(4, 3)
    state = {"t": torch.zeros(2, requires_grad=True), "n": 1, "s": pieces(whole, (2, 1), 1, 2)}
    items = {item.index.fqn: item for item in create_default_local_save_plan(state, False).items}
    assert items["t"].type == WriteItemType.TENSOR and items["t"].index == MetadataIndex("t", [0])
    assert items["t"].tensor_data.properties == TensorProperties(requires_grad=True, strides=(1,))
    assert items["t"].tensor_storage_size() == 8
    assert items["n"].type == WriteItemType.BYTE_IO and items["n"].tensor_data is None
    assert items["n"].tensor_storage_size() is None
    assert items["s"].type == WriteItemType.SHARD and items["s"].index == MetadataIndex("s", [2, 0])
    assert items["s"].tensor_data.chunk == chunk([2, 0], [2, 3]) and items["s"].tensor_data.size == (4, 3)
    assert isinstance(Sharded((1,), []), object) and not isinstance(state["t"], _Checkpointable)


def test_objects_may_make_their_items():
    class Special:
        def __create_write_items__(self, fqn, object):
            assert object is self
            return [item_of(fqn, [4], [1], [5])]

    (item,) = create_default_local_save_plan({"x": Special()}, True).items
    assert item.index == MetadataIndex("x", [4])


def test_attributes_say_which_part_a_tensor_holds(tmp_path):
    def part(rows):
        tensor = torch.zeros(len(rows), 2)
        tensor.global_shape = (5, 2)
        tensor.global_offsets = tuple((row, 0) for row in rows)
        tensor.local_offsets = tuple((i, 0) for i in range(len(rows)))
        tensor.local_sizes = ((1, 2),) * len(rows)
        return tensor

    assert isinstance(part([0]), dcp.CheckpointableTensor)
    saved = part([0, 1, 2, 3, 4])
    saved.copy_(torch.arange(10.0).reshape(5, 2))
    dcp.save({"x": saved}, checkpoint_id=tmp_path, no_dist=True)
    loaded = part([3, 1])
    dcp.load({"x": loaded}, checkpoint_id=tmp_path, no_dist=True)
    assert loaded.tolist() == [[6, 7], [2, 3]]
    loaded.local_sizes = ((9, 2), (1, 2))
    with pytest.raises(dcp.CheckpointException, match="global shard 0 dimension 0 is outside global_shape"):
        dcp.load({"x": loaded}, checkpoint_id=tmp_path, no_dist=True)


def test_the_first_rank_keeps_a_tensor_of_several_ranks():
    both = _create_write_item_for_tensor("both", torch.zeros(4))
    assert both.type == WriteItemType.TENSOR and both.tensor_data.size == (4,)
    object_of_each = WriteItem(MetadataIndex("object"), WriteItemType.BYTE_IO)
    own = [_create_write_item_for_tensor(f"own{rank}", torch.zeros(2)) for rank in range(2)]
    plans = dedup_tensors([SavePlan([both, item, object_of_each]) for item in own])
    assert [plan.items for plan in plans] == [[both, own[0], object_of_each], [own[1], object_of_each]]


def test_names_of_items_are_equal_by_name_and_offset():
    a = MetadataIndex("x", [1, 2], index=3)
    assert a == MetadataIndex("x", torch.Size([1, 2])) and hash(a) == hash(MetadataIndex("x", [1, 2], 9))
    assert a != MetadataIndex("x") and isinstance(a.offset, torch.Size)


# ---- reading


def test_a_local_chunk_reads_from_each_saved_chunk_that_it_meets():
    saved = tensor_of([16], [([0], [8]), ([8], [8])])
    first, second = create_read_items_for_chunk_list("x", saved, [chunk([4], [7])])
    assert first.type == LoadItemType.TENSOR
    assert (first.dest_index, first.storage_index) == (MetadataIndex("x", [4]), MetadataIndex("x", [0]))
    assert (first.dest_offsets, first.storage_offsets, first.lengths) == ((0,), (4,), (4,))
    assert second.storage_index == MetadataIndex("x", [8]) and second.storage_index.index == 1
    assert (second.dest_offsets, second.storage_offsets, second.lengths) == ((4,), (0,), (3,))
    assert create_read_items_for_chunk_list("x", saved, []) == []
    (scalar,) = create_read_items_for_chunk_list("x", tensor_of([], [([], [])]), [chunk([], [])])
    assert scalar.lengths == ()


def overlaps_by_elements(saved, local):
    def elements(c):
        return set(itertools.product(*(range(a, a + n) for a, n in zip(c.offsets, c.sizes))))

    return {(i, j) for j, b in enumerate(local) for i, a in enumerate(saved) if elements(a) & elements(b)}


@pytest.mark.parametrize("seed", range(40))
def test_read_items_are_those_of_a_search_by_elements(seed):
    rng = random.Random(seed)
    dims = rng.randint(1, 3)
    size = [rng.randint(1, 7) for _ in range(dims)]

    def grid():
        return [chunk(*box) for box in boxes_of(size, [rng.randint(1, 4) for _ in range(dims)])]

    saved, local = grid(), grid()
    rng.shuffle(saved)
    rng.shuffle(local)
    md = TensorStorageMetadata(TensorProperties(), torch.Size(size), saved)
    items = create_read_items_for_chunk_list("x", md, local)
    assert {(i.storage_index.index, i.dest_index.index) for i in items} == overlaps_by_elements(saved, local)
    for item in items:
        a, b = saved[item.storage_index.index], local[item.dest_index.index]
        for d in range(dims):
            assert a.offsets[d] + item.storage_offsets[d] == b.offsets[d] + item.dest_offsets[d]
            assert item.storage_offsets[d] + item.lengths[d] <= a.sizes[d]
            assert item.dest_offsets[d] + item.lengths[d] <= b.sizes[d]
    assert sum(math.prod(item.lengths) for item in items) == math.prod(size)


def test_a_checkpoint_with_a_part_of_a_tensor_is_refused():
    md = Metadata({"x": tensor_of([16], [([0], [8])])})
    with pytest.raises(ValueError, match="The checkpoint has 8 of the 16 elements of x that this rank needs"):
        create_default_local_load_plan({"x": torch.zeros(16)}, md)
    assert len(create_default_local_load_plan({"x": torch.zeros(16)}, md, strict=False).items) == 1


# ---- writing


def test_what_all_ranks_have_is_written_once_and_shared_by_size():
    def plan(rank):
        own = item_of(f"own{rank}", [0], [100 * (rank + 1)], [100 * (rank + 1)])
        return SavePlan([own, *(item_of(f"same{i}", [0], [50], [50]) for i in range(6))])

    deduplicated = dedup_save_plans([plan(rank) for rank in range(3)])
    names = [sorted(item.index.fqn for item in p.items) for p in deduplicated]
    assert sorted(itertools.chain(*names)) == ["own0", "own1", "own2", *(f"same{i}" for i in range(6))]
    loads = [sum(i.tensor_data.size[0] for i in p.items) for p in deduplicated]
    # 900 elements in all.
    assert loads == [300, 300, 300]
    lowest = dedup_save_plans([plan(rank) for rank in range(3)], save_to_lowest_rank=True)
    assert [len(p.items) for p in lowest] == [7, 1, 1]


def test_chunks_get_their_position_and_wrong_chunks_are_refused():
    plans = [SavePlan([item_of("x", [4 * r], [4], [8])]) for r in range(2)]
    plans, metadata = create_default_global_save_plan(plans)
    assert [p.items[0].index.index for p in plans] == [0, 1]
    assert metadata.state_dict_metadata["x"].chunks == [chunk([0], [4]), chunk([4], [4])]


def errors_of(size, boxes, ranks=1):
    """Return the errors that a planner finds in chunks of one tensor, which the first of some ranks has."""
    plan = SavePlan([item_of("x", *box, size) for box in boxes], planner_data={})
    try:
        dcp.DefaultSavePlanner().create_global_plan([plan, *[SavePlan([], planner_data={})] * (ranks - 1)])
    except ValueError as error:
        return str(error).removeprefix("Failed to validate global plan: ").split("; ")
    return []


def test_wrong_chunks_are_refused():
    (text,) = errors_of([8, 2], [([0, 0], [4, 2]), ([3, 0], [5, 1]), ([4, 1], [3, 1])], ranks=2)
    assert text.startswith("key:x has overlapping chunks: ChunkStorageMetadata(offsets=torch.Size([3, 0])")
    out_of_bounds, unfilled = errors_of([8], [([6], [4])], ranks=2)
    assert out_of_bounds.startswith("key:x has out of bounds chunk: tensor-size:torch.Size([8]) chunk: ")
    assert unfilled == "key:x invalid fill tensor-volume: 8 chunks-volume: 4"
    assert errors_of([8], [([0], [4]), ([4], [4])], ranks=2) == []
    # One rank may save a part.
    assert errors_of([8], [([0], [4])]) == []
    # 45 pairs overlap.
    assert errors_of([20], [([i], [11]) for i in range(10)])[20:] == ["and 25 more"]


@pytest.mark.parametrize("seed", range(20))
def test_overlaps_are_those_of_a_search_by_elements(seed):
    rng = random.Random(seed)
    dims = rng.randint(1, 3)
    size = [6] * dims
    # Chunks with equal offsets are the same chunk.
    offsets = {tuple(rng.randint(0, 4) for _ in size) for _ in range(6)}
    boxes = [(o, [rng.randint(0, n - a) for n, a in zip(size, o)]) for o in sorted(offsets)]
    chunks = [chunk(*box) for box in boxes]
    pairs = {p for p in overlaps_by_elements(chunks, chunks) if p[0] < p[1]}
    errors = errors_of(size, boxes)
    assert len(errors) == len(pairs) and all("overlapping" in error for error in errors)


def test_files_of_threads_have_about_the_same_size(tmp_path):
    state = {f"x{n}": torch.zeros(n << 12) for n in (1, 2, 3, 4, 5, 6)}
    objects = {f"b{i}": i for i in range(6)}
    writer = dcp.FileSystemWriter(tmp_path, thread_count=3)
    places = dcp.save({**state, **objects}, storage_writer=writer, no_dist=True).storage_data
    files = {name: set() for name in ("__0_0.distcp", "__0_1.distcp", "__0_2.distcp")}
    for index, place in places.items():
        files[place.relative_path].add(index.fqn)
    for names in files.values():
        assert sum(state[name].numel() for name in names & state.keys()) == 7 << 12
        assert len(names & objects.keys()) == 2


# ---- names


def test_flat_names_and_their_paths():
    x = torch.ones(1)
    state = {"a": {"b": 1, 2: x}, "l": [x, {"c": 2}], "plain": [1, 2], "t": (x, 1), "empty": {}}
    flat, paths = flatten_state_dict(state)
    assert flat == {"a.b": 1, "a.2": x, "l.0": x, "l.1.c": 2, "plain": [1, 2], "t": (x, 1)}
    assert paths["a.2"] == ("a", "2") and paths["l.1.c"] == ("l", 1, "c")
    assert unflatten_state_dict(flat, paths) == {
        "a": {"b": 1, "2": x},
        "l": [x, {"c": 2}],
        "plain": [1, 2],
        "t": (x, 1),
    }
    with pytest.raises(ValueError, match="duplicated flatten key a.b"):
        flatten_state_dict({"a": {"b": 1}, "a.b": 2})


def test_values_are_set_and_found_by_paths():
    root = {}
    set_element(root, ("a", 2, "b"), 1)
    set_element(root, ("a", 0), 3)
    set_element(root, ("c",), 4)
    assert root == {"a": [3, None, {"b": 1}], "c": 4}
    assert get_element(root, ("a", 2, "b")) == 1 and get_element(root, ("a", 3), "none") == "none"
    assert get_element(root, ("a", "x")) is None and get_element(root, ("c", 0)) is None
    lines = []
    print_tensor(("a",), torch.ones(2), lines.append)
    print_tensor(("b",), 1, lines.append)
    assert lines == ["('a',) Tensor size: torch.Size([2])", "('b',) Type: <class 'int'>"]


def test_names_of_older_versions_are_found(tmp_path):
    # PyTorch 2.3 kept dicts without tensors as one value.
    class Old(dcp.DefaultSavePlanner):
        def set_up_planner(self, state_dict, storage_meta=None, is_coordinator=False):
            flat = {"model.w": state_dict["model"]["w"], "numbers": state_dict["numbers"]}
            super().set_up_planner(flat, storage_meta, is_coordinator)

    class Whole(Old):
        def __init__(self):
            super().__init__(flatten_state_dict=False)

    state = {"model": {"w": torch.ones(2)}, "numbers": {"a": 1, "b": [2]}}
    dcp.save(state, checkpoint_id=tmp_path, planner=Whole(), no_dist=True)
    got = {"model": {"w": torch.zeros(2)}, "numbers": {"a": 0, "b": []}}
    dcp.load(got, checkpoint_id=tmp_path, no_dist=True)
    assert got["model"]["w"].tolist() == [1, 1] and got["numbers"] == {"a": 1, "b": [2]}


# ---- several ranks


def state_of(rank, world, parts, fill=True):
    """Return a state dict of a rank, with a tensor in pieces, a replicated one, and other values."""
    whole = torch.arange(5 * 4 * 3, dtype=torch.float32).reshape(5, 4, 3)
    return {
        "sharded": pieces(whole if fill else torch.zeros_like(whole), parts, rank, world),
        "same": torch.full((3,), 2.0 if fill else 0.0),
        "step": 7 if fill else 0,
        "list": [torch.tensor(1.0 if fill else 0.0), {"x": "y" if fill else ""}],
    }


def assert_filled(got, want):
    assert got["step"] == 7 and got["list"][0] == 1 and got["list"][1] == {"x": "y"} and got["same"].tolist() == [2] * 3
    assert len(got["sharded"].chunks) == len(want["sharded"].chunks)
    for (_, a), (_, b) in zip(got["sharded"].chunks, want["sharded"].chunks):
        assert torch.equal(a, b)


PARTS = [(1, 1, 1), (4, 1, 1), (2, 3, 1), (8, 1, 2)]


@pytest.mark.parametrize("saving", [(1, 0), (2, 1), (4, 1), (4, 2), (3, 3)])
@pytest.mark.parametrize("loading", [(1, 0), (2, 1), (4, 1), (4, 2), (3, 3)])
def test_checkpoints_are_loaded_by_other_numbers_of_ranks(tmp_path, monkeypatch, saving, loading):
    (n, a), (m, b) = saving, loading

    def save(rank):
        return dcp.save(state_of(rank, n, PARTS[a]), checkpoint_id=tmp_path)

    contents = succeed(run_ranks(monkeypatch, n, save))
    assert all(content == contents[0] for content in contents)

    def load(rank):
        got = state_of(rank, m, PARTS[b], fill=False)
        dcp.load(got, checkpoint_id=tmp_path)
        assert_filled(got, state_of(rank, m, PARTS[b]))

    succeed(run_ranks(monkeypatch, m, load))


def test_one_process_reads_the_whole_of_a_sharded_checkpoint(tmp_path, monkeypatch):
    def save(rank):
        dcp.save(state_of(rank, 3, (3, 2, 1)), checkpoint_id=tmp_path)

    succeed(run_ranks(monkeypatch, 3, save))
    monkeypatch.undo()
    got = _load_state_dict_from_keys(checkpoint_id=tmp_path)
    assert torch.equal(got["sharded"], torch.arange(60.0).reshape(5, 4, 3)) and got["same"].tolist() == [2, 2, 2]


@pytest.mark.parametrize("step", ["create_local_plan", "create_global_plan", "finish_plan", "resolve_data"])
def test_a_failure_on_one_rank_is_raised_on_all(tmp_path, monkeypatch, step):
    failing = 0 if step == "create_global_plan" else 1

    def save(rank):
        planner = dcp.DefaultSavePlanner()
        if rank == failing:

            def fail(*args):
                raise ArithmeticError("of one rank")

            setattr(planner, step, fail)
        dcp.save(state_of(rank, 3, (3, 1, 1)), checkpoint_id=tmp_path, planner=planner)

    for error in run_ranks(monkeypatch, 3, save):
        assert isinstance(error, dcp.CheckpointException) and list(error.failures) == [failing]
        assert isinstance(error.failures[failing][0], ArithmeticError)
        assert f"(RANK {failing})" in str(error) and "ArithmeticError: of one rank" in str(error)
    assert not (tmp_path / ".metadata").exists()


def test_errors_that_cannot_be_sent_are_sent_as_texts(monkeypatch):
    class Local(Exception):
        def __init__(self, a, b):
            super().__init__(f"{a} {b}")

    def program(rank):
        def fail():
            if rank == 1:
                raise Local("not", "sent")

        Team(None, is_alone=False).each("step", fail)

    for error in run_ranks(monkeypatch, 2, program):
        assert isinstance(error, dcp.CheckpointException) and "not sent" in str(error)


def test_steps_of_all_ranks_return_what_they_promise(monkeypatch):
    def program(rank):
        team = Team(None, is_alone=False, coordinator=1)
        assert (team.rank, team.size, team.is_coordinator) == (rank, 3, rank == 1)
        assert team.each("a", lambda: rank) == [0, 1, 2]
        assert team.shared("b", lambda: rank, sum) == 3
        assert team.assigned("c", lambda: rank, lambda values: [v * 10 for v in values]) == rank * 10

        def fail(values):
            raise OSError("on the coordinator")

        for call in (team.shared, team.assigned):
            with pytest.raises(dcp.CheckpointException, match="on the coordinator") as caught:
                call("d", lambda: rank, fail)
            assert list(caught.value.failures) == [1]
        return True

    assert succeed(run_ranks(monkeypatch, 3, program)) == [True] * 3


def test_ranks_that_disagree_about_a_value_are_refused(tmp_path, monkeypatch):
    def save(rank):
        dcp.save({"x": torch.ones(2) if rank else 3}, checkpoint_id=tmp_path)

    for error in run_ranks(monkeypatch, 2, save):
        assert isinstance(error, dcp.CheckpointException)


def test_without_collectives_each_rank_has_a_checkpoint_of_its_own(tmp_path, monkeypatch):
    def save(rank):
        for value in (0, rank):
            dcp.save({"x": torch.full((2,), float(value))}, checkpoint_id=tmp_path, use_collectives=False)

    succeed(run_ranks(monkeypatch, 2, save))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["__0.metadata", "__0_1.distcp", "__1.metadata", "__1_1.distcp"]

    def load(rank):
        state = {"x": torch.zeros(2)}
        dcp.load(state, checkpoint_id=tmp_path)
        assert state["x"].tolist() == [rank, rank]

    succeed(run_ranks(monkeypatch, 2, load))

    def fail(rank):
        writer = dcp.FileSystemWriter(tmp_path, overwrite=rank == 0)
        dcp.save({"x": torch.zeros(2)}, storage_writer=writer, use_collectives=False)

    for error in run_ranks(monkeypatch, 2, fail):
        assert isinstance(error, dcp.CheckpointException) and list(error.failures) == [1]


def test_plans_that_have_not_changed_are_not_sent_again(tmp_path):
    # The plans of the last save belong to the process, and ranks are threads here, so one rank.
    sent, followed = [], []

    class Watched(dcp.DefaultSavePlanner):
        def __init__(self, fails=False):
            super().__init__(enable_plan_caching=True)
            self.fails = fails

        def create_global_plan(self, all_plans):
            sent.append(all_plans[0].usable)
            plans, content = super().create_global_plan(all_plans)
            followed.append(plans[0].usable)
            if self.fails:
                raise OSError("on the coordinator")
            return plans, content

    def save(state, fails=False):
        for name in ("a", "b"):
            dcp.save(state, checkpoint_id=tmp_path / name, planner=Watched(fails), no_dist=True)
            got = {name: torch.zeros_like(value) for name, value in state.items()}
            dcp.load(got, checkpoint_id=tmp_path / name, no_dist=True)
            assert all(torch.equal(got[name], state[name]) for name in state)

    save({"x": torch.ones(2)})
    assert sent == followed == [True, False]
    save({"x": torch.zeros(2)})
    with pytest.raises(dcp.CheckpointException, match="on the coordinator"):
        save({"x": torch.zeros(2), "y": torch.ones(3)}, fails=True)
    # The rank has not received a plan with `y`.
    save({"x": torch.zeros(2), "y": torch.ones(3)})
    save({"x": torch.ones(2), "y": torch.ones(3)})
    # Another dtype is a change.
    save({"x": torch.ones(2), "y": torch.ones(3, dtype=torch.float64)})
    assert sent == followed == [True, False, False, False, True, True, False, False, False, True, False]
