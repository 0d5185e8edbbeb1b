"""Values and dtypes that once differed from PyTorch's."""

import math

import pytest

import pytpu as torch
from pytpu.nn import functional as F


def test_values_equal_pytorchs(device):
    nan = torch.tensor([math.nan, -2.0], device=device)
    assert nan.sign().tolist() == [0.0, -1.0]
    assert torch.add(torch.tensor([True]), torch.tensor([True]), alpha=2).dtype is torch.bool
    x = torch.arange(6.0, device=device).reshape(1, 2, 3)
    assert x.moveaxis(0, -1).shape == (2, 3, 1)
    target = torch.tensor([2], dtype=torch.uint8, device=device)
    assert torch.equal(F.nll_loss(x[:, 0], target), F.nll_loss(x[:, 0], target.long()))
    assert torch.isin(torch.tensor([1, 2, 3], device=device), 2).tolist() == [False, True, False]
    logits = torch.zeros(3, device=device)
    assert math.isclose(F.binary_cross_entropy_with_logits(logits, logits).item(), math.log(2), rel_tol=1e-6)
    ys = torch.tensor([0.0, 3.0], device=device)
    assert F.huber_loss(ys, ys * 0, reduction="none").tolist() == [0.0, 2.5]
    assert F.smooth_l1_loss(ys, ys * 0, beta=2.0, reduction="none").tolist() == [0.0, 2.0]


def test_bools_times_nan_are_nan(device):
    b = torch.tensor([True, False], device=device)
    for y in (b * math.nan, b.float() * torch.tensor([math.nan] * 2, device=device)):
        assert y.isnan().tolist() == [True, True]
    assert (b * math.inf).tolist()[0] == math.inf and (b * math.inf)[1].isnan().item()
    assert (b / 0).tolist()[0] == math.inf and (b / 0)[1].isnan().item()


def test_bools_are_divided_by_numbers(device):
    truth, two = torch.tensor([True, False], device=device), torch.tensor([2, 1], device=device)
    for mode in ("trunc", "floor"):
        y = torch.div(truth, two, rounding_mode=mode)
        assert y.tolist() == [0, 0] and y.dtype is torch.int64
        assert torch.div(truth, 1, rounding_mode=mode).tolist() == [1, 0]
        with pytest.raises(NotImplementedError, match=f"\"div_{mode}_cpu\" not implemented for 'Bool'"):
            torch.div(truth, truth, rounding_mode=mode)


def test_searches_among_numbers_of_another_dtype(device):
    floats, ints = torch.tensor([1.5, 2.5], device=device), torch.tensor([1, 2, 3], device=device)
    assert torch.searchsorted(ints, floats).tolist() == [1, 2]
    assert torch.bucketize(ints, floats).tolist() == [0, 1, 2]


def test_searchsorted_resolves_negated_views(device):
    n = torch.tensor([1 + 2.5j, 1 - 3j], device=device).conj().imag
    rows = torch.tensor([-3.0, -2, 0, 2, 3], device=device)
    for f in (lambda v: torch.searchsorted(rows, v), lambda v: torch.bucketize(v, rows)):
        assert f(n).tolist() == f(n.clone()).tolist() == [1, 4]
    assert (
        torch.searchsorted(
            torch.tensor([-1j, 1j], device=device).conj().imag.flip(0), torch.tensor([0.0], device=device)
        ).item()
        == 1
    )
