"""Sizes and distances that nothing holds: an error, and the process goes on."""

import pytest

import pytpu as torch
from pytpu.nn import functional as F

MOST = 2**63 - 1

REFUSED = {
    "as_strided": lambda z: z(4).as_strided([3], [2**61]),
    "as_strided offset": lambda z: z(4).as_strided([3], [1], 2**62),
    "expand": lambda z: z(1, 1).expand(2**32, 2**32),
    "expanded and copied": lambda z: z(1).expand(2**61).contiguous(),
    "expanded and added": lambda z: z(1).expand(2**61) + 1,
    "linspace": lambda z: torch.linspace(0, 1, 2**40, device=z(1).device),
    "linspace, most": lambda z: torch.linspace(0, 1, MOST, device=z(1).device),
    "logspace": lambda z: torch.logspace(0, 1, 2**40, device=z(1).device),
    "arange": lambda z: torch.arange(MOST, device=z(1).device),
    "randperm": lambda z: torch.randperm(MOST, device=z(1).device),
    "randn": lambda z: torch.randn(2**61, device=z(1).device),
    "zeros": lambda z: z(2**40, 2**40),
    "new_zeros": lambda z: z(2, 2).new_zeros(2**40, 2**30),
    "eye": lambda z: torch.eye(2**40, device=z(1).device),
    "tril_indices": lambda z: torch.tril_indices(2**40, 2**40, device=z(1).device),
    "triu_indices": lambda z: torch.triu_indices(2**33, 2**33, device=z(1).device),
    "repeat": lambda z: z(2).repeat(2**62),
    "repeat, two": lambda z: z(2).repeat(2**40, 2**40),
    "repeat, many": lambda z: z(1, 1, 1, 1, 2).repeat(1, 2**40, 1, 1, 2**40),
    "repeat_interleave": lambda z: z(2).repeat_interleave(2**62),
    "repeat_interleave by": lambda z: z(2).repeat_interleave(torch.tensor([2**62, 2**62])),
    "cat": lambda z: torch.cat([z(1).expand(2**62)] * 4),
    "outer": lambda z: torch.outer(z(1).expand(2**40), z(1).expand(2**40)),
    "conv padding": lambda z: F.conv2d(z(1, 1, 4, 4), z(1, 1, 3, 3), padding=2**62),
    "conv padding, large": lambda z: F.conv2d(z(1, 1, 4, 4), z(1, 1, 3, 3), padding=10**9),
    "conv dilation": lambda z: F.conv2d(z(1, 1, 4, 4), z(1, 1, 3, 3), dilation=2**62),
    "conv_transpose": lambda z: F.conv_transpose2d(z(1, 1, 4, 4), z(1, 1, 3, 3), stride=2**62),
    "interpolate": lambda z: F.interpolate(z(1, 1, 4, 4), size=(2**40, 2**40)),
    "adaptive pool": lambda z: F.adaptive_avg_pool2d(z(1, 1, 4, 4), (2**40, 2**40)),
    "pad": lambda z: F.pad(z(4), (2**62, 2**62)),
    "combinations": lambda z: torch.combinations(z(60), 30),
}


@pytest.mark.parametrize("case", REFUSED)
def test_sizes_that_nothing_holds_are_refused(device, case):
    def zeros(*size):
        return torch.zeros(*size, device=device)

    with pytest.raises(RuntimeError):
        REFUSED[case](zeros)
    assert (zeros(2) + 1).tolist() == [1, 1]


def test_large_steps_and_views_are_none_of_them(device):
    x = torch.arange(5.0, device=device)
    assert x[:: 2**63 - 1].tolist() == [0]
    assert x.unfold(0, 2, 2**62).tolist() == [[0, 1]]
    assert x[:1].expand(2**61).shape == (2**61,)
    y = x.clone().requires_grad_()
    y[1 :: 2**62].sum().backward()
    assert y.grad.tolist() == [0, 1, 0, 0, 0]


def test_repeats_of_many_dimensions(device):
    x = torch.arange(6.0, device=device).reshape(1, 2, 1, 1, 3).requires_grad_()
    y = x.repeat(2, 1, 3, 0, 2)
    assert y.shape == (2, 2, 3, 0, 6)
    y = x.repeat(2, 2, 3, 1, 2)
    assert y.shape == (2, 4, 3, 1, 6) and y[1, 3, 2, 0].tolist() == [3, 4, 5, 3, 4, 5]
    y.sum().backward()
    assert x.grad.unique().tolist() == [24]


def test_triangles_indices_in_every_place():
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
