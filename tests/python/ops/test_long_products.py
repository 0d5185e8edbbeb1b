"""Products with long vectors keep the digits of their dtype."""

import pytest

import pytpu as torch

_K = 262_144


def _error(y, number):
    """Return the largest relative error of a product of ``_K`` equal numbers."""
    want = _K * number.double() ** 2
    return ((y.double().cpu() - want).abs() / want.abs()).max().item()


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1.7])
def test_dot_of_many_equal_numbers_is_exact_to_five_digits(value):
    number = torch.tensor(value)
    x = torch.full((_K,), value)
    apart = torch.full((2 * _K,), value)[::2]
    assert _error(x.dot(x), number) < 2e-5
    assert _error(apart.dot(x), number) < 2e-5
    assert _error(apart.dot(apart), number) < 2e-5
    assert _error(x @ torch.full((_K, 3), value), number) < 2e-5
    assert _error(torch.full((3, _K), value) @ x, number) < 2e-5
    assert _error(torch.complex(x, 0 * x).dot(torch.complex(x, 0 * x)).real, number) < 2e-5
