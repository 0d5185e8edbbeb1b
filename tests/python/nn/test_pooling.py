"""Pooling, unpooling, `fold` and `unfold`."""

import math

import numpy as np
import pytest

import pytpu as torch
from pytpu import nn
from pytpu.nn import functional as F


def test_unfolding_and_folding_count_overlaps(device, close):
    x = torch.randn(2, 3, 6, 5, device=device, requires_grad=True)
    columns = nn.Unfold((3, 2), padding=1, stride=(1, 2))(x)
    assert columns.shape == (2, 18, 18)
    back = nn.Fold((6, 5), (3, 2), padding=1, stride=(1, 2))(columns)
    counts = F.fold(
        F.unfold(torch.ones_like(x), (3, 2), padding=1, stride=(1, 2)), (6, 5), (3, 2), padding=1, stride=(1, 2)
    )
    close(back, (x * counts).detach().cpu().numpy())
    back.sum().backward()
    close(x.grad, counts.cpu().numpy())
    with pytest.raises(RuntimeError, match=r"calculated shape of the array of sliding blocks as \(0, 5\)"):
        F.unfold(x, (7, 1))


def test_max_unpool_restores_positions(device):
    x = torch.arange(16.0, device=device).reshape(1, 1, 4, 4)
    pooled, at = F.max_pool2d(x, 2, return_indices=True)
    back = F.max_unpool2d(pooled, at, 2)
    assert back.sum() == pooled.sum() and back[0, 0, 3, 3] == 15
    with pytest.raises(RuntimeError, match="Found an invalid max index"):
        torch.nn.functional.max_unpool2d(pooled, at + 100, 2).cpu()


def test_fractional_pools_take_maxima_of_their_windows(device, close):
    x = torch.randn(2, 3, 7, 6, device=device)
    y, at = F.fractional_max_pool2d(x, 2, output_size=(4, 3), return_indices=True)
    assert y.shape == (2, 3, 4, 3)
    close(y, torch.gather(x.flatten(2), 2, at.flatten(2)).reshape(y.shape).cpu().numpy())
    with pytest.raises(RuntimeError, match="pool height 7 too large relative to input height 7"):
        F.fractional_max_pool2d(x, (7, 2), output_size=(2, 2))


def rand(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_pools(device, close):
    x = rand(1, 1, 4, 4)
    t = torch.tensor(x, device=device)
    blocks = x.reshape(2, 2, 2, 2).transpose(0, 2, 1, 3).reshape(1, 1, 2, 2, 4)
    close(nn.MaxPool2d(2)(t), blocks.max(-1))
    close(nn.AvgPool2d(2)(t), blocks.mean(-1))
    close(nn.AdaptiveAvgPool2d(1)(t), x.mean((2, 3), keepdims=True))
    values, indices = nn.MaxPool2d(2, return_indices=True)(t)
    restored = nn.MaxUnpool2d(2)(values, indices)
    assert torch.equal(restored[restored != 0].sort()[0], values.flatten().sort()[0])


INF, NAN = math.inf, math.nan


def test_nan_and_infinity_stay_in_their_windows(device):
    x = torch.tensor([[[NAN, 1, 2, 3], [4, 5, 6, 7], [1, 2, 3, 4], [1, 1, 1, INF]]], device=device)
    y = torch.nn.functional.adaptive_avg_pool2d(x, (2, 3)).flatten().tolist()
    assert math.isnan(y[0]) and y[1:5] == [3.5, 4.5, 1.25, 1.75] and y[5] == INF


def test_lp_pool_of_infinite_order_is_max_pool(device):
    x = torch.randn(1, 2, 8, 8, device=device)
    assert torch.equal(F.lp_pool2d(x, math.inf, 2), F.max_pool2d(x.abs(), 2))
    with pytest.raises(ValueError, match="norm_type must be a non-zero value, but got 0"):
        F.lp_pool1d(x[0], 0, 2)


def test_pools_of_empty_tensors():
    assert torch.nn.AdaptiveAvgPool1d(5)(torch.ones(0, 10)).shape == (0, 5)
    assert torch.nn.AdaptiveMaxPool2d(5)(torch.ones(0, 10, 10)).shape == (0, 5, 5)
    assert torch.nn.FractionalMaxPool2d([2, 2], output_size=[0, 1])(torch.rand(1, 1, 8, 8)).shape == (1, 1, 0, 1)
    assert torch.nn.FractionalMaxPool3d(2, output_size=[0, 1, 1])(torch.rand(1, 1, 8, 8, 8)).shape == (1, 1, 0, 1, 1)
    with pytest.raises(RuntimeError, match="non-zero size for non-batch dimensions"):
        torch.nn.AdaptiveAvgPool1d(5)(torch.ones(3, 0))


def test_padding_of_empty_channels_is_refused():
    with pytest.raises(RuntimeError, match="Expected 2D or 3D \\(batch mode\\) tensor with possibly 0 batch size"):
        torch.nn.ReflectionPad1d(2)(torch.randn(3, 0, 10))
    with pytest.raises(RuntimeError, match="Expected 3D or 4D"):
        torch.nn.ReplicationPad2d(2)(torch.randn(3, 0, 10, 10))
    assert torch.nn.ReflectionPad1d(2)(torch.randn(0, 3, 10)).shape == (0, 3, 14)
    assert torch.nn.CircularPad1d(2)(torch.randn(3, 0, 10)).shape == (3, 0, 14)


def test_average_pooling_writes_to_out(device):
    x, out = torch.arange(16.0, device=device).view(1, 1, 4, 4), torch.empty(0, device=device)
    y = F.avg_pool2d(x, 2, out=out)
    assert y is out and out.tolist() == [[[[2.5, 4.5], [10.5, 12.5]]]]
