"""`make_fx` makes graphs of the operators of aten that a function calls."""

import pytest

import pytpu as torch
from pytpu import nn
from pytpu.fx.experimental.proxy_tensor import get_proxy_mode, make_fx


def body(module):
    return [line.strip() for line in module.code.strip().splitlines()]


def test_graphs_are_those_of_pytorch():
    constant = torch.ones(3)

    def function(x, y):
        a = x.sin() + 1
        b = torch.split(a, 1)
        z = b[0] * constant + torch.tensor([1.0, 2.0, 3.0])
        z.add_(1)
        return z, y["k"].sum(), x[0], 3

    graph = make_fx(function)(torch.ones(2, 3), {"k": torch.ones(2)})
    assert body(graph) == [
        "def forward(self, x, y):",
        "x_1, y_1, = fx_pytree.tree_flatten_spec([x, y], self._in_spec)",
        "sin = torch.ops.aten.sin.default(x_1)",
        "add = torch.ops.aten.add.Tensor(sin, 1);  sin = None",
        "split = torch.ops.aten.split.Tensor(add, 1);  add = None",
        "getitem = split[0]",
        "getitem_1 = split[1];  split = getitem_1 = None",
        "_tensor_constant0 = self._tensor_constant0",
        "mul = torch.ops.aten.mul.Tensor(getitem, _tensor_constant0);  getitem = _tensor_constant0 = None",
        "_tensor_constant1 = self._tensor_constant1",
        "lift_fresh_copy = torch.ops.aten.lift_fresh_copy.default(_tensor_constant1);  _tensor_constant1 = None",
        "add_1 = torch.ops.aten.add.Tensor(mul, lift_fresh_copy);  mul = lift_fresh_copy = None",
        "add_ = torch.ops.aten.add_.Tensor(add_1, 1);  add_1 = None",
        "sum_1 = torch.ops.aten.sum.default(y_1);  y_1 = None",
        "select = torch.ops.aten.select.int(x_1, 0, 0);  x_1 = None",
        "return pytree.tree_unflatten([add_, sum_1, select, 3], self._out_spec)",
    ]
    result = graph(torch.zeros(2, 3), {"k": torch.ones(4)})
    assert result[0].tolist() == [[3.0, 4.0, 5.0]] and result[1] == 4 and result[3] == 3


def test_weights_are_attributes():
    module = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    graph = make_fx(module)(torch.ones(2, 3))
    assert [name for name, _ in graph.named_parameters()] == [f"_param_constant{i}" for i in range(4)]
    assert "torch.ops.aten.addmm.default(_param_constant1, arg0_1, t)" in graph.code
    assert graph._param_constant0 is module[0].weight
    module.eval()
    plain = make_fx(module)
    x = torch.randn(4, 3)
    torch.testing.assert_close(plain(torch.ones(2, 3))(x), module(x))


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_modes(mode):
    graph = make_fx(lambda x: x.sin() + torch.tensor([1.0, 2.0]), tracing_mode=mode)(torch.ones(2))
    assert "aten.lift_fresh_copy" in graph.code
    torch.testing.assert_close(graph(torch.zeros(2)), torch.tensor([1.0, 2.0]))
    assert graph.graph.find_nodes(op="placeholder")[0].meta["val"].shape == (2,)


def test_derivatives_are_in_the_graph():
    def gradient(x):
        x = x.clone().requires_grad_()
        (x * x * 3).sum().backward()
        return x.grad

    graph = make_fx(gradient)(torch.ones(2))
    torch.testing.assert_close(graph(torch.tensor([1.0, 5.0])), torch.tensor([6.0, 30.0]))


def test_tables_and_compositions():
    x = torch.ones(2, 2)
    table = {torch.ops.aten.addmm.default: lambda a, b, c, beta=1, alpha=1: a + b @ c}
    assert "aten.mm.default" in make_fx(lambda x: torch.addmm(x, x, x), table)(x).code
    linear = torch.nn.functional.linear
    assert "aten.linear.default" in make_fx(lambda x: linear(x, x), pre_dispatch=True)(x).code
    assert "aten.linear.default" not in make_fx(lambda x: linear(x, x))(x).code


def test_a_choice_has_two_graphs():
    def function(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x + 1, (x,))

    graph = make_fx(function)(torch.ones(2))
    torch.testing.assert_close(graph(-torch.ones(2)), torch.zeros(2))
    torch.testing.assert_close(graph(torch.ones(2)), torch.ones(2).sin())


def test_fake_values_take_no_others():
    other = torch.ones(2)
    with pytest.raises(AssertionError, match="Please convert all Tensors to FakeTensors first"):
        make_fx(lambda x: x + other, tracing_mode="fake")(torch.ones(2))
    with pytest.raises(AssertionError, match="tracing_mode must be one of"):
        make_fx(lambda x: x, tracing_mode="other")


def test_the_mode_is_known_while_it_runs():
    seen = []
    make_fx(lambda x: seen.append(get_proxy_mode()) or x + 1)(torch.ones(1))
    assert seen[0] is not None and get_proxy_mode() is None
