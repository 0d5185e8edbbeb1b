"""Ops that take or return indices."""

import pytest

import pytpu as torch


def test_index_reduce(device):
    x = torch.tensor([1.0, 2.0, 3.0], device=device)
    at, src = torch.tensor([0, 0, 2], device=device), torch.tensor([4.0, 5.0, 6.0], device=device)
    assert x.index_reduce(0, at, src, "prod").tolist() == [20, 2, 18]
    assert x.index_reduce(0, at, src, "amax", include_self=False).tolist() == [5, 2, 6]
    assert x.index_reduce(0, at, src, "mean").tolist() == pytest.approx([10 / 3, 2, 4.5])
    with pytest.raises(RuntimeError, match="Expected reduce to be one of"):
        x.index_reduce(0, at, src, "sum")


def test_index_reduce_refuses_an_index_out_of_range():
    with pytest.raises(IndexError, match="index out of range in self"):
        torch.ones(3).index_reduce(0, torch.tensor([3]), torch.ones(1), "amin")


def test_nonzero_static_pads_and_cuts(device):
    x = torch.tensor([[0, 3], [4, 0]], device=device)
    assert torch.nonzero_static(x, size=3).tolist() == [[0, 1], [1, 0], [-1, -1]]
    assert torch.nonzero_static(x, size=1, fill_value=9).tolist() == [[0, 1]]


def test_unravel_index_undoes_raveling(device):
    at = torch.tensor([0, 7, 23], device=device)
    assert [c.tolist() for c in torch.unravel_index(at, (2, 3, 4))] == [[0, 0, 1], [0, 1, 2], [0, 3, 3]]


def test_as_strided_scatter_replaces_a_window(device):
    x = torch.zeros(2, 3, device=device)
    y = torch.as_strided_scatter(x, torch.ones(2, device=device), (2,), (4,), 1)
    assert y.tolist() == [[0, 1, 0], [0, 0, 1]] and x.sum().item() == 0


def test_indices_along_a_dimension_wrap(device):
    x = torch.arange(10.0, device=device).view(2, 5)
    at = torch.tensor([[-1, -6, 7]], device=device)
    assert torch.take_along_dim(x, at, 1).tolist() == [[4.0, 4.0, 2.0], [9.0, 9.0, 7.0]]
    with pytest.raises((IndexError, RuntimeError), match="index -1 is out of bounds for dimension 0 with size 10"):
        torch.take_along_dim(x, torch.tensor([-1], device=device)).tolist()


def test_narrow_takes_its_start_from_a_tensor(device):
    x = torch.arange(5.0, device=device)
    assert x.narrow(0, torch.tensor(1), 2).tolist() == [1.0, 2.0]
    assert x.narrow(0, torch.tensor(-2, device=device), 2).tolist() == [3.0, 4.0]


def test_tril_and_triu_indices_of_every_offset():
    for rows, columns in [(3, 4), (4, 3), (0, 3), (3, 0), (1, 1)]:
        for offset in [-5, -2, -1, 0, 1, 2, 5, -(2**63), 2**63 - 1]:
            full = [(r, c) for r in range(rows) for c in range(columns)]
            lower = [(r, c) for r, c in full if c <= r + offset]
            upper = [(r, c) for r, c in full if c >= r + offset]
            assert torch.tril_indices(rows, columns, offset).T.tolist() == [list(p) for p in lower]
            assert torch.triu_indices(rows, columns, offset).T.tolist() == [list(p) for p in upper]


def test_combinations():
    x = torch.tensor([1, 2, 3])
    assert torch.combinations(x).tolist() == [[1, 2], [1, 3], [2, 3]]
    assert torch.combinations(x, 2, with_replacement=True).tolist() == [[1, 1], [1, 2], [1, 3], [2, 2], [2, 3], [3, 3]]
    assert torch.combinations(x, 4).shape == (0, 4) and torch.combinations(x[:0], 2).shape == (0, 2)


def test_indices_into_empty_dimensions_raise(device):
    zeros, at = torch.zeros(0, 3, device=device), torch.tensor([0], device=device)
    before = torch.ones(3, device=device) + 1
    with pytest.raises(RuntimeError, match="self indexing axis dim should be positive"):
        zeros.index_select(0, at)
    with pytest.raises((RuntimeError, IndexError)):
        torch.nn.functional.embedding(at, zeros)
    with pytest.raises(RuntimeError, match="out of bounds for dimension 0 with size 0"):
        zeros[:, 0].gather(0, at)
    with pytest.raises(RuntimeError, match="out of bounds for dimension 0 with size 0"):
        zeros[:, 0].scatter(0, at, 1.0)
    assert zeros.index_select(0, at[:0]).shape == (0, 3)
    assert before.tolist() == [2, 2, 2]


def test_roll_without_dimensions(device):
    x = torch.arange(4, device=device).reshape(2, 2)
    assert x.roll(1, dims=None).tolist() == torch.roll(x, 1).tolist() == [[3, 0], [1, 2]]
