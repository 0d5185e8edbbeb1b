"""`torch.func.functional_call` and `stack_module_state`."""

import re

import pytest

import pytpu as torch
from pytpu import nn


def test_a_module_is_a_function_of_its_parameters(device):
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).to(device)
    weight = torch.ones(2, 2, device=device, requires_grad=True)
    mean = torch.zeros(2, device=device)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    x = torch.tensor([[1.0, 2.0], [3.0, 5.0]], device=device)
    y = torch.func.functional_call(model, ({"0.weight": weight}, {"1.running_mean": mean}), x)
    (y * y * torch.tensor([1.0, 3.0], device=device)).sum().backward()
    assert weight.grad is not None and model[0].weight.grad is None
    assert mean.tolist() != [0.0, 0.0]
    for name, value in model.state_dict().items():
        same = torch.equal(value, before[name])
        assert same == (name not in ("1.running_var", "1.num_batches_tracked")), name


def test_functional_call_ties_and_checks_names():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(2, 2, bias=False)
            self.b = nn.Linear(2, 2, bias=False)
            self.b.weight = self.a.weight
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x, scale=1):
            self.calls = self.calls + 1
            return self.b(self.a(x)) * scale

    model, call = Tied(), torch.func.functional_call
    x, two = torch.ones(1, 2), torch.eye(2) * 2
    own = model.a.weight
    given = {"a.weight": two, "calls": torch.tensor(5.0)}
    assert call(model, given, (x,), {"scale": 3}).tolist() == [[12.0, 12.0]]
    assert given["calls"].item() == 6 and model.calls.item() == 0
    assert model.a.weight is own and model.b.weight is own
    untied = call(model, {"a.weight": two}, x, tie_weights=False)
    assert torch.equal(untied, torch.nn.functional.linear(x * 2, own))
    with pytest.raises(ValueError, match="which are tied"):
        call(model, {"a.weight": two, "b.weight": two + 1}, x)
    with pytest.raises(RuntimeError, match=r"reparametrizing for Tied:\n\tUnexpected key\(s\): 'c'"):
        call(model, {"a.weight": two, "c": two}, x, strict=True)
    with pytest.raises(RuntimeError, match=r"Missing key\(s\): 'bias'"):
        call(nn.Linear(2, 2), {"weight": two}, x, strict=True)
    with pytest.raises(ValueError, match="appeared in multiple dictionaries"):
        call(model, ({"a.weight": two}, {"a.weight": two}), x)
    with pytest.raises(TypeError):
        call(model, {"a.weight": two}, x, {"unknown": 1})
    assert model.a.weight is own
    with pytest.warns(FutureWarning, match="is deprecated as of PyTorch 2.0"):
        from pytpu.nn.utils.stateless import functional_call

        assert functional_call(model, {"a.weight": two}, x).tolist() == [[4.0, 4.0]]


def test_functional_call_replaces_any_named_attribute():
    call, x, ones = torch.func.functional_call, torch.ones(1, 2), torch.ones(2, 2)
    bare = nn.Linear(2, 2, bias=False)
    assert call(bare, {"weight": ones, "bias": torch.ones(2)}, x).tolist() == [[3.0, 3.0]]
    assert bare.bias is None and "bias" in bare._parameters
    plain = nn.Linear(2, 2)
    assert call(plain, {"weight": ones, "bias": None}, x).tolist() == [[2.0, 2.0]]
    assert isinstance(plain.bias, nn.Parameter)

    class Reads(nn.Module):
        def __init__(self):
            super().__init__()
            self.held = torch.ones(1)

        def forward(self, x):
            self.held = self.held * 3
            return getattr(self, "extra", None), self.held

    model, held = Reads(), {"held": torch.full((1,), 7.0)}
    extra, value = call(model, ({"extra": ones}, held), x)
    assert extra is ones and value.item() == 21 and held["held"].item() == 21
    assert model.held.item() == 1 and "extra" not in vars(model)

    class Halved(nn.Module):
        def forward(self, x):
            return 2 * x

        def right_inverse(self, x):
            return x / 2

    layer = nn.utils.parametrize.register_parametrization(nn.Linear(2, 2, bias=False), "weight", Halved())
    own = layer.weight.detach().clone()
    assert call(layer, {"weight": 3 * ones}, x).tolist() == [[6.0, 6.0]]
    assert torch.equal(layer.weight, own)


@pytest.mark.parametrize(
    "name, value, kind, words",
    [
        ("weight", 3, TypeError, "3 is not an instance of torch.Tensor"),
        ("training", torch.ones(1), TypeError, "attribute `training`: True is not an instance of torch.Tensor"),
        ("a.b", torch.ones(1), AttributeError, "Linear has no attribute `a`"),
        ("weight.b", torch.ones(1), TypeError, "submodule `weight`: Parameter containing:"),
        ("", torch.ones(1), KeyError, "tensor name can't be empty string"),
    ],
)
def test_functional_call_refuses_values_that_are_no_tensors_and_unknown_names(name, value, kind, words):
    model = nn.Linear(2, 2)
    own = model.bias
    with pytest.raises(kind, match=re.escape(words).replace("'", ".{1,2}")):
        torch.func.functional_call(model, {"bias": torch.zeros(2), name: value}, torch.ones(1, 2))
    assert model.bias is own


def test_modules_with_different_requires_grad_are_not_stacked():
    models = [nn.Linear(2, 2), nn.Linear(2, 2).requires_grad_(False)]
    with pytest.raises(RuntimeError, match="Expected weight from each model to have the same .requires_grad"):
        torch.func.stack_module_state(models)
    assert not torch.func.stack_module_state(models[1:])[0]["weight"].requires_grad


def test_states_of_modules_are_stacked():
    models = [nn.Linear(2, 3) for _ in range(4)]
    parameters, buffers = torch.func.stack_module_state(models)
    assert parameters["weight"].shape == (4, 3, 2) and parameters["weight"].requires_grad and buffers == {}
    assert torch.equal(parameters["bias"][2], models[2].bias)
    with pytest.raises(RuntimeError, match="same training/eval mode"):
        torch.func.stack_module_state([models[0], nn.Linear(2, 3).eval()])
