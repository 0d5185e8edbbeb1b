"""Saved tensors that are made again where backward reads them."""

import gc
import weakref

import pytest

import pytpu as torch
from pytpu.autograd.graph import saved_tensors_hooks


def run(device, use):
    """Return the gradients of ``use(x, w)`` where ``w`` is made again, the calls, and whether ``w`` is alive before."""
    value = torch.randn(3, 4)
    x = torch.randn(2, 4, device=device, requires_grad=True)
    leaf = value.to(device).requires_grad_()
    w, calls = leaf * 1, []

    def make(i):
        calls.append(i)
        return value.to(device)

    hooks = torch._C._Remade([w], make)
    try:
        y = use(x, w)
    finally:
        hooks.pop()
    kept = weakref.ref(w)
    del w
    gc.collect()
    is_alive = kept() is not None
    assert calls == []
    found = torch.autograd.grad(y.sum(), [x, leaf])
    expected = torch.autograd.grad(use(x, leaf).sum(), [x, leaf])
    for a, b in zip(found, expected):
        torch.testing.assert_close(a, b)
    return calls, is_alive


@pytest.mark.parametrize(
    "use",
    [
        lambda x, w: torch.nn.functional.linear(x, w),
        lambda x, w: x @ w.t(),
        lambda x, w: x * w[1],
        lambda x, w: x * w.view(4, 3).t()[0:1] * w.unsqueeze(0)[0, 2],
        lambda x, w: (x * w.detach()[0]) * w[0].exp(),
    ],
)
def test_views_are_made_again(device, use):
    calls, is_alive = run(device, use)
    assert calls and set(calls) == {0} and not is_alive


def test_other_tensors_go_to_the_hooks_before():
    packed = []

    def pack(x):
        packed.append(tuple(x.shape))
        return x.numpy().copy()

    w, x = torch.randn(3, 4, requires_grad=True), torch.randn(2, 4, requires_grad=True)
    with saved_tensors_hooks(pack, torch.from_numpy):
        hooks = torch._C._Remade([w], lambda i: w.detach())
        y = torch.nn.functional.linear(x * 1, w)
        hooks.pop()
    assert packed == [(2, 4)]
    y.sum().backward()
    torch.testing.assert_close(w.grad, x.detach().sum(0).expand(3, 4))


def test_other_tensors_must_not_be_written():
    w, x = torch.randn(4, requires_grad=True), torch.randn(4)
    hooks = torch._C._Remade([w], lambda i: w.detach())
    y = w * x
    hooks.pop()
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_an_error_of_the_maker_is_that_of_backward():
    def make(i):
        raise ZeroDivisionError("not there")

    w, x = torch.randn(4, requires_grad=True), torch.randn(4, requires_grad=True)
    hooks = torch._C._Remade([w], make)
    y = w * x
    hooks.pop()
    with pytest.raises(ZeroDivisionError, match="not there"):
        y.sum().backward()


def test_a_function_is_called_at_the_end_of_backward():
    calls, x = [], torch.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: torch._C._at_end_of_backward(lambda: calls.append(x.grad.tolist())))
    y.sum().backward()
    assert calls == [[2, 2]]
    with pytest.raises(RuntimeError, match="Final callbacks can only be installed during backward pass"):
        torch._C._at_end_of_backward(lambda: None)
