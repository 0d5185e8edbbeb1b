"""Counts of collectives, and tables of parts, of sharded tensors."""

import contextlib
import io
import itertools
import json
import subprocess
import sys

import pytest

import pytpu as torch
import pytpu.distributed as dist
from pytpu import nn
from pytpu.distributed import _functional_collectives as funcol, init_device_mesh
from pytpu.distributed._functional_collectives import all_reduce
from pytpu.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from pytpu.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from pytpu.distributed.tensor._redistribute import redistribute_local_tensor
from pytpu.distributed.tensor.debug import CommDebugMode, visualize_sharding
from pytpu.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

DEVICES = pytest.mark.parametrize("device", ["cpu", "tpu"])
functional = torch.ops.c10d_functional


def count(device):
    mesh = init_device_mesh(device, (2,))
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)).to(device)
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    x = torch.ones(3, 4, device=device, requires_grad=True)
    mode, other_mesh = CommDebugMode(), init_device_mesh(device, (1, 2))
    with mode:
        # The first tensor on a mesh makes the ranks agree on a seed.
        DTensor.from_local(x, other_mesh, [Replicate(), Replicate()])
    assert mode.get_total_counts() == 0
    with mode:
        y = model(x)
        assert mode.get_comm_counts() == {functional.all_reduce: 1}
        y.sum().backward()
        assert mode.get_comm_counts()[functional.all_reduce] == 2
        assert mode.get_comm_counts()[functional.all_gather_into_tensor] == 0
    model(x)
    assert mode.get_total_counts() == 2
    assert mode.get_sharding_info()["Sequential.0.weight"] == (Shard(0),)
    assert set(mode.get_parameter_info()["Sequential.2"]) == {"weight", "bias"}
    table = mode.generate_comm_debug_tracing_table(noise_level=0).splitlines()
    once = "\033[1;33m{}*c10d_functional.all_reduce: 1\033[0m"
    assert table[:5] == [
        "Global",
        "  FORWARD PASS",
        once.format("    "),
        "  BACKWARD PASS",
        once.format("    "),
    ]
    assert table[-3:] == ["        Sequential.2", "          FORWARD PASS", once.format("            ")]
    # A mode that is entered again begins anew.
    with mode:
        assert mode.get_total_counts() == 0
    gathered = distribute_tensor(torch.ones(4, 4), mesh, [Shard(0)])
    with mode:
        gathered.redistribute(placements=[Replicate()])
        gathered.redistribute(placements=[Shard(1)])
        DTensor.from_local(torch.ones(4, 4, device=device), mesh, [Partial()]).redistribute(placements=[Shard(0)])
    assert mode.get_comm_counts() == {
        functional.all_gather_into_tensor: 1,
        functional.all_to_all_single: 1,
        functional.reduce_scatter_tensor: 1,
    }


@DEVICES
def test_collectives_of_sharded_tensors_are_counted(pools, device):
    pools(2).run(count, device)


def count_calls(device, path):
    x, mode, inner = torch.ones(4, device=device), CommDebugMode(), CommDebugMode()
    with mode:
        dist.all_reduce(x)
        with inner:
            dist.broadcast(x, 0)
            dist.all_gather_into_tensor(torch.empty(8, device=device), x)
        z = all_reduce(x.clone().requires_grad_(), "sum", dist.group.WORLD)
        z.sum().backward()
    c10d = torch.ops.c10d
    assert inner.get_comm_counts() == {c10d.broadcast_: 1, c10d._allgather_base_: 1}
    assert mode.get_comm_counts() == {
        c10d.allreduce_: 1,
        c10d.broadcast_: 1,
        c10d._allgather_base_: 1,
        functional.all_reduce: 2,
    }
    path = f"{path}{dist.get_rank()}"
    mode.generate_json_dump(f"{path}.json")
    mode.log_comm_debug_tracing_table_to_file(f"{path}.txt", noise_level=0)
    with open(f"{path}.json") as file:
        assert ["c10d.allreduce_", 1] in json.load(file)["collectives_forward"]
    with open(f"{path}.txt") as file:
        assert "    *c10d.broadcast_: 1" in file.read().splitlines()


@DEVICES
def test_other_collectives_are_counted_too(pools, device, tmp_path):
    pools(2).run(count_calls, device, str(tmp_path / device))


def show():
    mesh = init_device_mesh("cpu", (2, 2))
    x = torch.arange(24.0).view(4, 6)
    texts = []
    for placements in ([Shard(0), Shard(1)], [Replicate(), Shard(1)]):
        written = io.StringIO()
        with contextlib.redirect_stdout(written):
            visualize_sharding(distribute_tensor(x, mesh, placements), header="parts")
        texts.append(written.getvalue())
    with pytest.raises(RuntimeError, match="only implemented for 1D or 2D"):
        visualize_sharding(distribute_tensor(torch.ones(2, 2, 2), mesh, [Shard(0), Shard(1)]))
    return texts


def test_the_first_rank_shows_the_parts(pools):
    first, *others = pools(4).run(show)
    assert [line.split("  ")[0].strip() for line in first[0].splitlines()] == ["parts", "", "Row 0-1", "Row 2-3"]
    assert [line.split()[2:] for line in first[0].splitlines()[2:]] == [["cpu:0", "cpu:1"], ["cpu:2", "cpu:3"]]
    assert first[1].splitlines()[2].endswith("cpu:0, cpu:2  cpu:1, cpu:3")
    assert others == [["", ""]] * 3


def move():
    mesh = init_device_mesh("cpu", (2,))
    x = torch.arange(12.0).view(3, 4)
    meta = TensorMeta(x.shape, x.stride(), x.dtype)
    rows, columns = DTensorSpec(mesh, (Shard(0),), meta), DTensorSpec(mesh, (Shard(1),), meta)
    part = distribute_tensor(x, mesh, [Shard(0)]).to_local()
    moved = redistribute_local_tensor(part, rows, columns)
    assert torch.equal(moved, x.chunk(2, 1)[dist.get_rank()])
    assert [tuple(entry) for entry in columns.shard_order] == [(1, (0,))]


def test_the_part_of_a_rank_can_be_redistributed(pools):
    pools(2).run(move)


def test_one_process_can_try_sharded_tensors_of_many_ranks():
    dist.init_process_group("fake", rank=1, world_size=4, store=dist.HashStore())
    try:
        mesh = init_device_mesh("cpu", (4,))
        x = distribute_tensor(torch.arange(8.0), mesh, [Shard(0)]).requires_grad_()
        assert x.to_local().tolist() == [2, 3]
        y = x.sum()
        assert y.placements == (Partial("sum"),)
        # The other ranks count as having the elements of this one.
        assert y.full_tensor().item() == 20
        y.backward()
        assert x.grad.placements == (Shard(0),)
    finally:
        dist.destroy_process_group()


def clip_sharded_gradients(device):
    mesh = init_device_mesh(device, (2, 2))
    torch.manual_seed(0)
    # One row, which ranks share unevenly, and all ways to split: over both dimensions, one of them, none.
    wholes = [torch.randn(sizes) for sizes in ((1, 6), (5, 4), (4, 3), (6,), (2, 2))]
    placements = [[Shard(0), Shard(1)], [Shard(0), Replicate()], [Replicate(), Shard(1)], [Shard(0)] * 2]
    placements.append([Replicate(), Replicate()])
    shared = [distribute_tensor(x.to(device), mesh, places) for x, places in zip(wholes, placements)]
    ones = torch.ones(3, device=device)
    wholes.append(ones.cpu() * 4)
    shared.append(DTensor.from_local(ones, mesh, [Partial(), Partial()]))
    for order in (1, 2, 3, -1, float("inf"), float("-inf")):
        mode = CommDebugMode()
        with mode:
            found = torch.nn.utils.get_total_norm(shared[:5], order)
        assert mode.get_comm_counts() == {functional.all_reduce: 2} and found.placements == (Replicate(),) * 2
        torch.testing.assert_close(found.to_local().cpu(), torch.nn.utils.get_total_norm(wholes[:5], order))
        found = torch.nn.utils.get_total_norm(shared, order)
        torch.testing.assert_close(found.to_local().cpu(), torch.nn.utils.get_total_norm(wholes, order))
    assert torch.nn.utils.get_total_norm(shared, 0).full_tensor() == 6
    parameters = [nn.Parameter(torch.zeros_like(x)) for x in shared[:5]]
    for parameter, gradient in zip(parameters, shared):
        parameter.grad = gradient
    norm = torch.nn.utils.clip_grad_norm_(parameters, 0.5).full_tensor()
    for parameter, before in zip(parameters, wholes):
        torch.testing.assert_close(parameter.grad.full_tensor().cpu(), before * (0.5 / norm.cpu()))


def stack_scalars(device):
    mesh = init_device_mesh(device, (2, 2))
    kinds = [[Replicate(), Replicate()], [Partial(), Replicate()], [Replicate(), Partial()], [Partial(), Partial()]]
    for x, y in itertools.product(kinds, kinds):
        pair = [DTensor.from_local(torch.ones((), device=device), mesh, placements) for placements in (x, y)]
        counts = [2 ** sum(placement.is_partial() for placement in placements) for placements in (x, y)]
        assert torch.stack(pair).full_tensor().tolist() == counts


@DEVICES
def test_scalars_with_and_without_pending_reductions_are_stacked(pools, device):
    pools(4).run(stack_scalars, device)


@DEVICES
def test_the_norm_of_sharded_gradients_takes_one_reduction_for_each_mesh_dimension(pools, device):
    pools(4).run(clip_sharded_gradients, device)


class Net(nn.Module):
    """A network with collectives of its own around two layers."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x):
        x = funcol.all_gather_tensor(x, 0, dist.group.WORLD)
        x = funcol.reduce_scatter_tensor(x, "sum", 0, dist.group.WORLD)
        y = self.second(torch.relu_(self.first(x)))
        (y,) = funcol.all_reduce_coalesced([y], "sum", dist.group.WORLD)
        return y


def count_functional(device):
    mode = CommDebugMode()
    with mode:
        y = Net().to(device)(torch.ones(4, 4, device=device, requires_grad=True))
    assert mode.comm_counts == {
        functional.all_gather_into_tensor: 1,
        functional.reduce_scatter_tensor: 1,
        functional.all_reduce_coalesced: 1,
    }
    assert mode.comm_module_counts["Net"]["forward"] == mode.comm_counts
    assert mode.comm_module_counts.keys() == {"Global", "Net"}
    assert mode.comm_counts[functional.all_reduce] == mode.get_comm_counts()[functional.broadcast] == 0
    with mode:
        y.sum().backward()
    # The gradient of each is one collective.
    assert mode.get_total_counts() == 3
    assert mode.comm_module_counts["Global"]["forward"] == {}
    assert sum(mode.comm_module_counts["Global"]["backward"].values()) == 3
    with mode:
        funcol.permute_tensor(torch.ones(2, device=device), [1, 0], dist.group.WORLD)
        dist.all_reduce_coalesced([torch.ones(2, device=device), torch.ones(3, device=device)])
        funcol.all_gather_into_tensor_coalesced([torch.ones(2, device=device)] * 2, dist.group.WORLD)
        funcol.reduce_scatter_tensor_coalesced([torch.ones(2, device=device)] * 2, "sum", [0, 0], dist.group.WORLD)
        dist.barrier()
    assert mode.comm_counts == {
        functional.all_to_all_single: 1,
        torch.ops.c10d.allreduce_coalesced_: 1,
        functional.all_gather_into_tensor_coalesced: 1,
        functional.reduce_scatter_tensor_coalesced: 1,
    }


@DEVICES
def test_functional_collectives_are_counted_by_modules(pools, device):
    pools(2).run(count_functional, device)


def count_by_modules(device):
    mesh = init_device_mesh(device, (2,))
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True), nn.Linear(8, 4)).to(device)
    model = nn.ModuleDict({"layers": model})
    plan = {"layers.0": ColwiseParallel(), "layers.2": RowwiseParallel()}
    parallelize_module(model, mesh, plan)
    model.forward = lambda x: model["layers"](x)
    mode = CommDebugMode()
    with mode:
        y = model(torch.ones(3, 4, device=device, requires_grad=True))
        y.sum().backward()
    tracker = mode.advanced_module_tracker
    assert (tracker.name, tracker.is_bw) == ("Global", False)
    layers = [f"ModuleDict.layers.{i}" for i in range(3)]
    assert tracker.parent_dict == {
        "Global": ["ModuleDict"],
        "ModuleDict": ["ModuleDict.layers"],
        "ModuleDict.layers": layers,
    }
    assert tracker.module_parents_dict[layers[2]] == {"Global", "ModuleDict", "ModuleDict.layers", layers[2]}
    assert tracker.module_parameters_dict.keys() == {layers[0], layers[2]}
    assert tracker.sharding_dict == {
        f"{layers[0]}.weight": (Shard(0),),
        f"{layers[0]}.bias": (Shard(0),),
        f"{layers[2]}.weight": (Shard(1),),
        f"{layers[2]}.bias": (Replicate(),),
    }
    assert tracker.module_helper_dict[layers[2]]["depth"] == 3
    once = {functional.all_reduce: 1}
    counts = mode.comm_module_counts
    for name in ("Global", "ModuleDict", "ModuleDict.layers", layers[2]):
        assert counts[name]["forward"] == once, name
    for name in ("Global", "ModuleDict", "ModuleDict.layers", layers[0]):
        assert counts[name]["backward"] == once, name
    assert layers[1] not in counts
    assert counts[layers[0]]["forward"] == counts[layers[2]]["backward"] == {}
    assert not any(module._forward_hooks for module in [model, model["layers"][1]])


@DEVICES
def test_collectives_are_counted_by_modules_in_forward_and_backward(pools, device):
    pools(2).run(count_by_modules, device)


FAKE = """
import pytpu as torch
import pytpu.distributed as dist
from pytpu.distributed import _functional_collectives as funcol
from pytpu.distributed.tensor import DTensor, Replicate, Shard
from pytpu.distributed.tensor.debug import CommDebugMode

dist.init_process_group("fake", rank=1, world_size=2)
group, mesh, mode = dist.group.WORLD, dist.init_device_mesh("cpu", (2,)), CommDebugMode()


def names():
    return {str(operator): count for operator, count in mode.get_comm_counts().items()}


with mode:
    x = funcol.all_gather_tensor(torch.ones(4, 4), 0, group)
    x = funcol.reduce_scatter_tensor(x, "sum", 0, group)
    funcol.all_reduce_coalesced([x], "sum", group)
assert names() == {
    "c10d_functional.all_gather_into_tensor": 1,
    "c10d_functional.reduce_scatter_tensor": 1,
    "c10d_functional.all_reduce_coalesced": 1,
}, names()
with mode:
    dist.all_reduce(torch.ones(2))
    dist.all_gather([torch.ones(2), torch.ones(2)], torch.ones(2))
    dist.all_gather_into_tensor(torch.ones(4), torch.ones(2))
assert names() == {"c10d.allreduce_": 1, "c10d.allgather_": 1, "c10d._allgather_base_": 1}, names()
x = DTensor.from_local(torch.ones(4, 8), mesh, [Shard(0)])
y = DTensor.from_local(torch.ones(4, 32), mesh, [Shard(0)])
with mode:
    torch.mm(x, y)
assert mode.get_total_counts() == 1, names()
with mode:
    x.redistribute(placements=[Replicate()])
    x[3:]
assert names() == {"c10d_functional.all_gather_into_tensor": 2}, names()
"""


def test_collectives_of_backend_fake_are_counted():
    subprocess.run([sys.executable, "-c", FAKE], check=True, timeout=60)
