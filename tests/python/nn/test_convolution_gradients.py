"""`torch.nn.grad`: gradients of convolutions."""

import pytest

import pytpu as torch
from pytpu import nn


@pytest.mark.parametrize("n", [1, 2, 3])
def test_gradients_of_convolutions(n, device):
    convolve = getattr(nn.functional, f"conv{n}d")
    x = torch.randn(2, 4, *[7] * n, device=device, requires_grad=True)
    w = torch.randn(6, 2, *[3] * n, device=device, requires_grad=True)
    y = convolve(x, w, None, 2, 1, 1, 2)
    g = torch.randn(y.shape, device=device)
    want = torch.autograd.grad(y, (x, w), g)
    got = (
        getattr(nn.grad, f"conv{n}d_input")(x.shape, w, g, 2, 1, 1, 2),
        getattr(nn.grad, f"conv{n}d_weight")(x, w.shape, g, 2, 1, 1, 2),
    )
    for a, b in zip(got, want):
        assert a.shape == b.shape and torch.allclose(a, b, atol=1e-4)
