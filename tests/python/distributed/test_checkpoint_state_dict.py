"""States of models and optimizers under the names of the plain model."""

import pytest

import pytpu as torch
import pytpu.distributed.checkpoint as dcp
from pytpu import nn
from pytpu.distributed import _state_dict_utils as tools
from pytpu.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from pytpu.distributed.checkpoint.state_dict import (
    StateDictOptions,
    _patch_model_state_dict,
    _patch_optimizer_state_dict,
    get_model_state_dict,
    get_optimizer_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
    set_state_dict,
)
from pytpu.distributed.fsdp import FullyShardedDataParallel

pytestmark = pytest.mark.filterwarnings(
    "ignore:torch.distributed is disabled", "ignore:Detected an existing checkpoint"
)

NAMES = ["first.weight", "first.bias", "norm.weight", "norm.bias", "last.weight", "last.bias"]


class Model(nn.Module):
    def __init__(self, device="cpu"):
        super().__init__()
        self.first = nn.Linear(3, 4, device=device)
        self.norm = nn.BatchNorm1d(4, device=device)
        self.last = nn.Linear(4, 2, device=device)

    def forward(self, x):
        return self.last(self.norm(self.first(x)))


def optimizer_of(model, kind=torch.optim.AdamW):
    groups = [{"params": list(model.first.parameters()), "lr": 0.2}]
    groups.append({"params": [*model.norm.parameters(), *model.last.parameters()]})
    return kind(groups, lr=0.1)


def train(model, optimizer, steps=2, device="cpu"):
    for i in range(steps):
        optimizer.zero_grad()
        model(torch.randn(5, 3, generator=torch.Generator().manual_seed(i)).to(device)).square().sum().backward()
        optimizer.step()
    optimizer.zero_grad()


def assert_same_states(a, b):
    for got, want in zip(a.values(), b.values()):
        assert torch.equal(got, want)
    assert list(a) == list(b)


def assert_same_optimizers(a, b):
    a, b = a.state_dict(), b.state_dict()
    assert a["param_groups"] == b["param_groups"] and a["state"].keys() == b["state"].keys()
    for key in a["state"]:
        assert_same_states(a["state"][key], b["state"][key])


def compiled(model):
    return torch.compile(model)


def wrapped(model):
    model.last = checkpoint_wrapper(model.last)
    return model


class Parallel(nn.parallel.DistributedDataParallel):
    """A wrapper with the names of `DistributedDataParallel` that needs no process group."""

    def __init__(self, module):
        nn.Module.__init__(self)
        self.module = module


class Sharded(FullyShardedDataParallel):
    """A wrapper with the names of `FullyShardedDataParallel` that needs no process group."""

    def __init__(self, module):
        nn.Module.__init__(self)
        self._fsdp_wrapped_module = module


def sharded(model):
    model.first = Sharded(model.first)
    return Sharded(model)


@pytest.mark.parametrize("wrap", [lambda model: model, compiled, wrapped, Parallel, sharded])
@pytest.mark.parametrize(
    "options",
    [
        StateDictOptions(),
        StateDictOptions(flatten_optimizer_state_dict=True),
        StateDictOptions(full_state_dict=True),
        StateDictOptions(full_state_dict=True, cpu_offload=True),
        StateDictOptions(cpu_offload=True),
    ],
)
def test_states_go_from_a_plain_model_to_a_wrapped_one_and_back(device, wrap, options):
    plain = Model(device)
    optimizer = optimizer_of(plain)
    train(plain, optimizer, device=device)
    state, of_optimizer = get_state_dict(plain, optimizer, options=options)
    assert list(state) == list(plain.state_dict())
    if options.cpu_offload:
        assert {value.device.type for value in state.values()} == {"cpu"}
    other = Model(device)
    other_optimizer = optimizer_of(other)
    other = wrap(other)
    result = set_state_dict(
        other, other_optimizer, model_state_dict=state, optim_state_dict=of_optimizer, options=options
    )
    assert result.missing_keys == [] and result.unexpected_keys == []
    assert_same_optimizers(other_optimizer, optimizer)
    got, of_other = get_state_dict(other, other_optimizer, options=options)
    assert sorted(got) == sorted(state) and all(torch.equal(got[name], state[name]) for name in got)
    assert of_other.keys() == of_optimizer.keys()


def test_a_module_may_leave_attributes_out_of_names():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(2, 2)

        def _fqn_modifiers(self):
            return {"weight": "inner", "bias": "inner"}

    model = nn.Sequential(Outer())
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.9)
    state, of_optimizer = get_state_dict(model, optimizer)
    assert sorted(state) == sorted(of_optimizer["state"]) == ["0.bias", "0.weight"]
    set_model_state_dict(model, {"0.weight": torch.full((2, 2), 3.0), "0.bias": torch.zeros(2)})
    assert model[0].inner.weight.eq(3).all()
    result = set_model_state_dict(
        model,
        {"0.inner.weight": torch.ones(2, 2), "0.inner.bias": torch.zeros(2)},
        options=StateDictOptions(dsd_fqn_modifiers="none"),
    )
    assert result.missing_keys == [] and model[0].inner.weight.eq(1).all()


def test_a_module_is_not_named_as_extra_state():
    model = nn.Sequential()
    model.add_module("_extra_state", nn.Linear(1, 1))
    with pytest.raises(RuntimeError, match="Expect `_extra_state` to be the last obj name"):
        get_model_state_dict(model)


def test_states_of_optimizers_name_parameters():
    model = Model()
    optimizer = optimizer_of(model)
    state = get_optimizer_state_dict(model, optimizer)
    assert [group["params"] for group in state["param_groups"]] == [NAMES[:2], NAMES[2:]]
    assert [group["lr"] for group in state["param_groups"]] == [0.2, 0.1]
    assert sorted(state["state"]) == sorted(NAMES) and sorted(state["state"]["norm.bias"]) == [
        "exp_avg",
        "exp_avg_sq",
        "step",
    ]
    flat = get_optimizer_state_dict(model, optimizer, options=StateDictOptions(flatten_optimizer_state_dict=True))
    assert flat["param_groups.last.bias.lr"] == 0.1 and flat["state.last.bias.exp_avg"].shape == (2,)


def test_making_the_state_of_an_optimizer_changes_no_parameter():
    model = Model()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    optimizer = optimizer_of(model)
    get_optimizer_state_dict(model, optimizer)
    assert_same_states(model.state_dict(), before)
    assert [group["lr"] for group in optimizer.param_groups] == [0.2, 0.1]
    assert all(p.grad is None for p in model.parameters())


def test_groups_may_have_another_order():
    model = Model()
    optimizer = optimizer_of(model)
    train(model, optimizer)
    state = get_optimizer_state_dict(model, optimizer)
    other = Model()
    groups = [{"params": [*other.last.parameters(), *other.norm.parameters()]}, {"params": other.first.parameters()}]
    reordered = torch.optim.AdamW(groups, lr=1.0)
    set_optimizer_state_dict(other, reordered, state)
    assert [group["lr"] for group in reordered.param_groups] == [0.1, 0.2]
    assert torch.equal(reordered.state[other.first.weight]["exp_avg"], optimizer.state[model.first.weight]["exp_avg"])


def test_several_optimizers_share_one_state():
    def make():
        model = Model()
        head = torch.optim.SGD(model.last.parameters(), lr=0.3, momentum=0.9)
        body = torch.optim.Adam([*model.first.parameters(), *model.norm.parameters()])
        return model, (head, body)

    model, optimizers = make()
    model(torch.randn(5, 3)).sum().backward()
    for optimizer in optimizers:
        optimizer.step()
    for is_flat in (False, True):
        options = StateDictOptions(flatten_optimizer_state_dict=is_flat)
        state = get_optimizer_state_dict(model, optimizers, options=options)
        other, others = make()
        set_optimizer_state_dict(other, others, state, options=options)
        for got, want in zip(others, optimizers):
            assert_same_optimizers(got, want)


def test_frozen_parameters_may_be_left_out():
    model = Model()
    model.first.weight.requires_grad_(False)
    options = StateDictOptions(ignore_frozen_params=True, strict=False)
    state = get_model_state_dict(model, options=options)
    assert "first.weight" not in state and "first.bias" in state
    result = set_model_state_dict(Model(), state, options=options)
    assert result.missing_keys == ["first.weight"]
    with pytest.raises(RuntimeError, match="Missing key"):
        set_model_state_dict(Model(), state)


def test_missing_states_are_errors():
    model = Model()
    optimizer = optimizer_of(model)
    state = get_optimizer_state_dict(model, optimizer)
    del state["state"]["last.bias"]
    with pytest.raises(RuntimeError, match="Missing optimizer state for parameter 'last.bias' in checkpoint"):
        set_optimizer_state_dict(model, optimizer, state)
    set_optimizer_state_dict(model, optimizer, state, options=StateDictOptions(strict=False))
    assert optimizer.state[model.last.bias] == {}
    with pytest.raises(RuntimeError, match="optim state_dict is empty"):
        set_optimizer_state_dict(model, optimizer, {})
    with pytest.raises(RuntimeError, match="model state_dict is empty"):
        get_model_state_dict(nn.ReLU())
    with pytest.raises(RuntimeError, match="Optimizers are not passed in"):
        get_optimizer_state_dict(model, [])
    with pytest.raises(ValueError, match="full_state_dict must be True when broadcast_from_rank0 is True"):
        get_model_state_dict(model, options=StateDictOptions(broadcast_from_rank0=True))
    with pytest.raises(RuntimeError, match="of the optimizer are not parameters of the model"):
        get_optimizer_state_dict(Model(), optimizer)
    with pytest.raises(RuntimeError, match="Missing key: first.weight"):
        set_model_state_dict(compiled(Model()), {"first.bias": torch.zeros(4)})


def test_shared_parameters_have_one_state():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(3, 3, bias=False)
            self.b = nn.Linear(3, 3, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    model = Tied()
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    for is_flat in (False, True):
        options = StateDictOptions(flatten_optimizer_state_dict=is_flat)
        state, of_optimizer = get_state_dict(model, optimizer, options=options)
        assert list(state) == ["a.weight", "b.weight"]
        other = Tied()
        other_optimizer = torch.optim.Adam(other.parameters())
        set_state_dict(other, other_optimizer, model_state_dict=state, optim_state_dict=of_optimizer, options=options)
        assert_same_optimizers(other_optimizer, optimizer)
        assert other.a.weight is other.b.weight and torch.equal(other.a.weight, model.a.weight)


def test_buffers_that_are_not_saved_and_extra_states():
    class Extra(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("kept", torch.ones(2))
            self.register_buffer("scratch", torch.ones(2), persistent=False)
            self.extra = 3

        def get_extra_state(self):
            return {"extra": self.extra}

        def set_extra_state(self, state):
            self.extra = state["extra"]

    model = nn.Sequential(Extra())
    state = get_model_state_dict(model)
    assert list(state) == ["0.kept", "0._extra_state"]
    other = nn.Sequential(Extra())
    other[0].extra = 0
    set_model_state_dict(compiled(other), state)
    assert other[0].extra == 3


def test_models_on_device_meta_get_whole_tensors():
    source = Model()
    model = Model("meta")
    set_model_state_dict(model, get_model_state_dict(source), options=StateDictOptions(full_state_dict=True))
    assert_same_states(model.state_dict(), source.state_dict())


def test_parts_of_a_model_by_the_deprecated_arguments():
    model = Model()
    with pytest.warns(FutureWarning, match="Getting submodules only"):
        state = get_model_state_dict(model, submodules={model.last})
    assert list(state) == ["last.weight", "last.bias"]
    options = StateDictOptions(keep_submodule_prefixes=False)
    with pytest.warns(FutureWarning):
        state = get_model_state_dict(model, submodules={model.last}, options=options)
    assert list(state) == ["weight", "bias"]
    other = Model()
    with pytest.warns(FutureWarning, match="Passing model_state_dict as a"):
        set_model_state_dict(other, {other.last: state}, options=StateDictOptions(strict=False))
    assert torch.equal(other.last.weight, model.last.weight)


def test_methods_may_be_replaced():
    model = Model()
    optimizer = optimizer_of(model)
    train(model, optimizer)
    _patch_model_state_dict(model)
    _patch_optimizer_state_dict(model, optimizers=optimizer)
    assert list(model.state_dict())[:2] == NAMES[:2] and "first.bias" in optimizer.state_dict()["state"]
    other = Model()
    _patch_model_state_dict(other)
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.first.weight, model.first.weight)
    optimizer.load_state_dict(optimizer.state_dict())


def test_methods_of_a_compiled_model_may_be_replaced():
    model = torch.compile(Model())
    _patch_model_state_dict(model)
    assert list(model.state_dict()) == list(Model().state_dict())
    other = torch.compile(Model())
    _patch_model_state_dict(other)
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.first.weight, model.first.weight)


@pytest.mark.parametrize("is_flat", [False, True])
def test_training_goes_on_from_a_checkpoint_of_states(tmp_path, device, is_flat):
    options = StateDictOptions(flatten_optimizer_state_dict=is_flat)
    model = Model(device)
    optimizer = optimizer_of(model)
    train(model, optimizer, device=device)
    names = ("model", "optim")
    state = dict(zip(names, get_state_dict(model, optimizer, options=options)))
    dcp.save(state, checkpoint_id=tmp_path, no_dist=True)
    train(model, optimizer, device=device)
    other = Model(device)
    other_optimizer = optimizer_of(other)
    other = compiled(other)
    state = dict(zip(names, get_state_dict(other, other_optimizer, options=options)))
    dcp.load(state, checkpoint_id=tmp_path, no_dist=True)
    set_state_dict(
        other, other_optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"], options=options
    )
    train(other, other_optimizer, device=device)
    assert_same_states(get_model_state_dict(other), model.state_dict())


def test_copies_of_state_dicts_on_the_host():
    state = {"a": torch.ones(2, device="tpu"), "b": [torch.zeros(1), 3], "c": {"d": "x"}}
    host = tools._create_cpu_state_dict(state)
    copied = tools._copy_state_dict(state, host)
    assert copied["a"].device.type == "cpu" and copied["a"].tolist() == [1, 1] and copied["b"][1] == 3
    assert host["a"] is copied["a"] and copied["c"] == {"d": "x"}
    with pytest.raises(ValueError, match="the state dicts have different keys"):
        tools._copy_state_dict({"a": state["a"]}, host)
    with pytest.raises(ValueError, match="Unexpected value type <class 'object'>"):
        tools._offload_state_dict_to_cpu({"x": object()})
    flat, paths = tools._flatten_state_dict({"a": {"b": [1, (2,)]}})
    assert flat == {"a.b.0": 1, "a.b.1.0": 2}
    assert tools._unflatten_state_dict(flat, paths) == {"a": {"b": [1, [2]]}}
    with pytest.raises(ValueError, match="duplicated flatten key a.b"):
        tools._flatten_state_dict({"a": {"b": 1}, "a.b": 2})
