"""Activations: random slopes and in-place forms."""

import pytest

import pytpu as torch
from pytpu.nn import functional as F

SLOPES = [-0.11364328116178513, -0.21469609439373016, -0.40916597843170166, -0.1699708104133606]


def test_random_slopes_follow_the_stream():
    torch.manual_seed(3)
    assert F.rrelu(-torch.ones(4), 0.1, 0.5, True).tolist() == pytest.approx(SLOPES, abs=1e-7)


def test_in_place_activations_exist_as_functions():
    x = torch.tensor([-2.0, 0.5, 2.0])
    assert torch.clamp_(x, -1, 1) is x and x.tolist() == [-1, 0.5, 1]
    assert torch.threshold_(x, 0.6, 0).tolist() == [0, 0, 1]
    assert torch.fill_(x, 3).tolist() == [3, 3, 3] and torch.zero_(x).tolist() == [0, 0, 0]
    assert not hasattr(torch, "add_")
    square = torch.zeros(5, 2).fill_diagonal_(1, wrap=True)
    assert square.tolist() == [[1, 0], [0, 1], [0, 0], [1, 0], [0, 1]]
