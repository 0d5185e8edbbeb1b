"""`pow`: integers, bools, complex zeros, one half."""

import math

import pytest

import pytpu as torch


def test_integer_powers_wrap_around(device):
    def power(a, b, dtype):
        a, b = (torch.tensor(v, dtype=dtype, device=device) for v in (a, b))
        return (a**b).tolist()

    assert power([3, 3, 3], [64, 65, 100], torch.int64) == [
        8733086111712066817,
        7752514261426648835,
        -2984622845537545263,
    ]
    assert power([3], [255], torch.uint8) == [171]
    assert power([3, -3, 2, 1, -1, 0], [99, 99, -1, -5, -5, 3], torch.int8) == [-101, 101, 0, 1, -1, 0]
    assert power([2, 1, -1, -1], [-1, -70, -70, -71], torch.int64) == [0, 1, 1, -1]
    assert (torch.tensor([3, -7], dtype=torch.int32, device=device) ** 33).tolist() == [
        _int32(3**33),
        _int32((-7) ** 33),
    ]


def _int32(n):
    return (n + 2**31) % 2**32 - 2**31


def test_powers_of_truth_values(device):
    b = torch.tensor([True, False], device=device)
    assert (b**True).tolist() == [True, False]
    assert (b**False).tolist() == [True, True]
    assert (b**2).tolist() == [1, 0]
    for f in (lambda: b**b, lambda: True**b):
        with pytest.raises(NotImplementedError, match="\"pow\" not implemented for 'Bool'"):
            f()
    with pytest.raises(NotImplementedError, match="\"lshift_cpu\" not implemented for 'Bool'"):
        b << b
    with pytest.raises(NotImplementedError, match="\"rshift_cpu\" not implemented for 'Bool'"):
        b >> b
    assert b.tolist() == [True, False]


def test_complex_powers_of_zero(device):
    assert (torch.tensor([0j, 0j], device=device) ** (1.5 + 1j)).tolist() == [0, 0]
    assert (torch.tensor([0.0], device=device) ** (1.5 + 1j)).tolist() == [0]


def test_a_power_of_one_half_is_a_root():
    x = torch.tensor([-math.inf, -0.0, 4.0])
    assert str((x**0.5).tolist()) == str(x.pow(0.5).tolist()) == str(x.clone().pow_(0.5).tolist()) == "[nan, -0.0, 2.0]"
    assert str((x**-0.5).tolist()) == "[nan, -inf, 0.5]"
    # A tensor as exponent computes a power instead of a root.
    assert str((x ** torch.full((3,), 0.5)).tolist()) == "[inf, 0.0, 2.0]"
