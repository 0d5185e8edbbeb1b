"""The wrapper class around modules with sharded parameters, compared with the plain module."""

import functools

import pytest
from fsdp_models import Block, batch, loss_of, make, train, values

import pytpu as torch
import pytpu.distributed as dist
import pytpu.distributed.checkpoint as dcp
from pytpu import nn
from pytpu.distributed import init_device_mesh
from pytpu.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointWrapper,
    apply_activation_checkpointing,
)
from pytpu.distributed.algorithms._comm_hooks import LOW_PRECISION_HOOKS, default_hooks
from pytpu.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from pytpu.distributed.fsdp import (
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    FullyShardedDataParallel as FSDP,
    MixedPrecision,
    OptimStateKeyType,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictType,
)
from pytpu.distributed.fsdp._init_utils import _init_inter_node_process_group, _init_intra_node_process_group
from pytpu.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from pytpu.distributed.fsdp.wrap import (
    CustomPolicy,
    ModuleWrapPolicy,
    always_wrap_policy,
    enable_wrap,
    lambda_auto_wrap_policy,
    size_based_auto_wrap_policy,
    transformer_auto_wrap_policy,
    wrap,
)
from pytpu.distributed.tensor import DTensor, Replicate, Shard

BLOCKS = ModuleWrapPolicy({Block})


def own():
    return {"rank": dist.get_rank(), "ranks": dist.get_world_size()}


def close(a, b, tolerance=1e-5):
    for x, y in zip(a, b, strict=True):
        torch.testing.assert_close(x, y, rtol=tolerance, atol=tolerance)


def is_block(module):
    return isinstance(module, Block)


#: Arguments, and the number of wrappers in the result.
OPTIONS = {
    "all": ({}, 1),
    "classes": ({"auto_wrap_policy": BLOCKS}, 3),
    "layers": ({"auto_wrap_policy": functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Block})}, 3),
    "size": ({"auto_wrap_policy": functools.partial(size_based_auto_wrap_policy, min_num_params=300)}, 3),
    "lambda": ({"auto_wrap_policy": functools.partial(lambda_auto_wrap_policy, lambda_fn=is_block)}, 3),
    "custom": ({"auto_wrap_policy": CustomPolicy(lambda m: {"forward_prefetch": True} if is_block(m) else False)}, 3),
    "gradients": ({"sharding_strategy": ShardingStrategy.SHARD_GRAD_OP, "auto_wrap_policy": BLOCKS}, 3),
    "nothing": ({"sharding_strategy": ShardingStrategy.NO_SHARD, "auto_wrap_policy": BLOCKS}, 3),
    "hybrid": ({"sharding_strategy": ShardingStrategy.HYBRID_SHARD, "sync_module_states": True}, 1),
    "offload": ({"cpu_offload": CPUOffload(True), "use_orig_params": True}, 1),
}


def train_wrapped(name, device):
    arguments, count = OPTIONS[name]
    alone, model = make(device=device, block=Block), FSDP(make(device=device, block=Block), **arguments)
    assert len(FSDP.fsdp_modules(model)) == count and FSDP.fsdp_modules(model, root_only=True) == [model]
    assert train(model, device=device, **own()) == pytest.approx(train(alone, device=device), rel=1e-5)
    assert list(model.state_dict()) == list(alone.state_dict())
    close([x.cpu() for x in model.state_dict().values()], [x.cpu() for x in alone.state_dict().values()], 1e-4)
    assert all(isinstance(p, DTensor) for p in model.parameters())
    return model.check_is_root()


@pytest.mark.parametrize("name", OPTIONS)
def test_training_is_that_of_one_process(pools, name):
    assert pools(2).run(train_wrapped, name, "cpu") == [True, True]


@pytest.mark.parametrize("name", ["classes", "offload"])
def test_training_on_a_device_is_that_of_one_process(pools, name):
    assert pools(2).run(train_wrapped, name, "tpu") == [True, True]


def train_with_hook(name, device):
    strategy, calls = ShardingStrategy[name], []
    is_whole = strategy is ShardingStrategy.NO_SHARD
    model = FSDP(make("mlp", device), sharding_strategy=strategy)

    def reduce(state, *tensors):
        calls.append(len(tensors))
        (default_hooks.allreduce_hook if is_whole else default_hooks.reduce_scatter_hook)(state, *tensors)

    model.register_comm_hook(default_hooks.DefaultState(), reduce)
    expected = train(make("mlp", device), "mlp", device, 2)
    assert train(model, "mlp", device, 2, **own()) == pytest.approx(expected, rel=1e-5)
    assert set(calls) == {1 if is_whole else 2}
    with pytest.raises(AssertionError, match="already registered"):
        model.register_comm_hook(None, reduce)


@pytest.mark.parametrize("name, device", [("FULL_SHARD", "cpu"), ("NO_SHARD", "cpu"), ("FULL_SHARD", "tpu")])
def test_functions_of_the_user_reduce_gradients(pools, name, device):
    pools(2).run(train_with_hook, name, device)


def reduce_otherwise():
    # The engine does not reduce again.
    model = FSDP(make("mlp"), auto_wrap_policy=always_wrap_policy)
    model.register_comm_hook(None, lambda state, gradients, part: part.zero_())
    loss_of(model, *batch("mlp", 0)).backward()
    assert all(not p.grad.to_local().any() for p in model.parameters())
    plain = make("mlp")
    loss_of(plain, *batch("mlp", 0)).backward()
    for hook in LOW_PRECISION_HOOKS:
        for strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.NO_SHARD):
            model = FSDP(make("mlp"), sharding_strategy=strategy)
            model.register_comm_hook(default_hooks.LowPrecisionState(), hook)
            loss_of(model, *batch("mlp", 0)).backward()
            close([p.grad.full_tensor() for p in model.parameters()], [p.grad for p in plain.parameters()], 1e-2)


def test_functions_may_reduce_in_16_bits(pools):
    pools(2).run(reduce_otherwise)


def refuse_hooks():
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    hybrid = FSDP(make("mlp"), sharding_strategy=ShardingStrategy.HYBRID_SHARD, device_mesh=mesh)
    with pytest.raises(AssertionError, match="not supported for hybrid sharding strategies"):
        hybrid.register_comm_hook(None, print)
    model = FSDP(make("mlp"), auto_wrap_policy=always_wrap_policy)
    with pytest.raises(ValueError, match="must be callable"):
        model.register_comm_hook(None, "sum")
    model.check_is_root()
    with pytest.raises(AssertionError, match="can only be called on a root instance"):
        FSDP.fsdp_modules(model)[1].register_comm_hook(None, print)


def test_functions_that_cannot_reduce_gradients_are_refused(pools):
    pools(4).run(refuse_hooks)


def train_with_groups():
    world = dist.group.WORLD
    pair = _init_intra_node_process_group(2), _init_inter_node_process_group(world, 2)
    assert [dist.get_process_group_ranks(group) for group in pair] == [
        [dist.get_rank() // 2 * 2, dist.get_rank() // 2 * 2 + 1],
        [dist.get_rank() % 2, dist.get_rank() % 2 + 2],
    ]
    alone = make("mlp")
    for groups in pair, world:
        strategy = ShardingStrategy.HYBRID_SHARD if groups is pair else ShardingStrategy.FULL_SHARD
        model = FSDP(make("mlp"), groups, strategy)
        assert model.module[0].weight.placements == ((Replicate(), Shard(0)) if groups is pair else (Shard(0),))
        train(model, "mlp", steps=2, **own())
        if groups is pair:
            train(alone, "mlp", steps=2)
        close(values(model), values(alone), 1e-4)
    with pytest.raises(ValueError, match="Expected process_group to be passed in as either None or Tuple"):
        FSDP(nn.Linear(2, 2), world, ShardingStrategy.HYBRID_SHARD)


def test_groups_take_the_place_of_a_mesh(pools):
    pools(4).run(train_with_groups)


def save_and_load():
    model = FSDP(make(block=Block), auto_wrap_policy=BLOCKS)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    train(model, steps=2, optimizer=optimizer, **own())
    full = model.state_dict()
    with FSDP.state_dict_type(model, StateDictType.SHARDED_STATE_DICT, ShardedStateDictConfig(offload_to_cpu=True)):
        # The values share the memory of the parameters.
        sharded = {name: value.clone() for name, value in model.state_dict().items()}
        of_optimizer = FSDP.optim_state_dict(model, optimizer)
        assert isinstance(of_optimizer["state"]["layers.0.up.weight"]["exp_avg"], DTensor)
    assert list(full) == list(sharded) and all(isinstance(x, DTensor) for x in sharded.values())
    close([x.full_tensor() for x in sharded.values()], list(full.values()), 0)
    configs = FullStateDictConfig(rank0_only=True, offload_to_cpu=True), FullOptimStateDictConfig(rank0_only=True)
    with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, *configs):
        of_first, optimizer_of_first = model.state_dict(), FSDP.optim_state_dict(model, optimizer)
    assert bool(of_first) == bool(optimizer_of_first) == (dist.get_rank() == 0)
    full_optimizer = FSDP.full_optim_state_dict(model, optimizer, rank0_only=False)
    assert full_optimizer["state"]["layers.0.up.weight"]["exp_avg"].shape == (32, 8)
    expected = train(model, steps=2, optimizer=optimizer, **own())

    def resume(state, load):
        again = FSDP(make(block=Block), auto_wrap_policy=BLOCKS)
        FSDP.set_state_dict_type(again, StateDictType.FULL_STATE_DICT, *configs)
        fresh = torch.optim.AdamW(again.parameters(), lr=0.5)
        again.load_state_dict(state)
        fresh.load_state_dict(load(again, fresh))
        assert train(again, steps=2, optimizer=fresh, **own()) == expected

    resume(full, lambda m, o: FSDP.optim_state_dict_to_load(m, o, optimizer_of_first))
    resume(full, lambda m, o: FSDP.shard_full_optim_state_dict(full_optimizer, m, optim=o))
    resume(full, lambda m, o: FSDP.scatter_full_optim_state_dict(optimizer_of_first or None, m, optim=o))
    resume(sharded, lambda m, o: FSDP.flatten_sharded_optim_state_dict(of_optimizer, m, o))
    plain = make(block=Block)
    plain.load_state_dict(full)
    alone = torch.optim.AdamW(plain.parameters(), lr=0.5)
    numbered = FSDP.rekey_optim_state_dict(full_optimizer, OptimStateKeyType.PARAM_ID, plain, optim=alone)
    alone.load_state_dict(numbered)
    close(train(plain, steps=2, optimizer=alone), expected, 1e-5)


def test_states_are_saved_and_loaded(pools):
    pools(2).run(save_and_load)


def summon():
    model, alone = FSDP(make(block=Block), auto_wrap_policy=BLOCKS), make(block=Block)
    names = [name for name, _ in alone.named_parameters()]
    assert [name for name, _ in model.named_parameters()] != names
    with FSDP.summon_full_params(model):
        assert [name for name, _ in model.named_parameters()] == names
        close([p.detach() for p in model.parameters()], [p.detach() for p in alone.parameters()], 0)
        with torch.no_grad():
            model.embedding.weight.fill_(2.0)
    assert (model.state_dict()["embedding.weight"] == 2).all()
    with FSDP.summon_full_params(model, writeback=False), torch.no_grad():
        model.embedding.weight.zero_()
    assert (model.state_dict()["embedding.weight"] == 2).all()
    with FSDP.summon_full_params(model, writeback=False, rank0_only=True, offload_to_cpu=True):
        assert isinstance(model.embedding.weight, DTensor) == (dist.get_rank() > 0)
    with pytest.raises(NotImplementedError, match="writeback=True and rank0_only=True"):
        with FSDP.summon_full_params(model, rank0_only=True):
            pass
    rank, ranks = own().values()
    loss_of(model, *(x.chunk(ranks)[rank] for x in batch("gpt", 0))).backward()
    alone.load_state_dict(model.state_dict())
    loss_of(alone, *batch("gpt", 0)).backward()
    with FSDP.summon_full_params(model, with_grads=True):
        close([p.grad for p in model.parameters()], [p.grad for p in alone.parameters()])
    norm = model.clip_grad_norm_(0.1)
    expected = nn.utils.clip_grad_norm_(alone.parameters(), 0.1)
    close([norm], [expected])
    close([p.grad.full_tensor() for p in model.parameters()], [p.grad for p in alone.parameters()])


def test_whole_parameters_are_shown_and_written(pools):
    pools(2).run(summon)


def skip_synchronisation():
    model, alone = FSDP(make(block=Block), auto_wrap_policy=BLOCKS), make(block=Block)
    rank, ranks = own().values()
    x, y = batch("gpt", 0)
    part = x.chunk(ranks)[rank], y.chunk(ranks)[rank]
    with model.no_sync():
        loss_of(model, *part).backward()
    assert all(p.grad is None for p in model.parameters())
    loss_of(model, *part).backward()
    (2 * loss_of(alone, x, y)).backward()
    close([p.grad.full_tensor() for p in model.parameters()], [p.grad for p in alone.parameters()])


def test_gradients_accumulate_without_synchronisation(pools):
    pools(2).run(skip_synchronisation)


class Checked(nn.Linear):
    def forward(self, x):
        assert x.dtype == self.weight.dtype == torch.bfloat16
        return super().forward(x)


def mix():
    policy = MixedPrecision(torch.bfloat16, buffer_dtype=torch.bfloat16)
    model = FSDP(
        nn.Sequential(Checked(4, 4), Checked(4, 2)), auto_wrap_policy=always_wrap_policy, mixed_precision=policy
    )
    model(torch.randn(3, 4)).float().sum().backward()
    assert {p.dtype for p in model.parameters()} == {p.grad.dtype for p in model.parameters()} == {torch.float32}
    with torch.no_grad():
        norm = FSDP(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), auto_wrap_policy=BLOCKS, mixed_precision=policy)
    assert isinstance(norm.module[1], FSDP) and norm.module[1].mixed_precision.param_dtype is None


def test_mixed_precision_leaves_sharded_parameters(pools):
    pools(2).run(mix)


def wrap_by_hand():
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    with enable_wrap(wrapper_cls=FSDP, device_mesh=mesh):
        layer = wrap(nn.Linear(4, 4))
        with pytest.raises(NotImplementedError, match="nested autowrap"):
            with enable_wrap(wrapper_cls=FSDP):
                pass
    assert isinstance(layer, FSDP) and type(wrap(nn.Linear(2, 2))) is nn.Linear
    model = FSDP(make(block=Block), auto_wrap_policy=BLOCKS, device_mesh=mesh)
    apply_activation_checkpointing(model, check_fn=is_block)
    assert sum(isinstance(each, CheckpointWrapper) for each in model.modules()) == 2
    alone = make(block=Block)
    assert train(model, **own()) == pytest.approx(train(alone), rel=1e-5)
    close(list(model.state_dict().values()), list(alone.state_dict().values()), 1e-4)
    with torch.device("meta"):
        empty = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
    kept = nn.Linear(2, 2)
    whole = FSDP(nn.Sequential(empty, kept), ignored_states=[kept], device_id=torch.device("cpu"))
    assert type(kept.weight) is nn.Parameter and isinstance(empty[0].weight, DTensor)
    assert empty[0].weight.device.type == "cpu"
    whole(torch.ones(1, 3)).sum().backward()
    with pytest.raises(ValueError, match="Cannot pass both process_group and device_mesh"):
        FSDP(nn.Linear(2, 2), process_group=dist.group.WORLD, device_mesh=mesh)
    with pytest.raises(RuntimeError, match="Expected state_dict_config of type"):
        FSDP.set_state_dict_type(model, StateDictType.FULL_STATE_DICT, ShardedStateDictConfig())
    with pytest.raises(NotImplementedError, match="LOCAL_STATE_DICT"):
        FSDP.set_state_dict_type(model, StateDictType.LOCAL_STATE_DICT)
    with pytest.raises(RuntimeError, match="should only be called on the root FSDP instance"):
        FSDP.fsdp_modules(model)[1].clip_grad_norm_(1.0)
    return len(values(model))


def test_modules_are_wrapped_by_hand(pools):
    pools(2).run(wrap_by_hand)


def scale(device):
    model = FSDP(make("mlp", device), device_mesh=init_device_mesh(device, (dist.get_world_size(),)))
    scaler, plain = ShardedGradScaler(device, init_scale=8.0), nn.Linear(2, 1, device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rank, ranks = own().values()
    x, y = (each.chunk(ranks)[rank].to(device) for each in batch("mlp", 0))
    before = values(model)
    scaler.scale(loss_of(model, x * float("inf") if rank == 1 else x, y)).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 4 and all(torch.equal(a, b) for a, b in zip(before, values(model)))
    optimizer.zero_grad()
    scaler.scale(loss_of(model, x, y)).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 4 and not torch.equal(before[0], values(model)[0])
    # Gradients that are not sharded.
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
    weight = plain.weight.detach().clone()
    x = torch.full((1, 2), float("inf") if rank == 1 else 1.0, device=device)
    scaler.scale(plain(x).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2 and torch.equal(plain.weight, weight)
    # One optimizer of both kinds, and the scaler that knows nothing of processes.
    optimizer = torch.optim.SGD([*model.parameters(), *plain.parameters()], lr=0.1)
    scaler = torch.amp.GradScaler(device, init_scale=8.0)
    for parameter in [*model.parameters(), *plain.parameters()]:
        parameter.grad = torch.full_like(parameter.detach(), 8.0)
    scaler.scale(torch.ones((), device=device))
    scaler.unscale_(optimizer)
    assert (plain.weight.grad == 1).all() and (next(model.parameters()).grad.full_tensor() == 1).all()
    # Gradients on the host, of a mesh of the device.
    model = FSDP(nn.Linear(2, 2), device_id=torch.device(device), cpu_offload=CPUOffload(offload_params=True))
    scaler.update()
    scaler.scale(model(torch.ones(2, 2, device=device)).sum()).backward()
    scaler.unscale_(torch.optim.SGD(model.parameters()))
    assert model.module.weight.grad.device.type == "cpu"
    assert (model.module.weight.grad.full_tensor() == 2).all()


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_all_ranks_leave_out_a_step_with_an_infinite_gradient(pools, device):
    pools(2).run(scale, device)


def save_files(folder):
    model = FSDP(make(block=Block), auto_wrap_policy=BLOCKS)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    train(model, steps=2, optimizer=optimizer, **own())
    of_model, of_optimizer = get_state_dict(model, optimizer)
    assert list(of_model) == list(make(block=Block).state_dict())
    assert all(isinstance(value, DTensor) for value in of_model.values())
    dcp.save({"model": of_model, "optimizer": of_optimizer}, checkpoint_id=folder)
    full = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    assert bool(full) == (dist.get_rank() == 0)
    return train(model, steps=2, optimizer=optimizer, **own())


def load_files(folder):
    model = FSDP(make(block=Block), auto_wrap_policy=BLOCKS)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.5)
    of_model, of_optimizer = get_state_dict(model, optimizer)
    state = {"model": of_model, "optimizer": of_optimizer}
    dcp.load(state, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    return train(model, steps=2, optimizer=optimizer, **own())


def test_a_checkpoint_is_loaded_by_another_number_of_ranks(pools, tmp_path):
    expected = pools(2).run(save_files, str(tmp_path))[0]
    assert pools(4).run(load_files, str(tmp_path))[0] == pytest.approx(expected, rel=1e-5)


def load_files_of_optimizer(folder):
    model = FSDP(make(block=Block), auto_wrap_policy=BLOCKS)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.5)
    with FSDP.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
        state = {"model": model.state_dict()}
        dcp.load(state, checkpoint_id=folder)
        model.load_state_dict(state["model"])
        reader = dcp.FileSystemReader(folder)
        found = dcp.load_sharded_optimizer_state_dict(state["model"], "optimizer", reader)
        moment = found["optimizer"]["state"]["layers.0.up.weight"]["exp_avg"]
        assert list(found) == ["optimizer"] and moment.placements == (Shard(0),)
        assert not isinstance(found["optimizer"]["state"]["layers.0.up.weight"]["step"], DTensor)
        optimizer.load_state_dict(FSDP.optim_state_dict_to_load(model, optimizer, found["optimizer"]))
    if dist.get_rank() == 0:
        reader = dcp.FileSystemReader(folder + "/absent")
    with pytest.raises(dcp.CheckpointException):
        dcp.load_sharded_optimizer_state_dict(state["model"], "optimizer", reader)
    return train(model, steps=2, optimizer=optimizer, **own())


def test_the_state_of_an_optimizer_is_read_as_the_parameters_are_sharded(pools, tmp_path):
    expected = pools(2).run(save_files, str(tmp_path))[0]
    assert pools(4).run(load_files_of_optimizer, str(tmp_path))[0] == pytest.approx(expected, rel=1e-5)
