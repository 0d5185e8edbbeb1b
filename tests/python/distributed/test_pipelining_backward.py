"""The backward of a stage in two halves gives the gradients of the whole backward."""

import copy

import pytest

import pytpu as torch
from pytpu import nn
from pytpu.distributed.pipelining._backward import stage_backward, stage_backward_input, stage_backward_weight


class Shared(nn.Module):
    """One weight at two places, the second above the first."""

    def __init__(self):
        super().__init__()
        self.w = nn.Linear(4, 4)

    def forward(self, x):
        return self.w(torch.tanh(self.w(x)))


class Side(nn.Module):
    """A weight that reaches the output beside the input, and an output that the input does not reach."""

    def __init__(self):
        super().__init__()
        self.w = nn.Linear(4, 4)
        self.bias = nn.Parameter(torch.randn(4))
        self.scale = nn.Parameter(torch.randn(4))
        self.alone = nn.Parameter(torch.randn(3))
        self.unused = nn.Parameter(torch.randn(2))

    def forward(self, x):
        side = torch.sin(self.bias) * self.scale
        return self.w(x) + side, (self.alone * 2).exp(), side * 3


class Chained(nn.Module):
    """Outputs of which one is computed from the other, with no input on the way to the latter."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4))

    def forward(self, x):
        first = self.w.exp()
        return first, first.sin(), x * first.cos()


class Normed(nn.Module):
    """A weight that is computed from two parameters."""

    def __init__(self):
        super().__init__()
        self.w = nn.utils.parametrizations.weight_norm(nn.Linear(4, 3))

    def forward(self, x):
        return self.w(x)


class Many(nn.Module):
    """A node with several outputs, and an input that is used twice."""

    def __init__(self):
        super().__init__()
        self.w = nn.Linear(4, 8)

    def forward(self, x):
        a, b = self.w(x).chunk(2, dim=-1)
        return (a * b + x,)


MODULES = {
    "mlp": lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4), nn.LayerNorm(4)),
    "conv": lambda: nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 2, 3), nn.BatchNorm1d(2), nn.Tanh()),
    "lstm": lambda: nn.LSTM(4, 3, batch_first=True),
    "transformer": lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True),
    "shared": Shared,
    "side": Side,
    "chained": Chained,
    "normed": Normed,
    "many": Many,
}


def outputs_of(value):
    if isinstance(value, torch.Tensor):
        return (value,)
    return tuple(tensor for part in value for tensor in outputs_of(part))


def inputs(name, device, requires_grad=True):
    shape = (2, 5, 4) if name in ("lstm", "transformer") else (5, 4)
    return torch.randn(shape).to(device).requires_grad_(requires_grad)


def close(got, want):
    assert (got is None) == (want is None)
    if got is not None:
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", MODULES)
def test_halves_give_the_gradients_of_the_whole(name, device):
    whole = MODULES[name]().to(device)
    split = copy.deepcopy(whole)
    x = inputs(name, device)
    x_split = x.detach().clone().requires_grad_()
    grads = [torch.randn_like(output) for output in outputs_of(whole(x))]

    (want,) = stage_backward(outputs_of(whole(x)), grads, [x])
    assert x.grad is None
    (got,), groups = stage_backward_input(outputs_of(split(x_split)), grads, [x_split], split.parameters())
    assert all(parameter.grad is None for parameter in split.parameters())
    close(got, want)
    close(x_split.grad, want)
    found = stage_backward_weight(split.parameters(), groups)
    for got, parameter, other in zip(found, split.parameters(), whole.parameters()):
        assert got is parameter.grad
        close(got, other.grad)


@pytest.mark.parametrize("name", ["mlp", "side"])
def test_inputs_without_gradients(name):
    whole = MODULES[name]()
    split = copy.deepcopy(whole)
    x = inputs(name, "cpu", requires_grad=False)
    grads = [torch.randn_like(output) for output in outputs_of(whole(x))]
    assert stage_backward(outputs_of(whole(x)), grads, [x, "mode"]) == (None, None)
    got, groups = stage_backward_input(outputs_of(split(x)), grads, [x, "mode"], split.parameters())
    assert got == (None, None)
    stage_backward_weight(split.parameters(), groups)
    for parameter, other in zip(split.parameters(), whole.parameters()):
        close(parameter.grad, other.grad)


def test_weights_of_several_microbatches_are_summed_up():
    whole = MODULES["shared"]()
    split = copy.deepcopy(whole)
    pending = []
    for _ in range(3):
        x = torch.randn(2, 4, requires_grad=True)
        whole(x).sum().backward()
        other = x.detach().requires_grad_()
        pending.append(stage_backward_input((split(other).sum(),), None, [other], split.parameters())[1])
    for groups in reversed(pending):
        stage_backward_weight(split.parameters(), groups)
    for parameter, other in zip(split.parameters(), whole.parameters()):
        close(parameter.grad, other.grad)


def test_frozen_weights_get_no_gradient():
    module = MODULES["mlp"]()
    module[0].weight.requires_grad_(False)
    x = torch.randn(2, 4, requires_grad=True)
    _, groups = stage_backward_input((module(x).sum(),), None, [x], module.parameters())
    found = stage_backward_weight(module.parameters(), groups)
    assert found[0] is None and all(grad is not None for grad in found[1:])


def test_edges_of_the_graph_stand_for_outputs():
    whole = MODULES["mlp"]()
    x = torch.randn(2, 4, requires_grad=True)
    grad = torch.randn(2, 4)
    (want,) = stage_backward((whole(x),), (grad,), [x])
    weights = [parameter.grad for parameter in whole.parameters()]
    for split in (False, True):
        whole.zero_grad()
        edge = torch.autograd.graph.get_gradient_edge(whole(x))
        if split:
            (got,), groups = stage_backward_input((edge,), (grad,), [x], whole.parameters())
            stage_backward_weight(whole.parameters(), groups)
        else:
            (got,) = stage_backward((edge,), (grad,), [x])
        close(got, want)
        for parameter, weight in zip(whole.parameters(), weights):
            close(parameter.grad, weight)
        x.grad = None


def test_outputs_without_gradients_are_left_out():
    w = torch.ones(2, requires_grad=True)
    edge = torch.autograd.graph.get_gradient_edge(w * 3)
    outputs, grads = (w * 2, edge, torch.ones(1), None), (torch.ones(2), torch.ones(2), None, None)
    assert stage_backward(outputs, grads, [w])[0].tolist() == [5, 5]
    with pytest.raises(ValueError, match="An edge needs the gradient of its output"):
        stage_backward_input((edge,), None, [w], [])
