"""Graphs of operators of forward and backward: `aot_eager`, `aot_autograd`, `aot_function` and `aot_module`."""

import copy

import pytest

import pytpu as torch
import pytpu.nn.functional as F
from pytpu import nn
from pytpu._dynamo.backends.common import aot_autograd
from pytpu._dynamo.testing import AotEagerAndRecordGraphs
from pytpu._functorch.aot_autograd import aot_function, aot_module, make_boxed_func
from pytpu._functorch.compilers import nop


def test_graphs_of_operators():
    recorded = AotEagerAndRecordGraphs()
    x = torch.ones(3, requires_grad=True)
    y = torch.compile(lambda x, w: (x.sin() * w).sum(), backend=recorded)(x, torch.full((3,), 2.0))
    y.backward()
    assert torch.allclose(x.grad, 2 * torch.ones(3).cos())
    (forward,), (backward,) = recorded.fw_graphs, recorded.bw_graphs
    aten = torch.ops.aten
    assert [n.target for n in forward.graph.nodes if n.op == "call_function"] == [
        aten.sin.default,
        aten.mul.Tensor,
        aten.sum.default,
    ]
    assert aten.cos.default in [n.target for n in backward.graph.nodes]


CASES = {
    "batch_norm": lambda x, w: F.batch_norm(x, torch.zeros(4), torch.ones(4), w, w, True),
    "layer_norm": lambda x, w: F.layer_norm(x, (4,), w, w),
    "rms_norm": lambda x, w: F.rms_norm(x, (4,), w) + x,
    "instance_norm": lambda x, w: F.instance_norm(x[None]) + x,
    "cross_entropy": lambda x, w: F.cross_entropy(x, torch.arange(4)),
    "attention": lambda x, w: F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True),
    "convolution": lambda x, w: F.conv1d(x[None], torch.ones(2, 4, 3) * w[:, None][None]),
    "pooling": lambda x, w: F.max_pool1d(x, 2) * F.adaptive_avg_pool1d(x, 2),
    "interpolate": lambda x, w: F.interpolate(x[None], scale_factor=2.0),
    "dropout": lambda x, w: F.dropout(F.max_pool1d(x, 2), 0.5) * w[:2],
    "embedding": lambda x, w: F.embedding(torch.tensor([0, 1, 1]), x),
    "in place": lambda x, w: F.relu(F.max_pool1d(x * w, 2), inplace=True).add_(1),
    "sort": lambda x, w: x.sort(0).values * x.cumprod(0),
    "inverse": lambda x, w: torch.linalg.inv(x + torch.eye(4) * 4),
    "no_grad": lambda x, w: _without_gradients(x),
}


def _without_gradients(x):
    with torch.no_grad():
        y = F.max_pool1d(x, 2)
    return F.max_pool1d(x, 2) * y


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_eager(name):
    f = CASES[name]
    recorded = AotEagerAndRecordGraphs()

    def run(g):
        torch.manual_seed(1)
        x = ((torch.arange(16.0) * 0.37).sin().reshape(4, 4)).requires_grad_()
        w = torch.tensor([1.0, 2, 3, 4], requires_grad=True)
        y = g(x, w)
        y.square().sum().backward()
        return y, x.grad, w.grad

    expected, found = run(f), run(torch.compile(f, backend=recorded))
    assert len(recorded.fw_graphs) == len(recorded.bw_graphs) == 1
    for a, b in zip(found, expected):
        assert (a is None) == (b is None) and (a is None or torch.allclose(a, b, atol=1e-5))


def test_networks_train_as_without_a_backend():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(
                nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Dropout(0.3)
            )
            self.last = nn.Linear(36, 5)

        def forward(self, x):
            return F.cross_entropy(self.last(self.layers(x).flatten(1)), torch.zeros(2, dtype=torch.long))

    torch.manual_seed(0)
    plain = Net()
    net = copy.deepcopy(plain)
    fast = torch.compile(net, backend="aot_eager")
    x = torch.rand(2, 3, 8, 8)
    for model, call in ((net, fast), (plain, plain)):
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        for i in range(3):
            torch.manual_seed(i)
            optimizer.zero_grad()
            call(x).backward()
            optimizer.step()
    for a, b in zip(net.state_dict().values(), plain.state_dict().values()):
        assert torch.allclose(a, b, atol=1e-4)


def test_aot_autograd_as_a_backend():
    seen = []

    def compiler(gm, example_inputs):
        seen.append([type(x).__name__ for x in example_inputs])
        return make_boxed_func(gm.forward)

    net = nn.Linear(2, 2)
    fast = torch.compile(net, backend=aot_autograd(fw_compiler=compiler))
    fast(torch.ones(1, 2)).sum().backward()
    assert net.weight.grad.tolist() == [[1, 1], [1, 1]] and len(seen) == 2
    assert set(seen[0]) == {"FakeTensor"}
    with torch.no_grad():
        assert torch.equal(fast(torch.ones(1, 2)), net(torch.ones(1, 2)))
    assert len(seen) == 3


def test_functions_and_modules_without_torch_compile():
    f = aot_function(lambda a, b: {"y": [a["x"].sin() * b, 3]}, nop)
    x = torch.ones(2, requires_grad=True)
    for size in (2, 2):
        out = f({"x": x}, torch.full((size,), 2.0))
        assert out["y"][1] == 3 and torch.allclose(out["y"][0], 2 * x.sin())
    out["y"][0].sum().backward()
    assert torch.allclose(x.grad, 2 * x.detach().cos())
    net = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3))
    fast = aot_module(net, nop)
    fast(torch.ones(1, 2)).square().sum().backward()
    assert all(p.grad is not None for p in net.parameters())


def test_what_graphs_of_operators_cannot_hold():
    x = torch.ones(2, 2, requires_grad=True)

    def writes(x):
        y = x.clone()
        y[0] = 5.0
        return F.max_pool1d(y, 2)

    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="writes to a view"):
        torch.compile(writes, backend="aot_eager")(x)
    y = torch.compile(lambda x: x.sin(), backend="aot_eager")(x)
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        torch.autograd.grad(y.sum(), x, create_graph=True)
