"""Nodes of the graph: saved tensors and hooks."""

import pytest

import pytpu as torch


def test_saved_tensors_of_a_node_can_be_read():
    x, y = torch.ones(2, requires_grad=True), torch.full((2,), 3.0, requires_grad=True)
    f = (x * y).grad_fn
    assert f._saved_self is x and f._saved_other is y
    assert (x * 2.0).grad_fn._saved_self is None
    e = x.exp()
    assert torch.equal(e.grad_fn._saved_result, e)
    with pytest.raises(AttributeError):
        f._saved_nothing
    z = x * y
    z.sum().backward()
    with pytest.raises(RuntimeError, match="after they have already been freed"):
        z.grad_fn._saved_self


def test_prehooks_of_a_node_with_two_results_get_two_gradients():
    x = torch.rand(4, 3, dtype=torch.float64, requires_grad=True)
    got = []
    var, mean = torch.var_mean(x, dim=0)
    assert var.grad_fn == mean.grad_fn and var.grad_fn.name() == "VarMeanBackward0"
    var.grad_fn.register_prehook(lambda g: got.append(len(g)))
    (var + mean).sum().backward()
    assert got == [2]
    for f in (
        lambda x: torch.var_mean(x, 0),
        lambda x: torch.var_mean(x, (0, 1), correction=0),
        lambda x: torch.var_mean(x, 1, keepdim=True),
    ):
        assert torch.autograd.gradcheck(f, x) and torch.autograd.gradgradcheck(f, x)
