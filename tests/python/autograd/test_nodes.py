"""Nodes of the graph: saved tensors and hooks."""

import gc
import weakref

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


def test_a_function_keeps_no_arguments_that_it_does_not_save():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, others):
            return 2 * x

        @staticmethod
        def backward(ctx, g):
            return 2 * g, None

    x = torch.ones(2, requires_grad=True)
    temporary, other = x + 1, torch.ones(2)
    kept = weakref.ref(temporary), weakref.ref(other)
    y = Double.apply(temporary, [other])
    del temporary, other
    gc.collect()
    assert [each() for each in kept] == [None, None]
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]
