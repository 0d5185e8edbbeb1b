"""`Linear` against NumPy."""

import numpy as np
import pytest

import pytpu as torch
from pytpu import nn


def rand(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_linear(device, close):
    layer, x = nn.Linear(3, 4).to(device), rand(2, 3)
    w, b = layer.weight.detach().cpu().numpy(), layer.bias.detach().cpu().numpy()
    close(layer(torch.tensor(x, device=device)), x @ w.T + b)


@pytest.mark.parametrize(
    "rows, inner, outer",
    [((3,), 8, 0), ((2, 3), 8, 0), ((2, 3), 0, 4), ((0,), 8, 4), ((), 8, 0), ((0, 2), 0, 0)],
)
def test_linear_layers_without_features(rows, inner, outer, device):
    x, w = (torch.ones(*s, device=device, requires_grad=True) for s in ((*rows, inner), (outer, inner)))
    b = torch.ones(outer, device=device, requires_grad=True)
    y = torch.nn.functional.linear(x, w, b)
    assert y.shape == (*rows, outer) and (y == 1 + inner).all()
    y.sum().backward()
    count = 1
    for n in rows:
        count *= n
    assert x.grad.shape == x.shape and (x.grad == outer).all()
    assert w.grad.shape == w.shape and (w.grad == count).all()
    assert b.grad.shape == b.shape and (b.grad == count).all()
