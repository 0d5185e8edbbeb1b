"""A number with an imaginary part is never written into a real tensor as its real part."""

import pytest

import pytpu as torch

CALLS = {
    "masked_fill": lambda x, v: x.masked_fill(_mask(x), v),
    "masked_fill_": lambda x, v: x.masked_fill_(_mask(x), v),
    "index_fill": lambda x, v: x.index_fill(0, _index(x), v),
    "index_fill_": lambda x, v: x.index_fill_(0, _index(x), v),
    "setitem": lambda x, v: x.__setitem__(_mask(x), v),
    "fill_": lambda x, v: x.fill_(v),
    "full_like": lambda x, v: torch.full_like(x, v),
    "index_add": lambda x, v: x.index_add(0, _index(x), x[:1], alpha=v),
    "addmm": lambda x, v: torch.addmm(x.view(1, 2), x[:1].view(1, 1), x.view(1, 2), alpha=v),
    "baddbmm": lambda x, v: torch.baddbmm(x.view(1, 1, 2), x[:1].view(1, 1, 1), x.view(1, 1, 2), beta=v),
    "addr": lambda x, v: torch.addr(x.view(1, 2), x[:1], x, beta=v),
    "arange": lambda x, v: torch.arange(0, v, dtype=x.dtype, device=x.device),
}


def _mask(x):
    return torch.tensor([True, False], device=x.device)


def _index(x):
    return torch.tensor([0], device=x.device)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.float64])
def test_an_imaginary_part_is_refused(device, name, dtype):
    for value in (1 + 2j, torch.tensor(1 + 2j, device=device)):
        x = torch.zeros(2, dtype=dtype, device=device)
        with pytest.raises(RuntimeError, match="cannot be converted to type|Converting complex Scalar to non-complex"):
            CALLS[name](x, value)
        assert x.tolist() == [0, 0]


def test_a_complex_number_without_an_imaginary_part_is_taken(device):
    x = torch.zeros(2, dtype=torch.int64, device=device)
    assert x.masked_fill(_mask(x), torch.tensor(3 + 0j, device=device)).tolist() == [3, 0]
    assert x.to(torch.complex64).index_fill(0, _index(x), 1 + 2j).tolist() == [1 + 2j, 0]


def test_gradients_with_complex_distances(device):
    x = torch.arange(4.0, device=device) ** 2
    h = 1 + 1j
    for got in (
        torch.gradient(x, spacing=h)[0],
        torch.gradient(x, spacing=[h], dim=0)[0],
        torch.gradient(x, spacing=torch.tensor(h, device=device))[0],
        torch.gradient(x, spacing=(torch.arange(4, device=device) * h,))[0],
    ):
        assert got.dtype == torch.complex64
        assert torch.allclose(got, torch.gradient(x)[0] / h)
    second = torch.gradient(x.to(torch.complex64), spacing=h, edge_order=2)[0]
    assert torch.allclose(second, torch.gradient(x, edge_order=2)[0] / h)
