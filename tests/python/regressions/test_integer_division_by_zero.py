"""Integer division by zero must raise."""

import pytest

import pytpu as torch


@pytest.mark.parametrize(
    "divide",
    [
        lambda i, z: i // z,
        lambda i, z: i % z,
        lambda i, z: torch.fmod(i, z),
        lambda i, z: i // 0,
        lambda i, z: i % 0,
        lambda i, z: i.clone().remainder_(z),
        lambda i, z: i.div(z, rounding_mode="trunc"),
    ],
)
def test_integer_division_by_zero_is_an_error(device, divide):
    i, z = torch.tensor([5, 6], device=device), torch.tensor([2, 0], device=device)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        divide(i, z).tolist()
    assert (i // 4).tolist() == [1, 1]
    assert (i[:0] // 0).tolist() == []
