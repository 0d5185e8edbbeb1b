"""Integer division by zero must raise."""

import pytest

import pytpu as torch


@pytest.mark.parametrize(
    "expression",
    [
        "i // z",
        "i % z",
        "torch.fmod(i, z)",
        "i // 0",
        "i % 0",
        "i.clone().remainder_(z)",
        "i.div(z, rounding_mode='trunc')",
    ],
)
def test_integer_division_by_zero_is_an_error(device, expression):
    names = {"i": torch.tensor([5, 6], device=device), "z": torch.tensor([2, 0], device=device), "torch": torch}
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        eval(expression, names).tolist()
    assert (names["i"] // 4).tolist() == [1, 1]
    assert (names["i"][:0] // 0).tolist() == []
