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


def test_hooks_of_the_node_that_made_an_input_run(device):
    log = []
    x = torch.ones(1, device=device, requires_grad=True)
    y = x.clone()
    y.grad_fn.register_hook(lambda gx, gy: log.append((gx, gy[0].item())))
    y.grad_fn.register_prehook(lambda gy: log.append(gy[0].item()))
    y.sum().backward(inputs=[y])
    assert log == [1, ((None,), 1)] and y.grad.item() == 1 and x.grad is None
    y.sum().backward(inputs=[x, y])
    assert log[2] == 1 and log[3][0][0].item() == 1 and x.grad.item() == 1


def test_the_backward_of_a_function_that_made_an_input_runs(device):
    calls = []

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            calls.append(g.item())
            return g * 2

    x = torch.ones(1, device=device, requires_grad=True)
    y = Double.apply(x)
    y.sum().backward(inputs=[y])
    assert calls == [1] and x.grad is None
    y = Double.apply(x)
    torch.autograd.grad(y.sum(), y)
    assert calls == [1]


def test_gradients_of_outputs_without_one_may_stay_none(device):
    seen = []

    class Parts(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, every):
            if not every:
                ctx._materialize_non_diff_grads = False
            whole = x.long()
            ctx.mark_non_differentiable(whole)
            return x * 2, whole, x * 3

        @staticmethod
        def backward(ctx, a, whole, b):
            seen.append([g if g is None else g.tolist() for g in (a, whole, b)])
            return a, None

    x = torch.ones(2, device=device, requires_grad=True)
    for every in (True, False):
        Parts.apply(x, every)[0].sum().backward()
    assert seen == [[[1, 1], [0, 0], [0, 0]], [[1, 1], None, [0, 0]]]


def test_backward_passes_nest_deeper_than_python_calls():
    class Deep(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                ctx.x = x.detach().requires_grad_() - 1
            return ctx.x.detach()

        @staticmethod
        def backward(ctx, g):
            if ctx.x > 0:
                with torch.enable_grad():
                    Deep.apply(ctx.x).sum().backward()
            return g

    x = torch.tensor(2000.0, requires_grad=True)
    Deep.apply(x).sum().backward()
    assert x.grad.item() == 1


def test_hooks_on_a_view_do_not_see_later_values(device):
    log = []
    x = torch.ones(4, device=device, requires_grad=True)
    base = x * 1
    v = base[:2]
    v.register_hook(lambda g: log.append(g.tolist()))
    used = v * 3
    v.add_(2)
    v.register_hook(lambda g: log.append(["new", g.tolist()]))
    (used.sum() + base.sum() + (v * 5).sum()).backward()
    # Through `used` for the old values, and for the new ones.
    assert len(log) == 2 and [3, 3] in log and ["new", [5, 5]] in log
    assert x.grad.tolist() == [9, 9, 1, 1]
    log.clear()
    base = x * 1
    base.register_hook(lambda g: log.append(g.tolist()))
    base.mul_(2)
    base.sum().backward()
    assert log == [[2, 2, 2, 2]]
