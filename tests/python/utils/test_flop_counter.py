"""`FlopCounterMode`: floating-point operations of a block."""

import pytest

import pytpu as torch
import pytpu.nn.functional as F
from pytpu import nn
from pytpu.utils.flop_counter import FlopCounterMode


def counted(call):
    with FlopCounterMode(display=False) as counter:
        call()
    return counter


def total(call):
    return counted(call).get_total_flops()


def test_flops_are_counted_by_module():
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    counter = counted(lambda: net(torch.ones(3, 4)).sum().backward())
    counts = {name: {str(op): n for op, n in ops.items()} for name, ops in counter.get_flop_counts().items()}
    # The input needs no gradient, which saves one product in the first layer.
    assert counts == {
        "Global": {"aten.addmm": 288, "aten.mm": 384},
        "Sequential": {"aten.addmm": 288, "aten.mm": 384},
        "Sequential.0": {"aten.addmm": 192, "aten.mm": 192},
        "Sequential.2": {"aten.addmm": 96, "aten.mm": 192},
    }
    assert "Sequential.2" in counter.get_table() and "Sequential.2" not in counter.get_table(depth=1)
    assert total(lambda: None) == 0


def test_products(device):
    a, b = torch.ones(2, 3, 4, device=device), torch.ones(2, 4, 5, device=device)
    for call in (lambda: a @ b, lambda: torch.bmm(a, b), lambda: a @ b[0], lambda: torch.einsum("bij,bjk->bik", a, b)):
        assert total(call) == 2 * 2 * 3 * 4 * 5
    assert total(lambda: F.linear(a, b[0].T)) == 240
    assert total(lambda: torch.addmm(b[0, :3], a[0], b[0])) == 120
    assert total(lambda: a * a + a) == 0


def test_convolutions_and_attention():
    x = torch.ones(2, 3, 8, 8, requires_grad=True)
    assert total(lambda: nn.Conv2d(3, 6, 3, padding=1)(x)) == 2 * 64 * 9 * 2 * 3 * 6
    assert total(lambda: nn.Conv2d(3, 6, 3, padding=1)(x).sum().backward()) == 3 * 2 * 64 * 9 * 2 * 3 * 6
    assert total(lambda: nn.ConvTranspose2d(3, 6, 3, stride=2)(x)) == 2 * 64 * 9 * 2 * 3 * 6
    q = torch.ones(2, 4, 6, 8, requires_grad=True)
    product = 2 * 8 * 6 * 6 * 8
    assert total(lambda: F.scaled_dot_product_attention(q, q, q).sum().backward()) == (2 + 5) * product
    z = torch.ones(2, 5, 8)
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    assert total(lambda: attention(z, z, z)) == 2 * 10 * 8 * 32 + 2 * 2 * 2 * 2 * 5 * 5 * 4


def test_unsupported_equations_are_not_counted():
    a = torch.ones(2, 2)
    with pytest.raises(NotImplementedError, match="this einsum"):
        counted(lambda: torch.einsum("ij,jk,kl->il", a, a, a))
    assert (a + a).sum().item() == 8
