"""16-bit tensors with Python numbers: the number keeps full precision."""

import pytest

import pytpu as torch


def test_numbers_keep_full_precision_beside_16_bit_tensors(device):
    # The number overflows float16, or lies between two of its values. The results are representable.
    half = torch.tensor([6.0e4, 2.0, -3.0], dtype=torch.float16, device=device)
    assert (half / 1e6).tolist() == [0.05999755859375, 2.0265579223632812e-06, 2.9802322387695312e-06 * -1]
    assert (1e6 / half).tolist()[0] == pytest.approx(16.67, rel=2e-3)
    assert (half[1:] * 1e-9 * 1e9).tolist() == [0.0, 0.0]
    assert (half[1:] * 1e-6).tolist() == (half[1:] / 1e6).tolist()
    wide = torch.linspace(-4, 4, 300, device=device).bfloat16()
    for number in (0.1, 3.3, 300001, 1e-3):
        assert torch.equal(wide * number, (wide.float() * number).bfloat16())
        assert torch.equal(number * wide, wide * number)
        assert torch.equal(wide / number, (wide.float() / number).bfloat16())
        assert torch.equal(wide // number, (wide.float() // number).bfloat16())
        assert torch.equal(wide.clone().mul_(number), wide * number)
        assert torch.equal(wide[::3] * number, (wide * number)[::3])
        assert torch.equal(wide * torch.tensor(number), wide * number)
        assert torch.equal(wide.div(number, rounding_mode="trunc"), (wide.float() / number).trunc().bfloat16())
        # Sums, powers and comparisons round the number first.
        rounded = torch.tensor(number, device=device).bfloat16()
        assert torch.equal(wide + number, wide + rounded)
        assert torch.equal(wide < number, wide < rounded)
    assert torch.equal(
        torch.lerp(wide, wide.flip(0), 0.3), torch.lerp(wide.float(), wide.flip(0).float(), 0.3).bfloat16()
    )


def test_gradients_of_sixteen_bits_and_a_number(device):
    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.bfloat16, device=device, requires_grad=True)
    (x * 0.1).sum().backward()
    assert x.grad.dtype is torch.bfloat16 and x.grad.tolist() == [0.10009765625] * 3
    x.grad = None
    (x / 3.3).sum().backward()
    assert x.grad.tolist() == [torch.tensor(1 / 3.3).bfloat16().item()] * 3


def test_another_number_beside_16_bits_compiles_nothing():
    x = torch.ones(4, dtype=torch.bfloat16, device="tpu")
    x.tolist()
    (x * 0.3).tolist()
    before = torch.tpu.compilation_count()
    assert (x * 0.7).tolist() == [0.69921875] * 4
    assert (x * 2.0).tolist() == [2.0] * 4
    assert torch.tpu.compilation_count() == before
