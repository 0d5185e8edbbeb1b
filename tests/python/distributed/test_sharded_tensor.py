"""Tensors of shards: how they are divided, gathered and saved."""

import io

import pytest

import pytpu as torch
import pytpu.distributed as dist
import pytpu.distributed.checkpoint as dcp
from pytpu.distributed._shard import sharded_tensor
from pytpu.distributed._shard.sharded_tensor import (
    Shard,
    ShardedTensor,
    ShardedTensorMetadata,
    TensorProperties,
    init_from_local_shards,
    pre_load_state_dict_hook,
    state_dict_hook,
)
from pytpu.distributed._shard.sharding_spec import ChunkShardingSpec, EnumerableShardingSpec, ShardMetadata
from pytpu.distributed.checkpoint.default_planner import _create_default_local_metadata, create_default_local_load_plan
from pytpu.distributed.checkpoint.metadata import MetadataIndex
from pytpu.distributed.checkpoint.utils import _create_file_view, find_state_dict_object

BOTH = ["rank:0", "rank:1"]


def specs():
    """Return several ways to divide a tensor of 10 rows and 6 columns between two ranks."""
    rows = [(0, 2, 0), (2, 1, 1), (3, 3, 0), (6, 4, 1)]
    return [
        ChunkShardingSpec(0, BOTH),
        ChunkShardingSpec(-1, BOTH),
        ChunkShardingSpec(0, [*BOTH, "rank:1", "rank:0"]),
        EnumerableShardingSpec([ShardMetadata([at, 0], [n, 6], f"rank:{rank}/cpu") for at, n, rank in rows]),
    ]


def test_chunks_are_those_of_torch_chunk():
    spec = ChunkShardingSpec(0, [*BOTH, "rank:2/cpu", "rank:3/cpu"])
    places = spec.shards([5, 2])
    assert [(place.shard_offsets, place.shard_sizes) for place in places] == [
        ([0, 0], [2, 2]),
        ([2, 0], [2, 2]),
        ([4, 0], [1, 2]),
    ]
    with pytest.raises(ValueError, match="Invalid sharding dim: 2"):
        ChunkShardingSpec(2, BOTH).shards([5, 2])


def test_bad_places_are_refused():
    with pytest.raises(ValueError, match="should have the same number of elements"):
        ShardMetadata([0], [1, 2])
    with pytest.raises(ValueError, match="should be >=0"):
        ShardMetadata([-1], [1])
    with pytest.raises(ValueError, match="empty shard list"):
        EnumerableShardingSpec([])
    with pytest.raises(ValueError, match="overlap"):
        EnumerableShardingSpec([ShardMetadata([0], [3]), ShardMetadata([2], [2])])
    with pytest.raises(ValueError, match="do not cover the entire tensor"):
        EnumerableShardingSpec([ShardMetadata([0], [3])]).shards([4])
    with pytest.raises(ValueError, match="is not inside a tensor"):
        EnumerableShardingSpec([ShardMetadata([2], [3])]).shards([4])
    with pytest.raises(ValueError, match="Shard tensor size does not match"):
        Shard(torch.ones(2), ShardMetadata([0], [3]))


def made(rank, world, size):
    """Return the tensor of one of `world` ranks with `size` elements each."""
    places = [ShardMetadata([i * size], [size], f"rank:{i}/cpu") for i in range(world)]
    mine = [Shard.from_tensor_and_offsets(torch.rand(size), [rank * size], rank)]
    properties = TensorProperties.create_from_tensor(torch.zeros(1))
    whole = ShardedTensorMetadata(places, torch.Size([world * size]), properties)
    return ShardedTensor._init_from_local_shards_and_global_metadata(mine, whole)


def test_plans_read_the_shards_that_meet_those_of_a_rank():
    four, eight = {"x": made(1, 4, 32)}, {"x": made(1, 8, 16)}
    items = create_default_local_load_plan(four, _create_default_local_metadata(eight)).items
    assert [(item.storage_index.offset, item.dest_offsets, item.lengths) for item in items] == [
        ((32,), (0,), (16,)),
        ((48,), (16,), (16,)),
    ]
    (item,) = create_default_local_load_plan(eight, _create_default_local_metadata(four)).items
    assert (item.storage_index.offset, item.storage_offsets, item.lengths) == ((0,), (16,), (16,))


def test_shards_are_found_by_their_first_index():
    state = {"x": made(1, 4, 8)}
    found = find_state_dict_object(state, MetadataIndex("x", [8], index=99))
    assert found is state["x"].local_tensor()
    with pytest.raises(ValueError, match="no offset was provided"):
        find_state_dict_object(state, MetadataIndex("x"))
    with pytest.raises(ValueError, match="Could not find shard"):
        find_state_dict_object(state, MetadataIndex("x", [1]))


def test_parts_of_files_are_files():
    view = _create_file_view(io.BytesIO(b"abcdefgh"), 2, 4)
    target = bytearray(8)
    assert view.read(1) == b"c" and view.readinto(target) == 3 and bytes(target[:3]) == b"def" and view.read(-1) == b""


class Model(torch.nn.Module):
    """A module with an attribute that is a tensor of shards."""

    def __init__(self, spec):
        super().__init__()
        self.inner = torch.nn.Module()
        self.inner.x = sharded_tensor.rand(spec, 10, 6)
        self._register_state_dict_hook(state_dict_hook)


def whole(x):
    """Return all elements on rank 0, and nothing on the others."""
    out = torch.zeros(x.shape) if dist.get_rank() == 0 else None
    x.gather(out=out)
    return out


def save_and_load_divided_otherwise(folder):
    """Return whether what was loaded is what was saved, for all pairs of divisions."""
    results = []
    for i, first in enumerate(specs()):
        for j, second in enumerate(specs()):
            source, target = Model(first), Model(second)
            dcp.save(source.state_dict(), checkpoint_id=f"{folder}/{i}{j}")
            state = target.state_dict()
            dcp.load(state, checkpoint_id=f"{folder}/{i}{j}")
            a, b = whole(source.inner.x), whole(state["inner.x"])
            results.append(dist.get_rank() != 0 or torch.equal(a, b))
    return results


def test_checkpoints_of_other_divisions(pools, tmp_path):
    assert pools(2).run(save_and_load_divided_otherwise, str(tmp_path)) == [[True] * 16] * 2


def save_as_one_kind_and_load_as_the_other(folder):
    """Return whether values that are divided only in the program that saves, or only in that which loads, are equal."""
    spec = specs()[2]
    plain = torch.arange(60.0).view(10, 6)
    divided = sharded_tensor.full(spec, (10, 6), 7)
    dcp.save({"a": plain, "b": divided}, checkpoint_id=folder)
    state = {"a": sharded_tensor.zeros(spec, 10, 6), "b": torch.zeros(10, 6)}
    dcp.load(state, checkpoint_id=folder)
    gathered = whole(state["a"])
    return bool((state["b"] == 7).all()), gathered is None or torch.equal(gathered, plain)


def test_checkpoints_of_plain_tensors_and_shards(pools, tmp_path):
    assert pools(2).run(save_as_one_kind_and_load_as_the_other, str(tmp_path)) == [(True, True)] * 2


def describe_local_shards():
    """Return what a tensor of the shards of both ranks is."""
    rank = dist.get_rank()
    place = ShardMetadata([rank * 3, 0], [3, 2], f"rank:{rank}/cpu")
    x = init_from_local_shards([Shard(torch.full((3, 2), float(rank)), place)], 6, 2)
    module = torch.nn.Module()
    module.x = None
    pre_load_state_dict_hook(module, {"p.x": x}, "p.", {}, True, [], [], [])
    y = whole(module.x)
    with pytest.raises(RuntimeError, match="no RRefs to remote shards"):
        x.remote_shards()
    return tuple(x.shape), len(x.metadata().shards_metadata), x.numel(), None if y is None else y.sum().item()


def test_shards_of_all_ranks_are_one_tensor(pools):
    assert pools(2).run(describe_local_shards) == [((6, 2), 2, 12, 6), ((6, 2), 2, 12, None)]
