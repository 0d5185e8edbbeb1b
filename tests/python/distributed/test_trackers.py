"""`ModTracker`, `MemTracker`, `contract`, and optimizers with names or within backward."""

import pickle

import pytest

import pytpu as torch
from pytpu import nn
from pytpu.distributed._composable import _get_registry, contract
from pytpu.distributed._composable_state import _State
from pytpu.distributed._tools import MemTracker, ModTracker
from pytpu.distributed.optim import _apply_optimizer_in_backward, _get_in_backward_optimizers, _NamedOptimizer
from pytpu.utils.checkpoint import checkpoint

DEVICES = pytest.mark.parametrize("device", ["cpu", "tpu"])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.seen = []

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


def test_a_tracker_knows_which_modules_run():
    model, tracker, seen = Net(), ModTracker(), []

    def note(what):
        return lambda *arguments: seen.append((what, tracker.is_bw, sorted(tracker.parents)))

    def in_layer(module, inputs):
        seen.append(("layer", tracker.is_bw, sorted(tracker.parents)))

    model.layers[1].register_forward_pre_hook(in_layer)
    tracker.register_user_hooks(note("pre_fw"), note("post_fw"), note("pre_bw"), note("post_bw"))
    with pytest.raises(AssertionError, match="Only one pre_bw_hook can be registered"):
        tracker.register_user_hooks(pre_bw_hook=print)
    with tracker:
        model(torch.ones(2, 4)).sum().backward()
    net, first, second = "Net", "Net.layers.0", "Net.layers.1"
    assert seen == [
        ("pre_fw", False, ["Global", net]),
        ("pre_fw", False, ["Global", net, first]),
        ("post_fw", False, ["Global", net, first]),
        ("pre_fw", False, ["Global", net, second]),
        ("layer", False, ["Global", net, second]),
        ("post_fw", False, ["Global", net, second]),
        ("post_fw", False, ["Global", net]),
        ("pre_bw", True, ["Global", net]),
        ("pre_bw", True, ["Global", net, second]),
        ("post_bw", True, ["Global", net, second]),
        ("pre_bw", True, ["Global", net, first]),
        # The inputs of the network need no gradients, so its backward ends with the pass.
        ("post_bw", True, ["Global", net, first]),
        ("post_bw", True, ["Global", net]),
    ]
    assert tracker.parents == {"Global"}
    assert tracker.get_known_fqn(model.layers[1]) == second
    assert tracker.get_known_fqn(nn.Linear(1, 1)) is None


def test_a_module_that_raises_does_not_stay():
    tracker = ModTracker()
    with tracker:
        with pytest.raises(RuntimeError):
            Net()(torch.ones(2, 3))
        assert tracker.parents == {"Global"}


@DEVICES
def test_memory_is_told_by_kinds_and_modules(device):
    model = nn.Sequential(*[nn.Linear(512, 512) for _ in range(4)]).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    weights = 4 * (512 * 512 + 512) * 4
    x = torch.ones(256, 512, device=device)
    tracker = MemTracker()
    tracker.track_external(model, optimizer, x)
    with tracker:
        at = next(device for device in tracker.get_tracker_snapshot() if device.type == x.device.type)
        before = tracker.get_tracker_snapshot()[at]
        y = torch.relu(model(x)).sum()
        forward = tracker.get_tracker_snapshot()[at]
        y.backward()
        backward = tracker.get_tracker_snapshot()[at]
        optimizer.step()
        after = tracker.get_tracker_snapshot()[at]
        peak = tracker.get_tracker_snapshot("peak")[at]
    kinds = {getattr(kind, "value", kind): kind for kind in after}
    assert set(kinds) == {"Parameter", "Buffer", "Gradient", "Activation", "Temp", "Optstate", "Other", "Total"}
    part = {name: [row[kind] for row in (before, forward, backward, after, peak)] for name, kind in kinds.items()}
    assert part["Parameter"] == [weights] * 5 and part["Buffer"] == [0] * 5
    assert part["Other"] == [256 * 512 * 4] * 5
    assert part["Gradient"][:4] == [0, 0, weights, weights]
    assert part["Optstate"][:3] == [0] * 3 and part["Optstate"][3] >= 2 * weights
    assert part["Activation"][1] >= 3 * 256 * 512 * 4
    assert part["Total"][4] >= max(part["Total"][:4])
    for row in (before, forward, backward, after, peak):
        assert row[kinds["Total"]] == sum(count for kind, count in row.items() if kind is not kinds["Total"])
    stats = {each.mod_fqn: each for each in tracker.memory_tracking.values()}
    assert stats.keys() == {"Sequential", *(f"Sequential.{i}" for i in range(4))}
    assert stats["Sequential"].parameter_mem == weights
    assert stats["Sequential.2"].parameter_mem == weights // 4
    assert stats["Sequential.2"].input_mem == stats["Sequential.2"].output_mem == 256 * 512 * 4
    names = [state.value for state in stats["Sequential.2"].snapshots]
    assert names == ["Peak-Forward", "Pre-Forward", "Post-Forward", "Peak-Backward", "Pre-Backward", "Post-Backward"]
    assert stats["Sequential"].local_peak[at] > 0


def test_memory_is_printed(capsys):
    tracker = MemTracker()
    with tracker:
        model = nn.Linear(256, 256)
        x = torch.ones(4, 256, requires_grad=True)
        checkpoint(model, x, use_reentrant=False).sum().backward()
        with pytest.raises(NotImplementedError, match="multiple iterative calls"):
            model(x)
    tracker.display_snapshot("peak", units="KiB")
    tracker.display_modulewise_snapshots(depth=1, units="MiB", tabulate=True)
    text = capsys.readouterr().out
    assert "Device: cpu" in text and "\tParameter: " in text and "KiB" in text
    assert "Module:  Linear" in text and "Pre-Forward-AC" in text
    with pytest.raises(ValueError, match="Unsupported unit: KB"):
        tracker.display_snapshot(units="KB")
    with pytest.raises(TypeError, match="is not supported for tracking"):
        tracker.track_external("model")


class State(_State):
    value = 1


def test_a_contract_keeps_a_state_and_the_names():
    @contract(State)
    def feature(module, by=0):
        feature.state(module if isinstance(module, nn.Module) else module[0]).value += by

    model = Net()
    assert feature(model, by=2) is model
    assert feature.state(model).value == 3 and isinstance(feature.state(model), State)
    assert feature.state(model.layers) is None and list(_get_registry(model)) == ["feature"]
    with pytest.raises(AssertionError, match="feature has already been applied"):
        feature(model)
    several = [nn.Linear(1, 1), nn.Linear(1, 1)]
    feature(several, by=1)
    assert feature.state(several[0]) is feature.state(several[1])

    @contract()
    def rename(module):
        module.other = module.weight
        del module.weight
        return module

    with pytest.raises(RuntimeError, match=r"Checking parameters: .*cannot modify FQNs"):
        rename(nn.Linear(2, 2))

    @contract()
    def wrap(module):
        return nn.Sequential(module)

    with pytest.raises(RuntimeError, match="FQNs only in new"):
        wrap(nn.Linear(2, 2))


@DEVICES
def test_optimizers_step_within_backward(device):
    torch.manual_seed(0)
    model, x = Net().to(device), torch.randn(3, 4, device=device)
    expected = pickle.loads(pickle.dumps(model.state_dict()))
    twin = Net().to(device)
    twin.load_state_dict(expected)
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.1, momentum=0.9)
    _apply_optimizer_in_backward(torch.optim.SGD, model.parameters(), {"lr": 0.1, "momentum": 0.9})
    for _ in range(3):
        model(x).sum().backward()
        assert all(p.grad is None for p in model.parameters())
        optimizer.zero_grad()
        twin(x).sum().backward()
        optimizer.step()
    for mine, theirs in zip(model.parameters(), twin.parameters()):
        assert torch.allclose(mine, theirs)
    found = _get_in_backward_optimizers(model)
    assert len(found) == 4 and all(isinstance(each, torch.optim.SGD) for each in found)
    assert model.layers[0].weight._optimizer_kwargs == [{"lr": 0.1, "momentum": 0.9}]


def test_an_optimizer_has_names_in_its_state():
    model = Net()
    optimizer = _NamedOptimizer(model.named_parameters(), torch.optim.Adam, lr=0.5)
    with pytest.raises(ValueError, match="Expects the optim to be initialized before load"):
        optimizer.load_state_dict({"state": {}, "param_groups": []})
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    state = optimizer.state_dict()
    assert (
        sorted(state["state"]) == sorted(state["param_groups"][0]["params"]) == sorted(dict(model.named_parameters()))
    )
    assert state["param_groups"][0]["lr"] == 0.5
    other = Net()
    optimizer = _NamedOptimizer(other.named_parameters(), torch.optim.Adam, lr=0.1)
    optimizer.init_state()
    optimizer.load_state_dict(state)
    assert optimizer.param_groups[0]["lr"] == 0.5
    moments = optimizer.state[other.layers[1].bias]["exp_avg"]
    assert torch.equal(moments, state["state"]["layers.1.bias"]["exp_avg"])
    state["state"]["layers.1.bias"].pop("exp_avg")
    with pytest.raises(ValueError, match="Expects equal length as 3 for parameter layers.1.bias but found: 2"):
        optimizer.load_state_dict(state)


def test_a_named_optimizer_takes_groups():
    model = Net()
    named = dict(model.named_parameters())
    first, second = model.layers
    with pytest.warns(UserWarning, match="we will use param_groups to initialize the optimizer"):
        optimizer = _NamedOptimizer(named, torch.optim.SGD, [{"params": first.weight, "lr": 0.1}], None, 0.5)
    optimizer.add_param_group({"params": [second.bias], "lr": 0.2})
    assert [group["params"] for group in optimizer.state_dict()["param_groups"]] == [
        ["layers.0.weight"],
        ["layers.1.bias"],
    ]
    with pytest.raises(ValueError, match="some parameters are not in the module"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1))]})
    with pytest.raises(AssertionError, match="param group must contain key params"):
        _NamedOptimizer(named, torch.optim.SGD, [{"lr": 0.1}], None, 0.5)
