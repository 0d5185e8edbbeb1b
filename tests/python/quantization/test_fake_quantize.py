"""Fake quantization of tensors and of channels."""

import numpy as np
import pytest

import pytpu as torch

X, M, B = torch.ones(2), torch.ones(2, 2), torch.ones(2, 2, 2)


def _quantised(x, scale, zero, low, high, late=False):
    v = x.astype(np.float32) * (np.float32(1) / scale.astype(np.float32))
    q = np.rint(v + zero) if late else np.rint(v) + zero
    inside = (q >= low) & (q <= high)
    return (np.clip(q, low, high) - zero) * scale.astype(np.float32), inside


def test_fake_quantisation_of_a_tensor(device):
    x = (torch.arange(-40, 41) * 0.05).to(device)
    for args in ((0.1, 2, -8, 7), (torch.tensor(0.1), torch.tensor(2), -8, 7)):
        v = x.clone().requires_grad_()
        y = torch.fake_quantize_per_tensor_affine(v, *args)
        want, inside = _quantised(x.cpu().numpy(), np.float32(0.1), 2, -8, 7)
        assert np.allclose(y.detach().cpu().numpy(), want, atol=1e-6)
        y.backward(torch.full_like(y, 3))
        assert v.grad.tolist() == (inside * 3.0).tolist()


def test_fake_quantisation_of_nan_and_infinity(device):
    x = torch.tensor([float("nan"), float("inf"), -float("inf")], device=device)
    y = torch.fake_quantize_per_tensor_affine(x, 0.5, 0, -8, 7)
    assert y.tolist() == [-4, 3.5, -4]


def test_fake_quantisation_of_channels(device):
    x = (torch.arange(-24, 24) * 0.05).reshape(2, 3, 8)
    scale = torch.tensor([0.1, 0.2, 0.3])
    for zero, late in ((torch.tensor([0, 5, 10], dtype=torch.int32), False), (torch.tensor([0.5, 5.0, 9.5]), True)):
        v = x.to(device).clone().requires_grad_()
        y = torch.fake_quantize_per_channel_affine(v, scale.to(device), zero.to(device), 1, 0, 15)
        s, z = scale.numpy().reshape(3, 1), zero.numpy().reshape(3, 1).astype(np.float32)
        want, inside = _quantised(x.numpy(), s, z, 0, 15, late)
        assert np.allclose(y.detach().cpu().numpy(), want, atol=1e-6)
        y.sum().backward()
        assert v.grad.cpu().numpy().tolist() == inside.astype(float).tolist()


@pytest.mark.parametrize(
    "call, text",
    [
        (
            lambda: torch.fake_quantize_per_tensor_affine(X, 0.1, 300, 0, 255),
            "`zero_point` must be between `quant_min` and `quant_max`.",
        ),
        (lambda: torch.fake_quantize_per_tensor_affine(X, 0.1, 0, 5, -5), "`quant_min` should be less than or"),
        (lambda: torch.fake_quantize_per_tensor_affine(X.int(), 0.1, 0, 0, 5), "not implemented for 'Int'"),
        (
            lambda: torch.fake_quantize_per_channel_affine(M, X, X.long(), 0, 0, 15),
            "Zero-point must be Int32, Float or Half, found Long",
        ),
        (
            lambda: torch.fake_quantize_per_channel_affine(M, X.double(), X.int(), 0, 0, 15),
            "Scale must be Float or BFloat16, found Double",
        ),
        (
            lambda: torch.fake_quantize_per_channel_affine(M, X, X.int()[:1], 0, 0, 15),
            "need to have the same dimensions",
        ),
        (
            lambda: torch.fake_quantize_per_channel_affine(torch.ones(2, 3), X, X.int(), 1, 0, 15),
            "are not consistent with input tensor",
        ),
    ],
)
def test_fake_quantisation_refuses(call, text):
    with pytest.raises(RuntimeError) as e:
        call()
    assert text in str(e.value)
