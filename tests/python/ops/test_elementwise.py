"""Elementwise ops: accuracy of `float32`, integers, bounds."""

import math

import numpy as np
import pytest

import pytpu as torch
from pytpu.nn import functional as F


def test_gcd_and_lcm(device):
    a, b = torch.tensor([12, -8, 0, 0, 7], device=device), torch.tensor([18, 6, 5, 0, -7], device=device)
    assert torch.gcd(a, b).tolist() == [6, 2, 5, 0, 7]
    assert torch.lcm(a, b).tolist() == [36, 24, 0, 0, 7]
    with pytest.raises(NotImplementedError, match="\"gcd_cpu\" not implemented for 'Float'"):
        torch.gcd(a.float(), b.float())


def test_frexp_is_pythons(device):
    v = [1.0, -0.75, 3e-5, 1024.0, 0.0, math.inf]
    m, e = torch.frexp(torch.tensor(v, device=device, dtype=torch.float64))
    assert [(x, y) for x, y in zip(m.tolist(), e.tolist())] == [
        math.frexp(x) if math.isfinite(x) else (x, 0) for x in v
    ]


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_trigonometry_is_exact_to_the_last_place_at_any_angle(name, device):
    rng = np.random.default_rng(0)
    multiples = np.arange(-5000, 5000) * (np.pi / 2)
    sign = rng.choice([-1.0, 1.0], 20_000)
    angles = [rng.uniform(-10, 10, 20_000), multiples, sign * np.exp(rng.uniform(np.log(1e-40), np.log(3e38), 20_000))]
    x = np.concatenate([*angles, [2.0**20, -(2.0**20), 3.4e38, 0.0, -0.0]]).astype(np.float32)
    expected = getattr(np, name)(x.astype(np.float64))
    got = getattr(torch, name)(torch.tensor(x, device=device)).cpu().numpy()
    off = np.abs(got - expected) / np.spacing(np.abs(expected).astype(np.float32))
    assert off.max() < 1.5, x[off.argmax()]
    assert (np.signbit(got) == np.signbit(expected)).all()
    special = torch.tensor([float("inf"), -float("inf"), float("nan")], device=device)
    assert getattr(torch, name)(special).isnan().all()


@pytest.mark.parametrize(
    "name",
    (
        "sin cos tan asin acos atan sinh cosh asinh acosh atanh log1p erfc erfinv lgamma digamma i0 special.i0e "
        "special.i1 special.i1e"
    ).split(),
)
def test_functions_of_float32_are_those_of_float64_rounded(device, name):
    function = torch
    for part in name.split("."):
        function = getattr(function, part)
    x = np.concatenate(
        [
            np.array([0.0, 1.0, np.inf, np.nan, 0.5, 2.5, 88.0, 1e30], np.float32),
            np.geomspace(1e-30, 1e30, 20001, dtype=np.float32),
            np.linspace(0.0, 12.0, 50001, dtype=np.float32),
            1 + np.linspace(-1e-3, 1e-3, 4001, dtype=np.float32),
        ]
    )
    x = torch.from_numpy(np.concatenate([x, -x]))
    want = function(x.double()).numpy()
    got = function(x.to(device)).cpu().numpy()
    with np.errstate(over="ignore"):
        rounded = want.astype(np.float32)
    # XLA:CPU has no subnormal numbers.
    normal = ~(np.abs(want) < 1.2e-38)
    finite = np.isfinite(rounded)
    assert np.array_equal(got[~finite & normal], rounded[~finite & normal], equal_nan=True)
    known = finite & normal
    units = np.abs(got[known] - want[known]) / np.spacing(np.abs(rounded[known]))
    assert units.max() < {"log1p": 4}.get(name, 0.6)


def test_the_angle_of_a_point_in_float32_is_that_of_float64_rounded(device):
    numbers = [0.0, 1.0, np.inf, np.nan, 0.41421357, 3e-30, 3e30, *np.linspace(0.1, 9.7, 150)]
    x = np.array([*numbers, *(-v for v in numbers)], np.float32)
    a, b = (torch.from_numpy(m.ravel().copy()) for m in np.meshgrid(x, x))
    want = np.arctan2(a.numpy().astype(np.float64), b.numpy().astype(np.float64))
    got = torch.atan2(a.to(device), b.to(device)).cpu().numpy()
    normal = ~((np.abs(want) < 1.2e-38) & (want != 0))
    rounded = want.astype(np.float32)
    assert np.array_equal(np.isnan(got), np.isnan(want))
    assert np.isnan(want[np.signbit(got) != np.signbit(rounded)]).all()
    known = normal & ~np.isnan(want)
    assert (np.abs(got[known] - want[known]) <= 0.6 * np.spacing(np.abs(rounded[known]))).all()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.bool])
def test_alpha_times_an_integer_tensor_keeps_its_fraction(device, dtype):
    x, y = torch.zeros(1, device=device), torch.tensor([1], dtype=dtype, device=device)
    assert x.add(y, alpha=0.25).tolist() == [0.25]
    assert x.sub(y, alpha=0.25).tolist() == [-0.25]
    assert x.clone().add_(y, alpha=0.25).tolist() == [0.25]
    assert torch._foreach_add([x], [y], alpha=0.25)[0].tolist() == [0.25]


def test_bounds_that_a_dtype_does_not_reach(device):
    x = torch.tensor([0, 1, 5, 250], dtype=torch.uint8, device=device)
    assert (
        x.clamp(-1, 1).tolist() == [0, 1, 1, 1]
        and x.clamp(min=-300).tolist() == x.clamp(max=300).tolist() == x.tolist()
    )
    assert F.hardtanh(x, -1, 1).tolist() == [0, 1, 1, 1]
    with pytest.raises(RuntimeError, match="Clamp max value -1 is outside the representable range of Byte"):
        x.clamp(max=-1)
    with pytest.raises(RuntimeError, match=r"Clamp min value 1.09951e\+12 is outside the representable range of Int"):
        x.int().clamp(min=2**40)
