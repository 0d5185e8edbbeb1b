"""Normalization layers against NumPy."""

import numpy as np
import pytest

import pytpu as torch
from pytpu import nn


def test_batch_norms_without_statistics(device):
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2)).to(device).eval()
    assert torch.func.replace_all_batch_norm_modules_(model) is model and model[0].running_mean is None
    x = torch.tensor([[1.0, 2.0], [3.0, 6.0]], device=device)
    assert torch.allclose(model[0](x), torch.tensor([[-1.0, -1.0], [1.0, 1.0]], device=device), atol=1e-4)


def rand(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_batch_norm_normalises_and_tracks(device, close):
    layer, x = nn.BatchNorm1d(3).to(device), rand(8, 3)
    got = layer(torch.tensor(x, device=device))
    close(got, (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5), rtol=1e-4, atol=1e-5)
    close(layer.running_mean, 0.1 * x.mean(0), rtol=1e-4)
    close(layer.running_var, 0.9 + 0.1 * x.var(0, ddof=1), rtol=1e-4)
    assert int(layer.num_batches_tracked) == 1
    with pytest.raises(ValueError, match=r"expected 2D or 3D input \(got 4D input\)"):
        layer(torch.zeros(1, 3, 1, 1, device=device))
    with pytest.raises(ValueError, match="Expected more than 1 value per channel when training"):
        layer(torch.zeros(1, 3, device=device))


def test_layer_and_rms_norm(device, close):
    x = rand(2, 5)
    t = torch.tensor(x, device=device)
    want = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    close(nn.LayerNorm(5).to(device)(t), want, rtol=1e-4, atol=1e-5)
    close(nn.RMSNorm(5, eps=1e-6).to(device)(t), x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6), rtol=1e-4)


def test_norms_of_empty_tensors(device):
    F = torch.nn.functional
    mean, var = torch.zeros(2, device=device), torch.ones(2, device=device)
    assert F.batch_norm(torch.zeros(0, 2, 3, device=device), mean, var, training=True).shape == (0, 2, 3)
    assert F.instance_norm(torch.zeros(0, 2, 3, device=device), mean, var).shape == (0, 2, 3)
    assert mean.tolist() == [0, 0] and var.tolist() == [1, 1]


def test_rms_norm_gives_the_inputs_dtype(device):
    for dtype in (torch.float64, torch.bfloat16, torch.float32):
        x = torch.ones(2, 3, dtype=dtype, device=device)
        assert torch.nn.functional.rms_norm(x, (3,), torch.ones(3, device=device)).dtype == dtype


def test_local_response_norm_of_integers_is_a_float(device):
    x = torch.arange(12, device=device).reshape(1, 4, 3)
    y = torch.nn.functional.local_response_norm(x, 2)
    assert y.dtype is torch.float32
    # The mean of integers is an integer, as in PyTorch.
    want = [0.0, 1.0, 1.9997001, 2.9991004, 3.9976015, 4.9947567, 5.9901195, 6.9832468, 7.9737015, 8.961048, 9.944857]
    assert y.flatten().tolist() == pytest.approx([*want, 10.924706], rel=1e-6)
