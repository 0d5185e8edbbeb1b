"""Convolutions against NumPy."""

import numpy as np
import pytest

import pytpu as torch
from pytpu import nn


def rand(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_conv2d_is_cross_correlation(device, close):
    layer, x = nn.Conv2d(2, 3, 3, padding=1).to(device), rand(1, 2, 4, 4)
    w, b = layer.weight.detach().cpu().numpy(), layer.bias.detach().cpu().numpy()
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    want = np.zeros((1, 3, 4, 4), np.float32)
    for i in range(4):
        for j in range(4):
            want[0, :, i, j] = (padded[0, :, i : i + 3, j : j + 3] * w).sum((1, 2, 3)) + b
    close(layer(torch.tensor(x, device=device)), want, rtol=1e-4, atol=1e-5)


def test_transposed_conv_inverts_the_shape_of_conv(device):
    x = torch.randn(1, 2, 7, 7, device=device)
    down = nn.Conv2d(2, 3, 3, stride=2).to(device)
    up = nn.ConvTranspose2d(3, 2, 3, stride=2).to(device)
    assert up(down(x)).shape == x.shape
    assert up(down(x), output_size=[8, 8]).shape == (1, 2, 8, 8)
    with pytest.raises(ValueError, match="requested an output size of"):
        up(down(x), output_size=[20, 20])
