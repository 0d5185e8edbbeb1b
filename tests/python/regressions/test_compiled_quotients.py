"""Quotients in compiled programs. Compilers make `a / (b c)` of `a / b / c`, and the product may leave the range."""

import math

import pytest

import pytpu as torch

INF, NAN = math.inf, math.nan


def test_float16_divided_twice_is_not_zero(device):
    a = torch.tensor([6e4, 1e-4, 3.0], dtype=torch.float16, device=device)
    b = torch.tensor([300.0, 1e-3, 7.0], dtype=torch.float16, device=device)
    assert (a / b / b).tolist() == [0.66650390625, 99.9375, 0.06121826171875]
    assert (a / b.sum() / b.sum())[0].item() == pytest.approx(0.6367, rel=1e-3)
    assert (a / (b / a)).tolist() == [INF, 1.0013580322265625e-05, 1.28515625]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_gradient_of_a_tiny_divisor_is_finite(device, dtype):
    a = torch.tensor([1e-20, 1e25, 2.0], dtype=dtype, device=device, requires_grad=True)
    b = torch.tensor([1e-20, 1e25, 3.0], dtype=dtype, device=device, requires_grad=True)
    (a / b).sum().backward()
    assert b.grad.tolist() == pytest.approx([-1e20, -1e-25, -2 / 9], rel=1e-2 if dtype is torch.bfloat16 else 1e-6)


def test_the_second_gradient_of_a_divergence_is_finite(device):
    target = torch.tensor([1e-20], device=device, requires_grad=True)
    loss = torch.nn.functional.kl_div(torch.zeros(1, device=device), target, reduction="sum")
    (g,) = torch.autograd.grad(loss, target, create_graph=True)
    (h,) = torch.autograd.grad(g, target)
    assert h.item() == pytest.approx(1e20, rel=1e-5)


def test_a_length_with_an_infinite_side_is_infinite(device):
    a = torch.tensor([INF, -INF, NAN, NAN, 3.0], device=device)
    b = torch.tensor([NAN, NAN, INF, 1.0, 4.0], device=device)
    y = torch.hypot(a, b).tolist()
    assert y[:3] == [INF] * 3 and math.isnan(y[3]) and y[4] == 5


def test_powers_of_two_are_exact(device):
    for dtype, low, high in ((torch.float32, -126, 127), (torch.float64, -1022, 1023)):
        n = torch.arange(low, high + 1, device=device).to(dtype)
        assert n.exp2().tolist() == [2.0**k for k in range(low, high + 1)]
    x = torch.tensor([INF, -INF, 2000.0, -2000.0, 0.5, 127.75, NAN], device=device).exp2().tolist()
    assert x[:4] == [INF, 0, INF, 0] and x[4:6] == pytest.approx([2**0.5, 2**127.75], rel=1e-6) and math.isnan(x[6])
    x = torch.tensor([3e30, -5e-30, 0.3], device=device, requires_grad=True)
    mantissa, exponent = torch.frexp(x)
    mantissa.sum().backward()
    assert x.grad.tolist() == [2.0**-k for k in exponent.tolist()]
