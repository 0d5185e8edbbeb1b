"""`torch.special` functions with several arguments."""

import math

import pytest

import pytpu as torch


def test_incomplete_gamma_functions_have_a_gradient_to_their_second_argument(device, close):
    a = torch.tensor([0.5, 2.0, 7.0], device=device)
    x = torch.tensor([0.4, 3.0, 6.0], device=device, requires_grad=True)
    torch.igamma(a, x).sum().backward()
    density = [math.exp((p - 1) * math.log(v) - v - math.lgamma(p)) for p, v in zip(a.tolist(), x.tolist())]
    close(x.grad, density, rtol=1e-5)
    with pytest.raises(NotImplementedError, match="the derivative for 'igamma: input' is not implemented"):
        torch.igamma(a.clone().requires_grad_(), x).sum().backward()


def test_polynomials_take_numbers_and_need_no_gradient(device):
    x = torch.tensor([0.5, -2.0], device=device, requires_grad=True)
    y = torch.special.hermite_polynomial_h(x, 3)
    assert y.tolist() == [8 * 0.125 - 12 * 0.5, 8 * -8.0 + 24.0] and not y.requires_grad
    assert torch.special.legendre_polynomial_p(0.5, torch.tensor([0, 1, 2, -1], device=device)).tolist() == [
        1,
        0.5,
        -0.125,
        0,
    ]
    with pytest.raises(TypeError, match="invalid combination of arguments"):
        torch.special.hermite_polynomial_h(1.0, 2)
