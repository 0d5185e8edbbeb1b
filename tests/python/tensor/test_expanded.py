"""Writes to expanded tensors."""

import pytest

import pytpu as torch
from pytpu.testing import assert_close


def test_writes_to_parts_of_expanded_tensors(device):
    x = torch.zeros(3, device=device)
    x.expand(2, 3)[0].add_(1)
    assert x.tolist() == [1, 1, 1]
    x.expand(2, 3)[1, 1:].mul_(5)
    assert x.tolist() == [1, 5, 5]
    x.expand(2, 3).fill_(4)
    assert x.tolist() == [4, 4, 4]
    x.expand(2, 3)[:, 1].zero_()
    assert x.tolist() == [4, 0, 4]
    x.expand(2, 3)[2:] = 7
    assert x.tolist() == [4, 0, 4]
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        x.expand(2, 3).add_(1)


@pytest.mark.parametrize(
    "write",
    [
        lambda e: e[0].mul_(2),
        lambda e: e[1, 2].add_(5).mul_(e[0, 0].detach() + 1),
        lambda e: e[2][:, 1].fill_(3),
        lambda e: e[2, ::2].exp_(),
    ],
)
def test_gradients_of_writes_to_parts_of_expanded_tensors(write, device):
    factors = torch.arange(16.0, device=device).view(4, 4)

    def run(expand):
        x = torch.arange(16.0, device=device).view(4, 4).div(8).requires_grad_()
        y = x * 1
        # All copies share their memory.
        write(y.unsqueeze(0).expand(3, 4, 4) if expand else _Copies(y))
        (y * factors).sum().backward()
        return y.detach(), x.grad

    assert_close(run(True), run(False))


class _Copies:
    """Index three copies of one matrix."""

    def __init__(self, y):
        self.y = y

    def __getitem__(self, at):
        rest = at[1:] if isinstance(at, tuple) else ()
        return self.y[rest] if rest else self.y
