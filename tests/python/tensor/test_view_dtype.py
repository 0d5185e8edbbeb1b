"""`Tensor.view(dtype)`."""

import pytest

import pytpu as torch


def test_view_of_another_dtype(device):
    f = torch.tensor([1.0, -2.0, 3.5, 0.0], device=device)
    assert f.view(torch.int32).tolist() == [1065353216, -1073741824, 1080033280, 0]
    assert f.view(torch.int16).tolist() == [0, 16256, 0, -16384, 0, 16480, 0, 0]
    assert f.view(torch.uint8).shape == (16,) and f.view(torch.uint8)[:4].tolist() == [0, 0, 128, 63]
    assert f.view(torch.int64).tolist() == [1065353216 + (-1073741824 << 32), 1080033280]
    assert f.view(torch.complex64).tolist() == [1 - 2j, 3.5 + 0j]
    assert torch.tensor([1 + 2j], device=device).view(torch.float32).tolist() == [1.0, 2.0]
    assert torch.tensor(1.0, device=device).view(torch.int32).item() == 1065353216
    assert (f > 0).view(torch.uint8).tolist() == [1, 0, 1, 0]
    assert torch.equal(f.view(torch.uint8).view(torch.float32), f)
    grid = torch.arange(8, dtype=torch.int32, device=device).reshape(2, 4)
    assert grid.t().view(torch.float32).shape == (4, 2)
    assert grid[:, 2:].view(torch.int64).tolist() == [[2 + (3 << 32)], [6 + (7 << 32)]]
    assert not f.clone().requires_grad_().view(torch.bfloat16).requires_grad


def test_a_view_of_another_dtype_shares_memory(device):
    f = torch.tensor([1.0, -2.0, 3.5, 0.0], device=device)
    f.view(torch.int32)[0] = 0x40000000
    assert f.tolist() == [2.0, -2.0, 3.5, 0.0]
    f.view(torch.int16)[3] = 0x3F80
    assert f.tolist() == [2.0, 1.0, 3.5, 0.0]
    bits = f[1:3].view(torch.int32)
    f.add_(1)
    assert bits.tolist() == [0x40000000, 0x40900000]
    f.view(torch.int64).zero_()
    assert f.tolist() == [0.0] * 4


VIEWS_REFUSED = [
    (
        lambda i, c: i[:, 1:].view(torch.int64),
        "self.size(-1) must be divisible by 2 to view Int as Long (different element sizes), but got 3",
    ),
    (
        lambda i, c: i.t().view(torch.int16),
        "self.stride(-1) must be 1 to view Int as Short (different element sizes), but got 4",
    ),
    (lambda i, c: i[0, 0].view(torch.int16), "self.dim() cannot be 0 to view Int as Short (different element sizes)"),
    (
        lambda i, c: i[0, 1:3].view(torch.int64),
        "self.storage_offset() must be divisible by 2 to view Int as Long (different element sizes), but got 1",
    ),
    (
        lambda i, c: c.conj().view(torch.float32),
        "torch.Tensor.view is not supported for conjugate view tensors when converting",
    ),
]


@pytest.mark.parametrize("view, words", VIEWS_REFUSED, ids=[words[:60] for _, words in VIEWS_REFUSED])
def test_views_of_another_dtype_are_refused(device, view, words):
    i = torch.arange(8, dtype=torch.int32, device=device).reshape(2, 4)
    c = torch.tensor([1 + 2j], device=device)
    with pytest.raises(RuntimeError) as error:
        view(i, c)
    assert words in str(error.value)
