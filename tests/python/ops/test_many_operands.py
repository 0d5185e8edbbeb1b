"""``cat`` and ``stack`` of many operands."""

import pytest

import pytpu as torch


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.int64, torch.complex64], ids=str)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_many_given_and_computed_operands_are_joined_in_their_order(dim, dtype, device):
    x = (torch.arange(150).reshape(150, 1, 1) % 7 + torch.arange(6).reshape(2, 3)).to(dtype).to(device)
    given = [x[i].clone() for i in range(100)]
    computed = [(given[i] != given[i - 1]) if dtype is torch.bool else given[i] + given[i - 1] for i in range(90)]
    operands = [*given[:70], *computed[:45], *given[70:], *computed[45:]]
    stacked, joined = torch.stack(operands, dim), torch.cat(operands, dim)
    assert all(torch.equal(stacked.select(dim, i), v) for i, v in enumerate(operands))
    size = given[0].shape[dim]
    assert all(torch.equal(joined.narrow(dim, i * size, size), v) for i, v in enumerate(operands))


def test_gradients_reach_every_one_of_many_operands(device):
    x = torch.ones(4, device=device, requires_grad=True)
    y = torch.stack([x * i for i in range(100)]) * torch.arange(100.0, device=device).reshape(-1, 1)
    y.sum().backward()
    assert x.grad.tolist() == [sum(i * i for i in range(100))] * 4


def test_vectors_without_elements_are_joined_along_any_dimension():
    e = torch.randn(0)
    assert torch.cat([e, e], dim=1).shape == torch.cat([e], dim=-2).shape == (0,)
    assert torch.cat([e, torch.ones(2, 3)], dim=1).shape == (2, 3)
