"""`segment_reduce`."""

import math

import pytest

import pytpu as torch


def test_segments(device):
    x = torch.arange(6, device=device, dtype=torch.float32)
    lengths = torch.tensor([2, 0, 4], device=device)
    assert torch.segment_reduce(x, "sum", lengths=lengths).tolist() == [1, 0, 14]
    assert torch.segment_reduce(x, "max", lengths=lengths).tolist() == [1, -math.inf, 5]
    offsets = torch.tensor([0, 2, 2, 6], device=device)
    assert torch.segment_reduce(x, "mean", offsets=offsets, initial=0).tolist() == [0.5, 0, 3.5]


def test_segments_must_fill_the_dimension():
    with pytest.raises(RuntimeError, match="Expected all rows of lengths along axis to sum"):
        torch.segment_reduce(torch.ones(4), "sum", lengths=torch.tensor([1, 2]))
