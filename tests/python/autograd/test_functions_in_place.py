"""`torch.autograd.Function` that writes to a view in place."""

import pytest

import pytpu as torch


class Add(torch.autograd.Function):
    """Add in place."""

    @staticmethod
    def forward(ctx, a, b):
        a.add_(b)
        ctx.mark_dirty(a)
        return a

    @staticmethod
    def backward(ctx, g):
        return g, g


class Double(torch.autograd.Function):
    """Double in place."""

    @staticmethod
    def forward(ctx, a):
        ctx.mark_dirty(a)
        a.mul_(2)
        return a

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_function_in_place_on_a_view_reaches_both_inputs(device):
    a = torch.ones(4, device=device, requires_grad=True)
    b = torch.ones(2, device=device, requires_grad=True)
    x = a.clone()
    Add.apply(x.narrow(0, 0, 2), b)
    x.sum().backward()
    assert x.tolist() == [2, 2, 1, 1]
    assert b.grad.tolist() == [1, 1] and a.grad.tolist() == [1, 1, 1, 1]


def test_function_in_place_on_a_view_scales_the_gradient_of_its_part(device):
    a = torch.ones(3, device=device, requires_grad=True)
    x = a.clone()
    Double.apply(x[1:])
    (x * torch.tensor([1.0, 10, 100], device=device)).sum().backward()
    assert a.grad.tolist() == [1, 20, 200]


def test_result_of_a_function_in_place_on_a_view_can_be_differentiated(device):
    a = torch.ones(1, device=device, requires_grad=True)
    x = a.clone()
    Double.apply(x[:]).backward()
    assert a.grad.item() == 2


def test_function_in_place_on_a_view_gives_its_base_a_history():
    x, b = torch.ones(4), torch.ones(2, requires_grad=True)
    Add.apply(x[:2], b)
    assert x.requires_grad
    x.sum().backward()
    assert b.grad.tolist() == [1, 1]


def test_function_in_place_on_a_view_with_several_results_is_refused():
    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            a.add_(1)
            ctx.mark_dirty(a)
            return a, b * 2

        @staticmethod
        def backward(ctx, g, h):
            return g, h

    x = torch.ones(2, requires_grad=True) * 1
    with pytest.raises(RuntimeError, match="your Function cannot return more than one Tensor"):
        Two.apply(x[:1], torch.ones(1))


@pytest.mark.parametrize("result", [lambda x: x.view_as(x), lambda x: x])
def test_writing_to_a_view_that_a_function_returned_is_refused(result):
    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return result(x)

        @staticmethod
        def backward(ctx, g):
            return g

    y = Same.apply(torch.ones(2, requires_grad=True).clone())
    for target in (y, y[0]):
        with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
            target.add_(1)
    with torch.no_grad():
        y.add_(1)
    assert Same.apply(torch.ones(2)).add_(1).tolist() == [2, 2]
