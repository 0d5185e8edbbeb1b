"""Checkpoints of several processes that form a process group."""

import os
import pathlib
import warnings

import pytest
from checkpoint_ranks import pieces
from rank_pool import RankPool

import pytpu as torch
import pytpu.distributed as dist
import pytpu.distributed.checkpoint as dcp
from pytpu import nn
from pytpu.distributed import _state_dict_utils as tools
from pytpu.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files_on_every_rank
from pytpu.distributed.checkpoint.format_utils import BroadcastingTorchSaveReader, DynamicMetaLoadPlanner
from pytpu.distributed.checkpoint.metadata import MetadataIndex
from pytpu.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from pytpu.distributed.checkpoint.utils import find_tensor_shard
from pytpu.distributed.device_mesh import DeviceMesh, init_device_mesh
from pytpu.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")


def whole():
    return torch.arange(70.0).reshape(7, 10)


def own(parts, fill=True):
    """Return the pieces of this rank."""
    values = whole() if fill else torch.zeros(7, 10)
    return pieces(values, parts, dist.get_rank(), dist.get_world_size())


def failures_of(call, *args, **kwargs):
    """Return the failed ranks and the text of the error, which pools do not catch."""
    try:
        call(*args, **kwargs)
    except dcp.CheckpointException as error:
        return list(error.failures), str(error)
    raise AssertionError("no error")


# ---- save and load


def saves(path, is_async):
    state = {"x": own((dist.get_world_size(), 1)), "same": torch.ones(3), "rank": dist.get_rank(), "step": 4}
    if is_async:
        group = dist.new_group(backend="gloo")
        futures = dcp.async_save(state, checkpoint_id=path, process_group=group)
        state["same"].zero_()
        # The collectives of the training loop do not mix with those of the thread.
        total = torch.ones(1)
        dist.all_reduce(total)
        assert total == dist.get_world_size()
        content = futures.result(60)
    else:
        content = dcp.save(state, checkpoint_id=path)
    return sorted(content.state_dict_metadata)


def loads(path):
    state = {"x": own((1, 3), fill=False), "same": torch.zeros(3), "rank": -1, "step": 0}
    dcp.load(state, checkpoint_id=path)
    for (_, got), (_, want) in zip(state["x"].chunks, own((1, 3)).chunks):
        assert torch.equal(got, want)
    # A value that is not a tensor is that of one rank.
    assert state["same"].eq(1).all() and state["step"] == 4 and state["rank"] >= 0


@pytest.mark.parametrize("is_async", [False, True])
def test_checkpoints_go_from_two_processes_to_four_and_back(pools, tmp_path, is_async):
    for saving, loading in ((2, 4), (4, 2), (4, 4)):
        path = str(tmp_path / f"{saving}{loading}")
        assert pools(saving).run(saves, path, is_async) == [["rank", "same", "step", "x"]] * saving
        names = os.listdir(path)
        assert sorted(names) == [".metadata", *(f"__{rank}_0.distcp" for rank in range(saving))]
        pools(loading).run(loads, path)


class Failing(dcp.DefaultSavePlanner):
    def resolve_data(self, write_item):
        raise OSError("the disk is gone")


def fails_to_save(path, failing):
    planner = Failing() if dist.get_rank() == failing else None
    return failures_of(dcp.save, {"x": own((dist.get_world_size(), 1))}, checkpoint_id=path, planner=planner)


def fails_to_load(path, failing):
    if dist.get_rank() == 0:
        os.unlink(pathlib.Path(path) / f"__{failing}_0.distcp")
    dist.barrier()
    return failures_of(dcp.load, {"x": own((dist.get_world_size(), 1), fill=False)}, checkpoint_id=path)


def test_a_failure_of_one_process_is_raised_by_all(pool, tmp_path):
    last = pool.size - 1
    path = str(tmp_path / "failing")
    for ranks, text in pool.run(fails_to_save, path, last):
        assert ranks == [last] and f"(RANK {last})" in text and "OSError: the disk is gone" in text
    assert not (tmp_path / "failing" / ".metadata").exists()
    path = str(tmp_path / "whole")
    pool.run(saves, path, False)
    for ranks, text in pool.run(fails_to_load, path, last):
        assert ranks == [last] and f"__{last}_0.distcp" in text


def saves_alone(path):
    state = {"x": torch.full((2,), float(dist.get_rank()))}
    dcp.save(state, checkpoint_id=path, use_collectives=False)
    got = {"x": torch.zeros(2)}
    dcp.load(got, checkpoint_id=path)
    return got["x"].tolist()


def test_without_collectives_each_process_has_a_checkpoint_of_its_own(pool, tmp_path):
    assert pool.run(saves_alone, str(tmp_path)) == [[rank, rank] for rank in range(pool.size)]


# ---- sharded tensors


def on_mesh(values, placements):
    mesh = init_device_mesh("cpu", (2, dist.get_world_size() // 2))
    return distribute_tensor(values, mesh, placements)


def saves_sharded(path):
    part = on_mesh(whole(), [Shard(0), Shard(1)])
    dcp.save({"x": part, "p": nn.Parameter(on_mesh(whole(), [Replicate(), Shard(0)]))}, checkpoint_id=path)


def loads_sharded(path, device):
    kept = on_mesh(torch.zeros(7, 10), [Shard(1), Shard(0)])
    unmade = on_mesh(torch.empty(7, 10, device="meta"), [Shard(0), Replicate()]) if device == "meta" else None
    state = {"x": kept, "p": on_mesh(torch.zeros(7, 10), [Shard(0), Shard(0)]) if unmade is None else unmade}
    dcp.load(state, checkpoint_id=path)
    assert state["x"] is kept and torch.equal(kept.full_tensor(), whole())
    assert torch.equal(state["p"].full_tensor(), whole())
    plain = {"x": torch.zeros(7, 10)}
    dcp.load(plain, checkpoint_id=path)
    assert torch.equal(plain["x"], whole())
    try:
        find_tensor_shard(kept, MetadataIndex("x", [6, 9]))
    except ValueError as error:
        assert str(error) == "Could not find shard at 'torch.Size([6, 9])' for FQN: 'x'"
    else:
        raise AssertionError("no error")


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_sharded_tensors_are_loaded_with_other_placements(pools, tmp_path, device):
    for saving, loading in ((2, 4), (4, 2)):
        path = str(tmp_path / f"{saving}{loading}")
        pools(saving).run(saves_sharded, path)
        pools(loading).run(loads_sharded, path, device)


def saves_sums(path):
    part = DTensor.from_local(torch.ones(2), init_device_mesh("cpu", (dist.get_world_size(),)), [Partial()])
    return failures_of(dcp.save, {"x": part}, checkpoint_id=path)


def test_sums_that_are_still_to_be_computed_are_not_saved(pool, tmp_path):
    for ranks, text in pool.run(saves_sums, str(tmp_path)):
        assert ranks == list(range(pool.size)) and "cannot be saved: redistribute it first" in text


def saves_on_some_ranks(path):
    mesh = DeviceMesh("cpu", [0, 1])
    state = {"y": torch.ones(1)}
    if mesh.get_coordinate() is not None:
        state["x"] = distribute_tensor(whole(), mesh, [Shard(0)])
    dcp.save(state, checkpoint_id=path)
    got = {"x": torch.zeros(7, 10)}
    dcp.load(got, checkpoint_id=path)
    assert torch.equal(got["x"], whole())


def test_tensors_of_some_ranks_are_loaded_by_all(pools, tmp_path):
    pools(4).run(saves_on_some_ranks, str(tmp_path))


# ---- other formats


def reads_by_broadcast(path):
    state = {"model": {"w": torch.zeros(7, 10)}, "x": own((dist.get_world_size(), 1), fill=False)}
    values = {"model": state["model"], "y": torch.zeros(2)}
    dcp.load(values, storage_reader=BroadcastingTorchSaveReader(path), planner=DynamicMetaLoadPlanner())
    assert torch.equal(state["model"]["w"], whole()) and values["y"].tolist() == [1, 2]
    _, text = failures_of(
        dcp.load, {"n": 1}, storage_reader=BroadcastingTorchSaveReader(path), planner=DynamicMetaLoadPlanner()
    )
    assert "Non-tensor value identified at n" in text


def test_one_process_reads_a_file_of_save_for_all(pool, tmp_path):
    torch.save({"model": {"w": whole()}, "y": torch.tensor([1.0, 2.0])}, tmp_path / "a.pt")
    pool.run(reads_by_broadcast, str(tmp_path / "a.pt"))


def consolidates(path, out):
    writer = dcp.HuggingFaceStorageWriter(path, save_distributed=True)
    dcp.save({"x": own((dist.get_world_size(), 1)), "y": torch.ones(2)}, storage_writer=writer)
    consolidate_safetensors_files_on_every_rank(path, out, {"x": 1, "y": 2})


def test_all_processes_write_whole_safetensors(pool, tmp_path):
    (tmp_path / "out").mkdir()
    pool.run(consolidates, str(tmp_path / "parts"), str(tmp_path / "out"))
    files = [tmp_path / "out" / f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    assert torch.equal(torch.safetensors.load_file(files[0])["x"], whole())
    assert torch.safetensors.load_file(files[1])["y"].tolist() == [1, 1]
    assert (tmp_path / "out" / "model.safetensors.index.json").exists()


# ---- states


def made(seed, device):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1 * (seed + 1))
    for _ in range(seed + 1):
        model(torch.randn(5, 3).to(device)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer


def takes_states_of_rank_0(device):
    rank = dist.get_rank()
    model, optimizer = made(rank, device)
    full = StateDictOptions(full_state_dict=True, cpu_offload=True)
    of_model, of_optimizer = get_state_dict(model, optimizer, options=full)
    # Only rank 0 gets states.
    assert bool(of_model) == bool(of_optimizer) == (rank == 0)
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_state_dict(model, optimizer, model_state_dict=of_model, optim_state_dict=of_optimizer, options=options)
    want_model, want_optimizer = made(0, device)
    for got, want in zip(model.state_dict().values(), want_model.state_dict().values()):
        assert torch.equal(got, want)
    got, want = optimizer.state_dict(), want_optimizer.state_dict()
    assert got["param_groups"] == want["param_groups"]
    for number, values in want["state"].items():
        for key, value in values.items():
            assert torch.equal(got["state"][number][key], value)


def test_states_of_rank_0_are_sent_to_all(pool):
    pool.run(takes_states_of_rank_0, "cpu")


def test_states_on_other_devices_than_those_of_the_group_are_sent(request):
    pool = RankPool(2, request.module.__name__)
    try:
        pool.start(backend="cpu:gloo").run(takes_states_of_rank_0, "tpu")
    finally:
        pool.close()


def broadcasts_keys():
    rank = dist.get_rank()
    full = {"a": torch.ones(3), "b": 5, "c": torch.tensor(2)} if rank == 0 else {}
    local = {"a": torch.zeros(3), "b": 0, "c": torch.tensor(0), "d": torch.zeros(1)}
    tools._broadcast_state_dict(full, local, device=torch.device("cpu"), strict=True)
    assert sorted(local) == ["a", "b", "c"] and local["a"].tolist() == [1, 1, 1] and (local["b"], local["c"]) == (5, 2)


def test_keys_that_only_some_ranks_have(pool):
    pool.run(broadcasts_keys)


def is_warned(path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dcp.save({"x": torch.ones(1)}, checkpoint_id=path)
    return [str(warning.message) for warning in caught]


def test_a_group_saves_without_a_warning(pool, tmp_path):
    assert pool.run(is_warned, str(tmp_path)) == [[]] * pool.size
