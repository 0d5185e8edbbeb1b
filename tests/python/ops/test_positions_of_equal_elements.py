"""Positions that `mode` and `median` report among equal elements."""

import pytest

import pytpu as torch

NAN = float("nan")

# The length of a row, and the positions that PyTorch's CPU reports: of the mode, of the median, of the mode as `bool`.
RECORDED = [(17, 0, 3, 2), (20, 0, 8, 19), (33, 5, 13, 9), (64, 60, 28, 38), (150, 0, 73, 73)]


@pytest.mark.parametrize(("length", "mode", "median", "of_bool"), RECORDED)
def test_positions_on_cpu_are_pytorchs(length, mode, median, of_bool):
    x = torch.tensor([(i * i * 7 + i * 3) % 5 for i in range(length)])
    for dtype in (torch.int64, torch.int32, torch.float32, torch.float64, torch.bfloat16):
        y = x.to(dtype)
        assert y.mode().indices.item() == mode
        assert y.median(0).indices.item() == y.nanmedian(0).indices.item() == median
        assert y[:, None].expand(-1, 2).mode(0).indices.tolist() == [mode] * 2
        assert y.mode(keepdim=True).values.tolist() == [0]
    assert x.bool().mode().indices.item() == of_bool


def test_medians_are_those_of_a_stable_sort(device):
    x = torch.tensor([[1, 1, 1, 1, 1], [1, 0, 1, 2, 1], [2, 1, 1, 0, 1]], device=device)
    assert x.median(1).indices.tolist() == [2, 2, 2]
    assert x[:, :4].median(1).indices.tolist() == [1, 0, 1]
    y = torch.where(x == 2, NAN, x.double())
    assert y[:, :4].nanmedian(1).indices.tolist() == [1, 0, 1]


def test_nan_part_the_elements_of_a_short_row():
    x = torch.tensor([[1, NAN, 1, NAN, NAN], [NAN, 2, 2, NAN, 3]])
    y = x.mode()
    assert y.values.tolist() == [1, 2] and y.indices.tolist() == [0, 2]


def test_the_gradient_of_a_mode_goes_to_its_position(device):
    x = torch.tensor([[3.0, 1, 3, 2], [5, 5, 4, 4]], device=device, requires_grad=True)
    values, at = x.mode(1)
    values.backward(torch.tensor([2.0, 7], device=device))
    assert values.tolist() == [3, 4] and at.tolist() == [2, 3]
    assert x.grad.tolist() == [[0, 0, 2, 0], [0, 0, 0, 7]]
