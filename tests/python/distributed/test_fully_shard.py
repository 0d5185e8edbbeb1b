"""Modules with sharded parameters, compared with one process that has the whole batch."""

import copy
import gc
import json
import sys
import weakref
from types import ModuleType

import pytest
from fsdp_models import Block, Gpt, batch, loss_of, make, shard, train, values, whole

import pytpu as torch
import pytpu.distributed as dist
import pytpu.distributed.checkpoint as dcp
from pytpu import nn
from pytpu.distributed import init_device_mesh
from pytpu.distributed._composable import checkpoint
from pytpu.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_state_dict,
)
from pytpu.distributed.fsdp import (
    CPUOffloadPolicy,
    DataParallelMeshDims,
    FSDPModule,
    MixedPrecisionPolicy,
    fully_shard,
    register_fsdp_forward_method,
    share_comm_ctx,
)
from pytpu.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from pytpu.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from pytpu.distributed.tensor.placement_types import _StridedShard
from pytpu.nn.parallel import DistributedDataParallel

DEVICES = pytest.mark.parametrize("device", ["cpu", "tpu"])


def line(device="cpu"):
    return init_device_mesh(device, (dist.get_world_size(),))


def own():
    return {"rank": dist.get_rank(), "ranks": dist.get_world_size()}


def close(a, b, tolerance=1e-5):
    assert len(a) == len(b)
    for x, y in zip(a, b):
        torch.testing.assert_close(x, y, rtol=tolerance, atol=tolerance)


def train_sharded(kind, device, steps):
    model = shard(make(kind, device), line(device))
    losses = train(model, kind, device, steps, **own())
    parallel = DistributedDataParallel(make(kind, device))
    return losses, values(model), train(parallel, kind, device, steps, **own())


@pytest.mark.parametrize("kind, device, size", [
    ("mlp", "cpu", 2), ("mlp", "cpu", 4), ("gpt", "cpu", 2), ("gpt", "cpu", 4), ("mlp", "tpu", 4), ("mlp", "tpu", 2),
])  # fmt: skip
def test_training_is_that_of_one_process(pools, kind, device, size):
    alone, pool = make(kind, device), pools(size)
    expected = train(alone, kind, device, 6)
    first, again = (pool.run(train_sharded, kind, device, 6) for _ in range(2))
    for losses, parameters, parallel in first:
        assert losses == pytest.approx(expected, rel=1e-5)
        assert losses == pytest.approx(parallel, rel=1e-6)
        close(parameters, values(alone), 1e-4)
    # The same bits.
    assert [r[0] for r in again] == [r[0] for r in first]
    assert all(torch.equal(x, y) for a, b in zip(first, again) for x, y in zip(a[1], b[1]))


def describe():
    mesh = line()
    model = make("mlp")
    inner = model[0]
    result = shard(model, mesh)
    assert result is model and isinstance(inner, nn.Linear) and isinstance(inner, FSDPModule)
    assert [type(inner).__name__, type(model).__name__] == ["FSDPLinear", "FSDPSequential"]
    assert type(type(inner)(2, 2)) is nn.Linear
    assert isinstance(inner.weight, DTensor) and isinstance(inner.weight, nn.Parameter)
    assert inner.weight.placements == (Shard(0),) and inner.weight.shape == (5, 6)
    assert list(model.state_dict()) == list(make("mlp").state_dict())
    seen = []
    inner.register_forward_pre_hook(lambda module, args: seen.append(module.weight))
    loss_of(model, *batch("mlp", 0)).backward()
    assert not isinstance(seen[0], DTensor) and torch.equal(seen[0], make("mlp")[0].weight)
    assert inner.weight.grad.placements == (Shard(0),)
    return [tuple(p.to_local().shape) for p in model.parameters()]


def test_parameters_and_gradients_are_sharded_tensors(pools):
    shapes = pools(2).run(describe)
    assert shapes[0] == [(3, 6), (3,), (5, 5), (5,), (2, 9), (2,)]
    assert shapes[1] == [(2, 6), (2,), (4, 5), (4,), (1, 9), (1,)]
    assert pools(4).run(describe)[3] == [(0, 6), (0,), (0, 5), (0,), (0, 9), (0,)]


OPTIONS = {
    "kept": {"reshard_after_forward": False},
    "freed": {"reshard_after_forward": True},
    "number": {"reshard_after_forward": 2},
    "columns": {"shard_placement_fn": lambda p: Shard(p.ndim - 1) if p.shape[-1] % 4 == 0 else None},
}


def train_with_options(name, device):
    alone = make(device=device, block=Block)
    model = shard(make(device=device, block=Block), line(device), **OPTIONS[name])
    assert train(model, device=device, **own()) == pytest.approx(train(alone, device=device), rel=1e-5)
    close(values(model), values(alone), 1e-4)


@DEVICES
@pytest.mark.parametrize("name", OPTIONS)
def test_options_do_not_change_results(pools, name, device):
    pools(2).run(train_with_options, name, device)


def keep_in_halves(device):
    alone = make("mlp", device)
    model = shard(make("mlp", device), line(device), reshard_after_forward=2)
    x = batch("mlp", 0)[0].to(device)
    # The second forward reads what the first one has kept.
    torch.testing.assert_close(model(x), model(x))
    assert train(model, "mlp", device, 2, **own()) == pytest.approx(train(alone, "mlp", device, 2), rel=1e-5)
    close(values(model), values(alone), 1e-4)
    return model[0]._get_fsdp_state().groups[0].keepers.size()


@DEVICES
def test_groups_of_ranks_may_keep_parameters_after_forward(pools, device):
    assert pools(4).run(keep_in_halves, device) == [2] * 4


def kept_elements(width):
    """Return how many elements this rank keeps after forward, if all ranks keep a layer, and if two do."""
    found = []
    for keepers in (True, 2):
        model = nn.Linear(width, width, bias=False)
        fully_shard(model, mesh=line(), reshard_after_forward=keepers)
        y = model(torch.ones(1, width))
        group = model._get_fsdp_state().groups[0]
        found.append(0 if group._kept is None else sum(part.numel() for part in group._kept))
        y.sum().backward()
        assert group._kept is None
    return found


def test_fewer_keepers_keep_more(pools):
    assert pools(4).run(kept_elements, 8) == [[0, 32]] * 4


def finalize():
    model = shard(make("mlp"), line())
    expected = shard(make("mlp"), line())
    with pytest.raises(RuntimeError, match="finalize_backward requires manual backward finalization"):
        model.finalize_backward()
    model.set_manual_backward_finalization(True)
    with pytest.raises(RuntimeError, match="must be called on the root"):
        model[0].set_manual_backward_finalization(True)
    for asynchronous in (False, True):
        for each in (model, expected):
            loss_of(each, *batch("mlp", 0)).backward()
        assert model[0].weight.grad is None
        handle = model.finalize_backward(async_op=asynchronous)
        assert (handle is not None) == asynchronous
        if handle is not None:
            handle.wait()
        for p, q in zip(model.parameters(), expected.parameters()):
            assert isinstance(p, DTensor)
            assert torch.equal(whole(p.grad), whole(q.grad))
        for each in (model, expected):
            each.zero_grad()


def test_a_call_may_end_backward_passes(pools):
    pools(2).run(finalize)


def hook_stream():
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    both = fully_shard(nn.Linear(4, 4), mesh=mesh)
    stream, seen = torch.cpu.Stream(), []
    with pytest.raises(ValueError, match="stream cannot be set when using native HSDP"):
        both.set_all_reduce_hook(print, stream=stream)
    model = fully_shard(nn.Linear(4, 4), mesh=mesh["shard"])

    def double(gradient):
        seen.append(torch.cpu.current_stream())
        gradient.mul_(2)

    model.set_all_reduce_hook(double, stream=stream)
    model(torch.ones(1, 4)).sum().backward()
    assert seen and all(each is stream for each in seen) and torch.cpu.current_stream() is not stream
    assert torch.equal(whole(model.bias.grad), torch.full((4,), 2.0))


def test_hooks_on_reduced_gradients_run_in_their_stream(pools):
    pools(4).run(hook_stream)


def shard_on_meta():
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        mesh = line()
        fully_shard(model[0], mesh=mesh)
        fully_shard(model, mesh=mesh)
    assert all(p.device.type == "meta" for p in model.parameters())
    model.to_empty(device="cpu")
    for layer in model:
        layer.reset_parameters()
    model(torch.ones(1, 4)).sum().backward()


def test_meshes_are_made_where_the_default_device_is_meta(pools):
    pools(2).run(shard_on_meta)


def train_with_checkpoints(arguments, device):
    alone = make(device=device, block=Block)
    model = shard(make(device=device, block=Block, **arguments), line(device))
    assert train(model, device=device, **own()) == pytest.approx(train(alone, device=device), rel=1e-5)
    close(values(model), values(alone), 1e-4)


@DEVICES
@pytest.mark.parametrize("place", ["mode", "outer"])
@pytest.mark.parametrize("kind", ["reentrant", "not"])
def test_checkpoints_of_activations_do_not_change_results(pools, place, kind, device):
    pools(2).run(train_with_checkpoints, {place: kind}, device)


def checkpoint_in_place(device):
    alone, model = make("mlp", device), make("mlp", device)
    for layer in model:
        kind = type(layer)
        assert checkpoint(layer) is layer and type(layer) is kind
    shard(model, line(device))
    assert train(model, "mlp", device, 2, **own()) == pytest.approx(train(alone, "mlp", device, 2), rel=1e-5)
    close(values(model), values(alone), 1e-4)
    with pytest.raises(AssertionError, match="can only be applied to a module once"):
        checkpoint(model[0])
    with pytest.raises(NotImplementedError, match="use_reentrant=True is not supported"):
        checkpoint(nn.Linear(2, 2), use_reentrant=True)
    layer, runs = nn.Sequential(nn.Linear(2, 2), nn.Tanh()), []
    layer[0].register_forward_hook(lambda *args: runs.append(1))
    checkpoint(layer)(torch.ones(1, 2)).sum().backward()
    # Backward computes the activations again.
    assert len(runs) == 2


@DEVICES
def test_activations_of_modules_are_checkpointed_in_place(pools, device):
    pools(2).run(checkpoint_in_place, device)


def accumulate(device):
    alone, model = make("mlp", device), shard(make("mlp", device), line(device))
    found = train(model, "mlp", device, parts=2, **own())
    assert found == pytest.approx(train(alone, "mlp", device), rel=1e-5)
    close(values(model), values(alone), 1e-4)


@DEVICES
def test_gradients_accumulate_without_synchronisation(pools, device):
    pools(2).run(accumulate, device)


def mix(device):
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32, torch.float32)
    torch.manual_seed(0)
    model = nn.Linear(4, 3).to(device)
    w = model.weight.detach().bfloat16().requires_grad_()
    fully_shard(model, mesh=line(device), mp_policy=policy)
    rank, ranks = own().values()
    x = torch.randn(ranks, 2, 4, generator=torch.Generator().manual_seed(1)).to(device)
    y = model(x[rank])
    assert y.dtype == torch.float32 and model.weight.dtype == torch.bfloat16
    y.square().sum().backward()
    gradients = []
    bias = torch.nn.Parameter(whole(model.bias).to(device).bfloat16())
    for part in x:
        out = nn.functional.linear(part.bfloat16(), w, bias).float()
        gradients.append(torch.autograd.grad(out.square().sum(), w)[0].float())
    assert model.weight.dtype == model.weight.grad.dtype == torch.float32
    close([whole(model.weight.grad)], [torch.stack(gradients).mean(0).cpu()], 1e-6)
    model.unshard()
    assert model.weight.dtype == torch.bfloat16
    model.reshard()
    assert isinstance(model.weight, DTensor)


@DEVICES
def test_mixed_precision_computes_and_reduces_in_its_dtypes(pools, device):
    pools(2).run(mix, device)


def mesh_2d(device):
    return init_device_mesh(device, (2, 2), mesh_dim_names=("outer", "inner"))


def replicate(device):
    alone = make("mlp", device)
    hybrid = shard(make("mlp", device), mesh_2d(device))
    assert hybrid[0].weight.placements == (Replicate(), Shard(0))
    assert train(hybrid, "mlp", device, **own()) == pytest.approx(train(alone, "mlp", device), rel=1e-5)
    close(values(hybrid), values(alone), 1e-4)


@DEVICES
def test_shards_may_be_replicated(pools, device):
    pools(4).run(replicate, device)


def reduce_later():
    model = shard(make("mlp"), mesh_2d("cpu"))
    model.set_requires_all_reduce(False)
    x, y = (each.chunk(4)[dist.get_rank()] for each in batch("mlp", 0))
    loss_of(model, x, y).backward()
    assert model[0].weight.grad is None
    model.set_requires_all_reduce(True)
    loss_of(model, x, y).backward()
    expected = make("mlp")
    (2 * loss_of(expected, *batch("mlp", 0))).backward()
    close([whole(p.grad) for p in model.parameters()], [p.grad for p in expected.parameters()])


def test_the_reduction_over_replicas_may_wait(pools):
    pools(4).run(reduce_later)


def divide_tensors(device):
    mesh = mesh_2d(device)
    alone, model = (make(device=device, block=Block) for _ in range(2))
    for layer in model.layers:
        parallelize_module(layer, mesh["inner"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    shard(model, mesh["outer"])
    up, down = model.layers[0].up.weight, model.layers[0].down.weight
    assert up.placements == (_StridedShard(0, split_factor=2), Shard(0)) and down.placements == (Shard(0), Shard(1))
    found = train(model, device=device, steps=2, rank=mesh["outer"].get_local_rank(), ranks=2)
    assert found == pytest.approx(train(alone, device=device, steps=2), rel=1e-4)
    close(values(model), values(alone), 1e-4)


@DEVICES
def test_tensor_parallel_modules_can_be_sharded(pools, device):
    pools(4).run(divide_tensors, device)


def shard_on_whole_mesh(device):
    size = dist.get_world_size()
    mesh = init_device_mesh(device, (2, size // 2, 1), mesh_dim_names=("copies", "shards", "pieces"))
    for dims, placements in (
        (DataParallelMeshDims("shards", "copies"), (Replicate(), Shard(0))),
        (DataParallelMeshDims(("copies", "shards")), (Shard(0),)),
    ):
        model = make("mlp", device)
        for module in model.modules():
            for name, p in list(module.named_parameters(recurse=False)):
                placed = distribute_tensor(p.detach(), mesh, [Replicate()] * 3)
                setattr(module, name, nn.Parameter(placed))
        fully_shard(model, mesh=mesh, dp_mesh_dims=dims)
        assert all(p.placements == placements for p in model.parameters())
        losses = train(model, "mlp", device, 2, **own())
        assert losses == pytest.approx(train(make("mlp", device), "mlp", device, 2), rel=1e-5)


@DEVICES
def test_data_parallel_dimensions_of_a_mesh_are_named(pools, device):
    pools(4).run(shard_on_whole_mesh, device)


class SumOfRanks(torch.autograd.Function):
    """The sum over ranks that then compute the same."""

    @staticmethod
    def forward(ctx, x, group):
        x = x.clone()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class PartOfLayers(nn.Module):
    """Two layers that ranks have parts of, as plain tensors. ``scale`` has partial gradients, ``bias`` whole ones."""

    def __init__(self, up, down, scale, bias, group):
        super().__init__()
        self.up, self.down, self.scale, self.bias = map(nn.Parameter, (up, down, scale, bias))
        self.group = group

    def forward(self, x):
        assert not any(isinstance(p, DTensor) for p in self.parameters()) and self.up.kind == "part"
        y = (x @ self.up.t()).relu() @ self.down.t() * self.scale
        return (y if self.group is None else SumOfRanks.apply(y, self.group)) + self.bias


def fake_spmd_types():
    """Return a module with the functions of ``spmd_types`` that `fully_shard` calls."""
    types = ModuleType("spmd_types")
    types.R, types.I, types.V, types.P = "R", "I", "V", "P"
    types.has_local_type = lambda x: hasattr(x, "types")
    types.normalize_axis = lambda group: str(dist.get_process_group_ranks(group))
    types.get_axis_local_type = lambda x, group: x.types[types.normalize_axis(group)]
    types.get_partition_spec = lambda x: x.spec
    return types


def shard_annotated_parts(device):
    mesh = init_device_mesh(device, (2, 2), mesh_dim_names=("dp", "tp"))
    torch.manual_seed(0)
    values = [torch.randn(6, 4), torch.randn(4, 6), torch.randn(4), torch.randn(4)]
    alone = PartOfLayers(*[v.clone() for v in values], None)
    alone.up.kind = "part"
    rank, group = mesh.get_local_rank("tp"), mesh.get_group("tp")
    parts = [values[0].chunk(2)[rank], values[1].chunk(2, 1)[rank].contiguous(), values[2], values[3]]
    model = PartOfLayers(*[part.to(device) for part in parts], group)
    sys.modules["spmd_types"] = types = fake_spmd_types()
    axis = types.normalize_axis(group)
    for name, kind, spec in (
        ("up", "V", (axis, None)),
        ("down", "V", (None, axis)),
        ("scale", "R", ()),
        ("bias", "I", ()),
    ):
        parameter = getattr(model, name)
        parameter.types, parameter.spec, parameter.kind = {axis: kind}, spec, "part"
    try:
        fully_shard(model, mesh=mesh, dp_mesh_dims=DataParallelMeshDims("dp"))
    finally:
        del sys.modules["spmd_types"]
    assert model.up.placements == (_StridedShard(0, split_factor=2), Shard(0)) and model.up.shape == (6, 4)
    assert model.down.placements == (Shard(0), Shard(1)) and model.bias.placements == (Shard(0), Replicate())
    own, optimizers = mesh.get_local_rank("dp"), [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, alone)]
    for step in range(3):
        x = torch.randn(8, 4, generator=torch.Generator().manual_seed(step))
        model(x.chunk(2)[own].to(device)).square().mean().backward()
        alone(x).square().mean().backward()
        close([whole(p.grad) for p in model.parameters()], [p.grad for p in alone.parameters()])
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    close([whole(p) for p in model.parameters()], [p.detach() for p in alone.parameters()])


@DEVICES
def test_plain_parts_with_types_are_sharded(pools, device):
    pools(4).run(shard_annotated_parts, device)


def refuse_types():
    mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
    sys.modules["spmd_types"] = types = fake_spmd_types()
    axis = types.normalize_axis(mesh.get_group("tp"))
    texts = []
    try:
        for kind in ("P", "V"):
            model = nn.Linear(2, 2, bias=False)
            model.weight.types, model.weight.spec = {axis: kind}, None
            with pytest.raises(NotImplementedError) as error:
                fully_shard(model, mesh=mesh, dp_mesh_dims=DataParallelMeshDims("dp"))
            texts.append(str(error.value))
    finally:
        del sys.modules["spmd_types"]
    return texts


def test_parts_of_unknown_wholes_are_refused(pools):
    for texts in pools(2).run(refuse_types):
        assert texts == [
            "fully_shard: parameters of type P on mesh dimension 'tp'",
            "fully_shard: a parameter varies between ranks, and no dimension of it is divided",
        ]


def refuse_dimensions():
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("shards",))
    texts = []
    for dims in (DataParallelMeshDims("other"), DataParallelMeshDims(replicate="shards")):
        try:
            fully_shard(nn.Linear(2, 2), mesh=mesh, dp_mesh_dims=dims)
        except (ValueError, NotImplementedError) as error:
            texts.append(str(error))
    model = nn.Linear(2, 2)
    model.weight = nn.Parameter(distribute_tensor(torch.ones(2, 2), mesh, [Shard(0)]))
    try:
        fully_shard(model, mesh=mesh, dp_mesh_dims=DataParallelMeshDims("shards"))
    except ValueError as error:
        texts.append(str(error))
    return texts


def test_wrong_data_parallel_dimensions_are_refused(pools):
    for texts in pools(2).run(refuse_dimensions):
        assert texts == [
            "dp_mesh_dims: 'other' is no dimension of the mesh, which has ('shards',)",
            "fully_shard: dp_mesh_dims without a dimension to shard on is not implemented",
            "dp_mesh_dims: expects Replicate() on dimension 'shards', but got S(0)",
        ]


def step_at_once(device):
    model, alone = shard(make("mlp", device), line(device)), make("mlp", device)
    losses = []
    for each, ranks in ((model, own()), (alone, {})):
        for kind in (torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad):
            optimizer = kind(each.parameters(), lr=1e-2, fused=True)
            losses.append(train(each, "mlp", device, 2, optimizer=optimizer, **ranks))
            optimizer.load_state_dict(optimizer.state_dict())
            losses.append(train(each, "mlp", device, 1, optimizer=optimizer, **ranks))
    for found, expected in zip(losses[:6], losses[6:], strict=True):
        assert found == pytest.approx(expected, rel=1e-5)


@DEVICES
def test_fused_optimizers_update_sharded_parameters(pools, device):
    pools(2).run(step_at_once, device)


def clip_by_plain_norm(device):
    model = shard(make("mlp", device), line(device))
    loss_of(model, *(each.to(device) for each in batch("mlp", 0))).backward()
    before = [whole(p.grad) for p in model.parameters()]
    torch.nn.utils.clip_grads_with_norm_(model.parameters(), 1.0, torch.tensor(4.0, device=device))
    close([whole(p.grad) for p in model.parameters()], [g / 4 for g in before])


@DEVICES
def test_a_plain_norm_clips_sharded_gradients(pools, device):
    pools(2).run(clip_by_plain_norm, device)


def measure(width):
    """Return bytes on device ``tpu`` over those before, for a model of 4 layers: after sharding, forward, backward."""

    def live():
        torch.tpu.synchronize()
        gc.collect()
        return torch.tpu.memory_allocated()

    mesh = line("tpu")
    before = live()
    model = nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(4))).to("tpu")
    for layer in model:
        fully_shard(layer, mesh=mesh, reshard_after_forward=True)
    fully_shard(model, mesh=mesh)
    found = [live() - before]
    loss = model(torch.randn(1, width, device="tpu")).square().sum()
    found.append(live() - before)
    loss.backward()
    del loss
    found.append(live() - before)
    return found


def test_memory_is_that_of_the_shards(pool):
    width = 256
    parameters = 4 * width * width * 4
    for sharded, forward, backward in pool.run(measure, width):
        assert sharded == pytest.approx(parameters / pool.size, rel=0.05)
        assert forward == pytest.approx(parameters / pool.size, rel=0.05, abs=16 * 1024)
        # Gradients are as large.
        assert backward == pytest.approx(2 * parameters / pool.size, rel=0.05)


def watch_gathered(device):
    """Return how many gathered weights live when each layer begins, and after forward and backward."""
    model = nn.Sequential(*(nn.Linear(8, 8, bias=False) for _ in range(6))).to(device)
    seen, counts = [], []

    def count():
        gc.collect()
        counts.append(sum(weight() is not None for weight in seen))

    def enter(module, args):
        seen.append(weakref.ref(module.weight))
        count()

    shard(model, line(device), reshard_after_forward=True)
    for layer in model:
        layer.register_forward_pre_hook(enter)
    loss = model(torch.randn(2, 8, device=device)).sum()
    count()
    loss.backward()
    count()
    assert all(p.grad is not None for p in model.parameters())
    return counts


@DEVICES
def test_gathered_parameters_live_as_long_as_their_layer_runs(pools, device):
    assert pools(2).run(watch_gathered, device) == [[1, 1, 1, 1, 1, 1, 0, 0]] * 2


def prefetch():
    """Return the collectives of a step, in order, after a first step."""

    def collectives(after=-1):
        entries = json.loads(torch._C._flight_recorder_json())["entries"]
        return [(e["record_id"], e["profiling_name"]) for e in entries if e["record_id"] > after]

    model = shard(nn.Sequential(*(nn.Linear(64, 64) for _ in range(4))), line())
    started = []
    for i, layer in enumerate(model):
        layer.register_full_backward_pre_hook(lambda *_, i=i: started.append((i, len(collectives(last)))))
    for _ in range(2):
        started.clear()
        last = max((each[0] for each in collectives()), default=-1)
        model(torch.randn(2, 64)).sum().backward()
    names = [name.split(":")[-1] for _, name in collectives(last)]
    return names, started


def test_reductions_start_before_backward_ends(pools):
    for names, started in pools(2).run(prefetch):
        gathers = [i for i, name in enumerate(names) if "all_gather" in name]
        reductions = [i for i, name in enumerate(names) if "reduce_scatter" in name]
        assert len(gathers) == 8 and len(reductions) == 4
        # Backward goes on, and gathers, while the first reduction runs.
        assert reductions[0] < gathers[-1] < reductions[-1]
        assert [i for i, _ in started] == [3, 2, 1, 0]


def control():
    mesh = line()
    model = shard(make("mlp"), mesh)
    first, last = model[0], model[4]
    handle = first.unshard(async_op=True)
    handle.wait()
    assert not isinstance(first.weight, DTensor) and isinstance(last.weight, DTensor)
    first.reshard()
    assert isinstance(first.weight, DTensor)
    model.set_modules_to_forward_prefetch([first, model[2]])
    last.set_modules_to_backward_prefetch([model[2], first])
    share_comm_ctx([first, last])
    expected = make("mlp")
    train(model, "mlp", steps=2, **own())
    train(expected, "mlp", steps=2)
    close(values(model), values(expected), 1e-4)
    # Sums in place of means.
    model = shard(make("mlp"), mesh)
    for each in model.modules():
        if isinstance(each, FSDPModule):
            each.set_gradient_divide_factor(1.0)
    x, y = batch("mlp", 0)
    rank, ranks = own().values()
    loss_of(model, x.chunk(ranks)[rank], y.chunk(ranks)[rank]).backward()
    expected = make("mlp")
    loss_of(expected, x, y).backward()
    close([whole(p.grad) / ranks for p in model.parameters()], [p.grad for p in expected.parameters()])
    # Gathered parameters may stay for several backward passes.
    model.set_reshard_after_backward(False)
    loss_of(model, x, y).backward()
    assert not isinstance(first.weight, torch.Tensor) or not isinstance(model[0].weight, DTensor)
    model.set_reshard_after_backward(True)
    loss_of(model, x, y).backward()
    assert isinstance(model[0].weight, DTensor)


def test_gathers_and_reductions_are_controlled(pools):
    pools(2).run(control)


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused, self.frozen = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)
        self.frozen.requires_grad_(False)

    def forward(self, x):
        return {"out": [self.frozen(self.used(x))]}

    def other(self, x):
        return self.used(x)


def use_some():
    torch.manual_seed(0)
    model, alone = Branches(), None
    alone = copy.deepcopy(model)
    fully_shard(model, mesh=line())
    model(torch.ones(2, 3))["out"][0].sum().backward()
    alone(torch.ones(2, 3))["out"][0].sum().backward()
    close([whole(p.grad) for p in model.used.parameters()], [p.grad for p in alone.used.parameters()])
    assert all(p.grad is None for p in [*model.unused.parameters(), *model.frozen.parameters()])
    assert all(isinstance(p, DTensor) for p in model.parameters())
    assert [p.requires_grad for p in model.parameters()] == [True] * 4 + [False] * 2
    register_fsdp_forward_method(model, "other")
    torch.testing.assert_close(model.other(torch.ones(2, 3)), alone.other(torch.ones(2, 3)))
    model.reshard()
    calls = []
    model.used.weight.register_post_accumulate_grad_hook(lambda p: calls.append(type(p.grad).__name__))
    model(torch.ones(2, 3))["out"][0].sum().backward()
    assert calls == ["DTensor"]
    # After an exception, the next call is as any other.
    with pytest.raises(RuntimeError):
        model(torch.ones(2, 5))
    with torch.no_grad():
        model(torch.ones(2, 3))
    assert isinstance(model.used.weight, DTensor)


def test_parameters_may_be_unused_or_frozen(pools):
    pools(2).run(use_some)


def offload():
    alone = make("mlp", "tpu")
    model = shard(make("mlp"), line("tpu"), offload_policy=CPUOffloadPolicy())
    assert {p.device.type for p in model.parameters()} == {"cpu"}
    assert train(model, "mlp", "tpu", **own()) == pytest.approx(train(alone, "mlp", "tpu"), rel=1e-5)
    assert {p.grad.device.type for p in model.parameters()} == {"cpu"}
    close(values(model), values(alone), 1e-4)


def test_parameters_may_be_kept_on_the_host(pools):
    pools(2).run(offload)


def start_on_meta(folder):
    """Make a model on device meta, load whole values of rank 0, train, and save."""
    with torch.device("meta"):
        model = Gpt(Block)
    shard(model, line())
    assert all(p.device.type == "meta" for p in model.parameters())
    with pytest.raises(RuntimeError, match="should be materialized from meta device before training"):
        model(batch("gpt", 0)[0])
    parameters = list(model.parameters())
    model.to_empty(device="cpu")
    assert all(a is b for a, b in zip(parameters, model.parameters()))
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    state = make(block=Block).state_dict() if dist.get_rank() == 0 else {}
    set_model_state_dict(model, state, options=options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    alone = make(block=Block)
    alone_optimizer = torch.optim.AdamW(alone.parameters(), lr=0.01)
    expected = train(alone, optimizer=alone_optimizer)
    assert train(model, optimizer=optimizer, **own()) == pytest.approx(expected, rel=1e-5)
    full = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if dist.get_rank() == 0:
        close(list(full.values()), list(alone.state_dict().values()), 1e-4)
    of_model, of_optimizer = get_state_dict(model, optimizer)
    dcp.save({"model": of_model, "optimizer": of_optimizer}, checkpoint_id=folder)
    return train(model, optimizer=optimizer, **own())


def resume(folder):
    model = shard(make(block=Block), line())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.5)
    of_model, of_optimizer = get_state_dict(model, optimizer)
    state = {"model": of_model, "optimizer": of_optimizer}
    dcp.load(state, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    return train(model, optimizer=optimizer, **own())


def test_a_checkpoint_is_loaded_by_another_number_of_ranks(pools, tmp_path):
    expected = pools(2).run(start_on_meta, str(tmp_path))[0]
    assert pools(4).run(resume, str(tmp_path))[0] == pytest.approx(expected, rel=1e-5)


def refuse():
    mesh = line()
    texts = []

    def error(kind, *arguments, **options):
        with pytest.raises(kind) as raised:
            fully_shard(*arguments, mesh=mesh, **options)
        texts.append(str(raised.value))

    error(ValueError, nn.ModuleList([nn.Linear(2, 2)]))
    scalar = nn.Linear(2, 2)
    scalar.scale = nn.Parameter(torch.tensor(1.0))
    error(ValueError, scalar)
    error(ValueError, nn.Linear(2, 2), reshard_after_forward="yes")
    error(ValueError, nn.Linear(2, 2), reshard_after_forward=3)
    error(ValueError, nn.Linear(2, 2), shard_placement_fn=lambda p: Replicate())
    error(NotImplementedError, nn.Linear(3, 2), shard_placement_fn=lambda p: Shard(p.ndim - 1))
    with pytest.raises(AssertionError, match="FSDP does not support deepcopy"):
        copy.deepcopy(fully_shard(nn.Linear(2, 2), mesh=mesh))
    inner = fully_shard(nn.Linear(2, 2), mesh=mesh)
    assert fully_shard.state(inner) is inner._get_fsdp_state()
    with pytest.raises(AssertionError, match="can only be applied to a module once"):
        fully_shard(inner, mesh=mesh)
    outer = fully_shard(nn.Sequential(inner, nn.Linear(2, 2)), mesh=mesh)
    inner(torch.ones(1, 2))
    with pytest.raises(RuntimeError, match="FSDP state has already been lazily initialized for 0"):
        outer(torch.ones(1, 2))
    with pytest.raises(ValueError, match="does not have a method nothing"):
        register_fsdp_forward_method(inner, "nothing")
    with pytest.raises(ValueError, match="Expects FSDPModule but got"):
        inner.set_modules_to_forward_prefetch([nn.Linear(2, 2)])
    other = init_device_mesh("tpu", (1, 2), mesh_dim_names=("outer", "inner"))
    parallel = parallelize_module(nn.Linear(2, 2), other["inner"], ColwiseParallel())
    with pytest.raises(ValueError, match="got tpu for DTensor and cpu for FSDP"):
        fully_shard(parallel, mesh=mesh)
    tied = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    tied[1].weight = tied[0].weight
    fully_shard(tied[0], mesh=mesh)
    with pytest.raises(ValueError, match="already managed by another FSDP group"):
        fully_shard(tied, mesh=mesh)
    return texts


def test_mistakes_raise_as_in_pytorch(pools):
    starts = [
        "fully_shard does not support containers that do not implement forward: ModuleList(",
        "fully_shard doesn't support scalar parameters. Change scale to a 1D tensor with numel equal to 1.",
        "reshard_after_forward should be a bool or an int representing the group size to reshard to, not yes",
        "If passing reshard_after_forward as an int, it should be a factor of 2, not 3",
        "Invalid shard_placement_fn result: ",
        "FSDP does not support uneven sharding on dim 1: torch.Size([2, 3]) (world size: 2)",
    ]
    for texts in pools(2).run(refuse):
        assert all(text.startswith(start) for text, start in zip(texts, starts, strict=True)), texts


def convert_and_reuse():
    mesh = line()
    model, alone = make("mlp"), make("mlp").double()
    shard(model, mesh).double()
    x, y = (each.double() if each.is_floating_point() else each for each in batch("mlp", 0))
    # Two calls before one backward, and two backward passes.
    for each in model, alone:
        (loss_of(each, x, y) + loss_of(each, x, y)).backward()
        first, second = loss_of(each, x, y), loss_of(each, -x, y)
        first.backward(retain_graph=True)
        second.backward()
        first.backward()
    close([whole(p.grad) for p in model.parameters()], [p.grad for p in alone.parameters()])
    assert all(p.grad.dtype == torch.float64 for p in model.parameters())
    x = x.clone().requires_grad_()
    found = torch.autograd.grad(loss_of(model, x, y), x)
    close(found, torch.autograd.grad(loss_of(alone, x, y), x))
    assert all(isinstance(p, DTensor) for p in model.parameters())
    lstm = nn.LSTM(4, 5)
    expected = copy.deepcopy(lstm)
    fully_shard(lstm, mesh=mesh)
    for each in lstm, expected:
        each(torch.ones(3, 2, 4))[0].sum().backward()
    close([whole(p.grad) for p in lstm.parameters()], [p.grad for p in expected.parameters()])


def test_modules_are_converted_and_called_several_times(pools):
    pools(2).run(convert_and_reuse)


def group_modules():
    model, alone = make("mlp"), make("mlp")
    fully_shard([model[0], model[2]], mesh=line())
    fully_shard(model, mesh=line())
    assert len({id(each._get_fsdp_state()) for each in (model[0], model[2])}) == 1
    assert train(model, "mlp", **own()) == pytest.approx(train(alone, "mlp"), rel=1e-5)
    close(values(model), values(alone), 1e-4)


def test_modules_of_one_call_are_gathered_together(pools):
    pools(2).run(group_modules)
