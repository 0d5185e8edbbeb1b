"""`pow`: integers, bools, complex zeros, one half."""

import math
import struct

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


# Recorded from PyTorch: powers of `BASES` and their gradients for a gradient of 1.1, as bits of `float32`.
BASES = [-3.0, -1.3, -0.7, -1e-3, 1e-3, 0.3, 0.7, 1.1, 1.7, 2.9, 123.456]
RECORDED = {
    -2: (
        "3de38e39 3f177ab4 40029cbc 497423fe 497423fe 4131c71c 40029cbc 3f5391fb 3eb129a2 3df38504 3889988d",
        "3da6dfc4 3f802cc0 40cd3f71 4f032155 cf032155 c2a2f684 c0cd3f71 bfd391fb bee544ef bdb8bd30 b59ced27",
    ),
    -1: (
        "beaaaaab bf44ec4f bfb6db6e c479ffff 4479ffff 40555555 3fb6db6e 3f68ba2e 3f169696 3eb08d3d 3c04b614",
        "bdfa4fa5 bf26a093 c00fac69 c98646ff c98646ff c1438e39 c00fac69 bf68ba2e bec2e0ff be05ef8f b8975b02",
    ),
    2: (
        "41100000 3fd851ea 3efae147 358637be 358637be 3db851ec 3efae147 3f9ae148 4038f5c3 41068f5d 466e2589",
        "c0d33334 c0370a3d bfc51eb8 bb102de1 3b102de1 3f28f5c3 3fc51eb8 401ae148 406f5c2a 40cc28f6 4387cd36",
    ),
    3: (
        "c1d80000 c00c9ba5 beaf9db2 b0897061 30897061 3cdd2f1c 3eaf9db2 3faa5e36 409d374c 41c31cae 49e5b142",
        "41ed999a 40b276c8 3fcef9db 365d7593 365d7593 3e981063 3fcef9db 407f8d51 4118978e 41de0627 47447892",
    ),
}


def _bits(x):
    return " ".join(struct.pack(">f", v).hex() for v in x.tolist())


@pytest.mark.parametrize("exponent", RECORDED)
@pytest.mark.parametrize("form", ["operator", "method", "in place", "float", "foreach"])
def test_powers_by_products_are_pytorchs_to_the_bit(device, exponent, form):
    x = torch.tensor(BASES, device=device, requires_grad=True)
    if form == "operator":
        y = x**exponent
    elif form == "method":
        y = x.pow(exponent)
    elif form == "in place":
        y = x * 1
        y **= exponent
    elif form == "float":
        y = torch.pow(x, float(exponent))
    else:
        (y,) = torch._foreach_pow([x], exponent)
    y.backward(torch.full_like(y, 1.1))
    want, want_gradient = RECORDED[exponent]
    assert _bits(y.detach()) == want
    if exponent != -2:  # its gradient needs x^-3, which PyTorch computes by logarithms
        assert _bits(x.grad) == want_gradient
    else:
        recorded = [struct.unpack(">f", bytes.fromhex(v))[0] for v in want_gradient.split()]
        assert torch.allclose(x.grad.cpu(), torch.tensor(recorded), rtol=4e-7, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("exponent", [-2, -1, -0.5, 0.5, 2, 3])
def test_powers_of_16_bit_floats_are_rounded_once(device, dtype, exponent):
    x = torch.tensor([0.3, 0.7, 1.1, 1.7, 2.9, 12.3], dtype=dtype, device=device, requires_grad=True)
    y = x**exponent
    y.sum().backward()
    wide = x.detach().cpu().double().requires_grad_()
    want = wide**exponent
    want.sum().backward()
    assert torch.equal(y.detach().cpu(), want.detach().to(dtype))
    assert torch.equal(x.grad.cpu(), wide.grad.to(dtype))


def test_a_power_of_zero_is_one_and_constant(device):
    x = torch.tensor([0.0, -2.0, math.nan, math.inf], device=device, requires_grad=True)
    (x**0).sum().backward()
    assert (x**0).tolist() == [1.0] * 4 and x.grad.tolist() == [0.0] * 4
    y = x**1
    assert y is not x and str(y.tolist()) == str(x.tolist())
    y = x.detach().pow(1)
    y[0] = 5.0
    assert x[0] == 0.0


def test_second_derivatives_of_powers(device):
    for exponent in (-2, -1, -0.5, 0.5, 2, 3):
        x = torch.tensor([0.7, 1.9], dtype=torch.float64, device=device, requires_grad=True)
        (g,) = torch.autograd.grad((x**exponent).sum(), x, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), x)
        want = exponent * (exponent - 1) * x.detach().cpu() ** (exponent - 2)
        assert torch.allclose(h.cpu(), want.double(), rtol=1e-12), exponent


def test_powers_of_integers_by_products(device):
    x = torch.tensor([-3, 0, 7, 2**40], device=device)
    assert (x**2).tolist() == [9, 0, 49, 0] and (x**3).tolist() == [-27, 0, 343, 0]
    assert (x**0).tolist() == [1] * 4 and (x**1).tolist() == x.tolist()
    with pytest.raises(RuntimeError, match="Integers to negative integer powers are not allowed."):
        x**-2


def test_known_exponents_are_no_powers_in_a_program():
    def text(f):
        return torch.tpu.dump_stablehlo(f(torch.ones(4, device="tpu") + 1))

    for exponent in (-2, -1, -0.5, 0, 0.5, 1, 2, 3):
        assert "stablehlo.power" not in text(lambda x: x**exponent), exponent
    assert "stablehlo.power" in text(lambda x: x**2.5)
    # The gradient of a root mean square has none either.
    x = torch.ones(4, device="tpu", requires_grad=True)
    (g,) = torch.autograd.grad((x * torch.pow(x.pow(2).mean() + 1e-6, -0.5)).sum(), x)
    assert "stablehlo.power" not in torch.tpu.dump_stablehlo(g)


def test_a_changing_exponent_compiles_nothing_new():
    def run(exponent):
        (torch.ones(64, 64, device="tpu") ** exponent).sum().item()

    torch.use_deterministic_algorithms(True)
    try:
        run(1.25)
        run(1.26)
        torch.tpu.reset_metrics()
        for step in range(10):
            run(1.3 + 0.01 * step)
        assert torch.tpu.metrics()["compilations"] == 0
    finally:
        torch.use_deterministic_algorithms(False)
