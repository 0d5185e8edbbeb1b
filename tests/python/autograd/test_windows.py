"""Gradients through windows of a tensor: diagonals, `as_strided`, `unfold`."""

import pytest

import pytpu as torch


def test_window_on_a_leaf_that_is_a_view_has_a_gradient():
    leaf = torch.arange(8.0)[2:].requires_grad_()
    leaf.as_strided((2, 2), (1, 2)).sum().backward()
    assert leaf.grad.tolist() == [1, 1, 1, 1, 0, 0]


def test_diagonals_of_empty_tensors_are_recorded(device):
    for k in (0, 1, -2):
        x = torch.zeros(2, 0, device=device).requires_grad_()
        y = torch.diagflat(x, k)
        assert y.shape == (abs(k), abs(k)) and y.requires_grad
        y.sum().backward()
        assert x.grad.shape == (2, 0)


@pytest.mark.parametrize(
    "window",
    [
        lambda y: y.diagonal(),
        lambda y: y.diagonal(1)[1:],
        lambda y: y[1:].diagonal(),
        lambda y: y.t().as_strided((3,), (5,), 1),
        lambda y: y.narrow(0, 0, 3).narrow(1, 0, 3).as_strided((3,), (5,)),
        lambda y: y.unsqueeze(0).diagonal(0, 1, 2)[0, :3],
    ],
)
def test_a_write_to_a_diagonal_is_recorded(window, device):
    x = torch.tensor([2.0, 3.0, 5.0, 7.0], device=device).requires_grad_()
    for write, result in (
        (torch.Tensor.copy_, lambda old, new: new + 0),
        (torch.Tensor.mul_, lambda old, new: old * new),
        (torch.Tensor.add_, lambda old, new: old + new),
    ):
        y = torch.arange(16.0, device=device).reshape(4, 4) * 1
        v = window(y)
        old = v.clone()
        write(v, x[: len(v)])
        assert v.requires_grad and y.requires_grad and v._base is y
        new = result(old, x[: len(v)])
        assert torch.equal(window(y), new)
        (g,) = torch.autograd.grad((y * y).sum(), x)
        (expected,) = torch.autograd.grad((new * new).sum(), x)
        assert torch.equal(g, expected)


def test_diagonal_scatter_is_differentiable(device):
    x = torch.tensor([2.0, 3.0], device=device).requires_grad_()
    for y in (torch.diagflat(x, 1), torch.diagonal_scatter(torch.zeros(2, 2, device=device), x)):
        assert y.requires_grad
        (g,) = torch.autograd.grad((y**2).sum(), x)
        assert g.tolist() == [4, 6]


@pytest.mark.parametrize(
    "data",
    [lambda x: x.mT, lambda x: x[1:], lambda x: x[:, :2], lambda x: x[1:].mT, lambda x: x.flatten()[3:9].view(2, 3)],
)
@pytest.mark.parametrize(
    "window",
    [
        lambda p: p.diagonal(),
        lambda p: p.t().diagonal(),
        lambda p: p[1:].diagonal(),
        lambda p: p.unfold(0, 2, 1),
        lambda p: p.unfold(1, 2, 1)[:, 0],
        lambda p: p.as_strided((2,), (p.stride(1),)),
    ],
)
def test_windows_on_a_parameter_whose_data_is_a_view(data, window, device):
    x = torch.arange(12.0, device=device).view(4, 3)
    p, q = (torch.nn.Parameter(torch.zeros_like(data(x))) for _ in range(2))
    p.data = data(x)
    q.data = data(x).contiguous().clone()
    got = window(p)
    # Find the window's elements in `p` by a host tensor of indices with the same strides.
    places = data(torch.arange(12).view(4, 3))
    order = torch.full((12,), -1)
    order[places] = torch.arange(p.numel()).view(p.shape)
    seen = window(places)
    want = q.flatten()[order[seen].to(device)]
    weights = torch.arange(1.0, got.numel() + 1, device=device).view(got.shape)
    assert got.shape == want.shape and torch.equal(got, want)
    assert torch.equal(*(torch.autograd.grad((y * weights).sum(), leaf)[0] for y, leaf in ((got, p), (want, q))))
    with torch.no_grad():
        window(p).mul_(2)
    assert not torch.equal(data(x), q) and torch.equal(p, data(x))


def test_windows_beyond_a_parameter_have_a_gradient_within_it(device):
    x = torch.arange(6.0, device=device).view(3, 2)
    p = torch.nn.Parameter(torch.zeros(2, 2, device=device))
    p.data = x[1:]
    y = p.as_strided((2,), (2,), 0)
    assert y.tolist() == [0, 2] == p.detach().as_strided((2,), (2,), 0).tolist()
    y.sum().backward()
    assert p.grad.tolist() == [[1, 0], [0, 0]]
    with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
        y.mul_(2)


LEAVES = {
    "steps": lambda d: torch.arange(36.0, device=d).view(6, 6)[::2, 1::2],
    "offset": lambda d: torch.arange(10.0, device=d)[2:6],
    "transposed": lambda d: torch.arange(6.0, device=d).view(2, 3).t(),
    "parameter": lambda d: torch.nn.Parameter(torch.arange(10.0, device=d)[2:6]),
}
# For each leaf and window, the sum of the gradient of `((y * w) ** 2).sum()` as PyTorch gives it.
WINDOWS = [((2, 2), (1, 2), 0), ((3,), (1,), 1), ((2, 3), (0, 1), 1), ((2,), (2,), 2), ((2, 2), (1, 1), 2)]
SUMS = {
    "steps": [114.0, 56.0, 304.0, 0.0, 78.0],
    "offset": [112.0, 70.0, 386.0, 36.0, 210.0],
    "transposed": [130.0, 72.0, 420.0, 36.0, 210.0],
    "parameter": [112.0, 70.0, 386.0, 36.0, 210.0],
}


@pytest.mark.parametrize("leaf", LEAVES)
def test_windows_beyond_the_elements_of_a_leaf(device, leaf):
    for (size, stride, offset), total in zip(WINDOWS, SUMS[leaf]):
        x = LEAVES[leaf](device).requires_grad_()
        y = x.as_strided(size, stride, offset)
        w = torch.arange(1.0, y.numel() + 1, device=device).view(y.shape)
        assert y.tolist() == x.detach().as_strided(size, stride, offset).tolist()
        ((y * w) ** 2).sum().backward()
        assert x.grad.sum().item() == total
        x.grad = None
        (g,) = torch.autograd.grad((x.as_strided(size, stride, offset) ** 3).sum(), x, create_graph=True)
        g.sum().backward()
        inside = x.grad.flatten()[x.detach().flatten() > 0].div(6)
        assert ((inside == inside.round()) & (inside >= 0)).all()
