"""Views: `as_strided`, `stack`, tensors without dimensions."""

import pytest

import pytpu as torch


def test_as_strided_counts_from_the_storage(device):
    b = torch.arange(24.0, device=device).reshape(4, 6)
    assert b.t().detach().as_strided((2, 2), (3, 1), 1).tolist() == [[1, 2], [4, 5]]
    assert b[1:].detach().t().as_strided((2, 2), (3, 1)).tolist() == [[6, 7], [9, 10]]
    assert b[1:].detach().t().diagonal().tolist() == [6, 13, 20]
    b.t().data.as_strided((2, 2), (3, 1), 1).zero_()
    assert b[0].tolist() == [0, 0, 0, 3, 0, 0] and b[1:].flatten().tolist() == list(range(6, 24))


def test_stacked_tensors_are_no_view(device):
    x = torch.zeros(2, 3, device=device)
    for dim in (0, 1, 2):
        y = torch.stack([x] * 20, dim)
        assert not y._is_view() and y.shape[dim] == 20
        y += 1
        assert y.sum().item() == 120 and x.sum().item() == 0


def test_dimensions_of_numbers(device):
    x = torch.tensor(1.0, device=device)
    assert x.movedim(0, 0).shape == x.movedim(-1, 0).shape == x.movedim((), ()).shape == ()
    with pytest.raises(IndexError):
        x.moveaxis(0, 1)
    with pytest.raises(RuntimeError, match="unflatten got an unexpected error"):
        x.unflatten(0, (1, 1))
