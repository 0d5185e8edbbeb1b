"""Gradients at bounds and beside NaN that once differed from PyTorch's."""

import pytest

import pytpu as torch
from pytpu.nn import functional as F


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_gradient_at_a_bound_is_zero(device, dtype):
    for f, xs, slopes in [
        (F.relu6, [-1.0, 0.0, 1.0, 6.0, 7.0], [0.0, 0.0, 1.0, 0.0, 0.0]),
        (F.hardtanh, [-2.0, -1.0, 0.5, 1.0, 2.0], [0.0, 0.0, 1.0, 0.0, 0.0]),
        (F.hardsigmoid, [-4.0, -3.0, 0.0, 3.0, 4.0], [0.0, 0.0, 1 / 6, 0.0, 0.0]),
    ]:
        x = torch.tensor(xs, dtype=dtype, device=device, requires_grad=True)
        f(x).sum().backward()
        assert torch.equal(x.grad, torch.tensor(slopes, device=device).to(dtype)), f


def test_the_gradient_of_clamp_stays_within_numbers_and_is_shared_with_tensors(device):
    def gradient(function, *more):
        x = torch.tensor([-2.0, -1.0, 0.0, 1.0, 2.0, float("nan")], device=device, requires_grad=True)
        function(x, *more).sum().backward()
        return x.grad.tolist()

    assert gradient(lambda x: x.clamp(-1, 1)) == [0, 0, 1, 0, 0, 0]
    assert gradient(lambda x: x.clamp(min=-1)) == [0, 0, 1, 1, 1, 0]
    assert gradient(lambda x: x.clamp_max(1)) == [1, 1, 1, 0, 0, 0]
    low = torch.full((6,), -1.0, device=device, requires_grad=True)
    high = torch.full((6,), 1.0, device=device, requires_grad=True)
    assert gradient(lambda x: x.clamp(low, high))[:5] == [0, 0.5, 1, 0.5, 0]
    assert low.grad.tolist()[:5] == [1, 0.5, 0, 0, 0]
    assert high.grad.tolist()[:5] == [0, 0, 0, 0.5, 1]
    # Functions that clamp on the way keep their own gradients at the bounds.
    assert gradient(lambda x: torch.nn.functional.softshrink(x, 1.0))[:5] == [1, 0, 0, 0, 1]
    assert gradient(lambda x: torch.nn.functional.hardtanh(x))[:5] == [0, 0, 1, 0, 0]


def test_gradients_of_maxima_beside_nan(device):
    nan = float("nan")
    want = {
        "maximum": ([0.5, 1, 0, 1, 1, 1], [0.5, 0, 1, 1, 1, 1]),
        "minimum": ([0.5, 0, 1, 1, 1, 1], [0.5, 1, 0, 1, 1, 1]),
        "fmax": ([0.5, 1, 0, 0, 1, 1], [0.5, 0, 1, 1, 0, 0]),
        "fmin": ([0.5, 0, 1, 0, 1, 1], [0.5, 1, 0, 1, 0, 0]),
    }
    for name, gradients in want.items():
        a = torch.tensor([1, 2, 1, nan, 1, nan], device=device, requires_grad=True)
        b = torch.tensor([1, 1, 2, 1, nan, nan], device=device, requires_grad=True)
        getattr(torch, name)(a, b).sum().backward()
        assert (a.grad.tolist(), b.grad.tolist()) == gradients, name
