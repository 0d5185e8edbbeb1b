"""Masked reductions against NumPy, on both devices."""

import numpy as np
import pytest

import pytpu as torch

RNG = np.random.default_rng(7)


def array(*sizes):
    return RNG.standard_normal(sizes).astype(np.float32)


def test_masked_reductions_leave_out(device, close):
    a = array(3, 5)
    keep = RNG.random((3, 5)) > 0.4
    keep[:, 0] = True
    x, mask = torch.from_numpy(a).to(device), torch.from_numpy(keep).to(device)
    m = np.ma.masked_array(a, ~keep)
    for name, want in {
        "sum": m.sum(1),
        "prod": m.prod(1),
        "mean": m.mean(1),
        "amax": m.max(1),
        "amin": m.min(1),
        "var": m.var(1, ddof=1),
        "std": m.std(1, ddof=1),
    }.items():
        close(getattr(torch.masked, name)(x, 1, mask=mask), want.filled(np.nan), rtol=1e-4, atol=1e-5)
    soft = torch.masked.softmax(x, 1, mask=mask)
    assert torch.allclose(soft.sum(1).cpu(), torch.ones(3)) and (soft.cpu()[~mask.cpu()] == 0).all()


def test_masked_elements_have_no_gradient(device):
    x = torch.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True)
    torch.masked.mean(x, mask=torch.tensor([True, False, True], device=device)).backward()
    assert x.grad.tolist() == [0.5, 0, 0.5]


def test_masks_may_not_have_more_dimensions():
    with pytest.raises(IndexError, match="mask dimensionality higher"):
        torch.masked.sum(torch.ones(3), mask=torch.ones(2, 3, dtype=torch.bool))
