"""Values at the edge: infinities, NaN, the smallest and the largest numbers, and indices that are out of range."""

import math

import numpy as np
import pytest

import pytpu as torch
import pytpu.nn.functional as F

INF, NAN = float("inf"), float("nan")


PI = math.pi


# Indices.

INDEXED = {
    "x[i]": lambda x, i: x[i],
    "index_select": lambda x, i: x.index_select(0, i),
    "gather": lambda x, i: x.gather(0, i),
    "take": lambda x, i: x.take(i),
    "index_add": lambda x, i: x.index_add(0, i, x[:1]),
    "index_copy": lambda x, i: x.index_copy(0, i, x[3:]),
    "index_fill": lambda x, i: x.index_fill(0, i, 9.0),
    "scatter": lambda x, i: x.scatter(0, i, 9.0),
    "scatter_add": lambda x, i: x.scatter_add(0, i, x[:1]),
    "index_put": lambda x, i: x.index_put((i,), x[3]),
    "embedding": lambda x, i: F.embedding(i, x[:, None]),
    "nll_loss": lambda x, i: F.nll_loss(x[None], i),
    "cross_entropy": lambda x, i: F.cross_entropy(x[None], i),
    "one_hot": lambda x, i: F.one_hot(i, 4),
    "index_reduce": lambda x, i: x.index_reduce(0, i, x[:1], "prod"),
    "scatter_reduce": lambda x, i: x.scatter_reduce(0, i, x[:1], "sum"),
}


@pytest.mark.parametrize("index", [-(2**63), 2**63 - 1, -(2**63) + 1])
@pytest.mark.parametrize("name", INDEXED)
def test_the_least_and_the_greatest_integer_are_no_indices(device, name, index):
    x, i = torch.arange(4.0, device=device) + 1, torch.tensor([index], device=device)
    with pytest.raises((IndexError, RuntimeError)):
        INDEXED[name](x, i).cpu()


def test_an_index_made_of_nan_is_named_in_the_error():
    x = torch.arange(4.0, device="tpu")
    with pytest.raises(IndexError, match="index -9223372036854775808 is out of bounds for dimension 0 with size 4"):
        x[torch.tensor([-(2**63)], device="tpu")].cpu()


def test_one_hot_of_the_greatest_integer_is_refused():
    with pytest.raises(RuntimeError, match="Class values must be smaller than num_classes"):
        F.one_hot(torch.tensor([2**63 - 1]), 4)
    with pytest.raises(RuntimeError):
        F.one_hot(torch.tensor([2**63 - 1]))


def test_a_missing_tpu_is_refused():
    for make in (
        lambda: torch.empty((0,), device="tpu:1"),
        lambda: torch.zeros(2, device="tpu:200") + 1,
        lambda: torch.tensor([1.0], device="tpu:7"),
        lambda: torch.randn(2, device="tpu:3"),
        lambda: torch.ones(2).to("tpu:1"),
    ):
        with pytest.raises(RuntimeError, match="invalid device ordinal"):
            make()
    assert torch.zeros(2, device="tpu:0").device == torch.device("tpu", 0)
    assert torch.tpu.device_count() == 1


# Complex functions at infinities and NaN: the tables of annex G of C99. `None` is a sign that C99 does not specify.

C99 = {
    "acos": [
        (0, NAN, PI / 2, NAN),
        (1, INF, PI / 2, -INF),
        (1, NAN, NAN, NAN),
        (-INF, 1, PI, -INF),
        (INF, 1, 0, -INF),
        (-INF, INF, 3 * PI / 4, -INF),
        (INF, INF, PI / 4, -INF),
        (INF, NAN, NAN, None),
        (NAN, 1, NAN, NAN),
        (NAN, INF, NAN, -INF),
    ],
    "acosh": [
        (0, 0, 0, PI / 2),
        (1, INF, INF, PI / 2),
        (1, NAN, NAN, NAN),
        (-INF, 1, INF, PI),
        (INF, 1, INF, 0),
        (-INF, INF, INF, 3 * PI / 4),
        (INF, INF, INF, PI / 4),
        (INF, NAN, INF, NAN),
        (NAN, 1, NAN, NAN),
        (NAN, INF, INF, NAN),
    ],
    "asinh": [
        (1, INF, INF, PI / 2),
        (1, NAN, NAN, NAN),
        (INF, 1, INF, 0),
        (INF, INF, INF, PI / 4),
        (INF, NAN, INF, NAN),
        (NAN, 0, NAN, 0),
        (NAN, 1, NAN, NAN),
        (NAN, INF, None, NAN),
    ],
    "atanh": [
        (0, NAN, 0, NAN),
        (1, 0, INF, 0),
        (1, INF, 0, PI / 2),
        (1, NAN, NAN, NAN),
        (INF, 1, 0, PI / 2),
        (INF, INF, 0, PI / 2),
        (INF, NAN, 0, NAN),
        (NAN, 1, NAN, NAN),
        (NAN, INF, None, PI / 2),
    ],
    "cosh": [
        (0, INF, NAN, None),
        (0, NAN, NAN, None),
        (1, INF, NAN, NAN),
        (1, NAN, NAN, NAN),
        (INF, 0, INF, 0),
        (INF, 1, INF, INF),
        (INF, INF, INF, NAN),
        (INF, NAN, INF, NAN),
        (NAN, 0, NAN, None),
        (NAN, 1, NAN, NAN),
    ],
    "sinh": [
        (0, INF, 0, NAN),
        (0, NAN, 0, NAN),
        (1, INF, NAN, NAN),
        (1, NAN, NAN, NAN),
        (INF, 0, INF, 0),
        (INF, 1, INF, INF),
        (INF, INF, INF, NAN),
        (INF, NAN, INF, NAN),
        (NAN, 0, NAN, 0),
        (NAN, 1, NAN, NAN),
    ],
    "tanh": [
        (0, INF, 0, NAN),
        (0, NAN, 0, NAN),
        (1, INF, NAN, NAN),
        (1, NAN, NAN, NAN),
        (INF, 1, 1, 0),
        (INF, INF, 1, None),
        (INF, NAN, 1, None),
        (NAN, 0, NAN, 0),
        (NAN, 1, NAN, NAN),
    ],
    "log": [
        (-0.0, 0, -INF, PI),
        (0, 0, -INF, 0),
        (1, INF, INF, PI / 2),
        (1, NAN, NAN, NAN),
        (-INF, 1, INF, PI),
        (INF, 1, INF, 0),
        (-INF, INF, INF, 3 * PI / 4),
        (INF, INF, INF, PI / 4),
        (INF, NAN, INF, NAN),
        (NAN, 1, NAN, NAN),
        (NAN, INF, INF, NAN),
    ],
    "log1p": [
        (-1, 0, -INF, 0),
        (1, INF, INF, PI / 2),
        (1, NAN, NAN, NAN),
        (-INF, 1, INF, PI),
        (INF, 1, INF, 0),
        (-INF, INF, INF, 3 * PI / 4),
        (INF, INF, INF, PI / 4),
        (INF, NAN, INF, NAN),
        (NAN, 1, NAN, NAN),
        (NAN, INF, INF, NAN),
    ],
}


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("name", C99)
def test_complex_functions_at_infinities_and_nan_are_those_of_c99(name, dtype):
    for re, im, x, y in C99[name]:
        got = getattr(torch, name)(torch.tensor(complex(re, im), dtype=dtype)).item()
        for part, want in ((got.real, x), (got.imag, y)):
            if want is not None:
                np.testing.assert_allclose(part, want, rtol=1e-6, err_msg=f"{name}({re} + {im}i) = {got}")


def test_logaddexp_of_an_infinite_complex_number_is_infinite(device):
    x = torch.tensor([complex(INF, 0), complex(-INF, 0), complex(INF, 0)], device=device)
    y = torch.tensor([1 + 0j, complex(-INF, 0), complex(INF, 0)], device=device)
    assert torch.logaddexp(x, y).real.tolist() == [INF, -INF, INF]
    assert torch.logaddexp(y, x).real.tolist() == [INF, -INF, INF]


def test_zero_to_the_power_of_zero_is_one_for_complex_numbers(device):
    z = torch.tensor([0j, 1 + 2j, complex(INF, 0)], device=device)
    assert (z**0).tolist()[:2] == [1, 1]
    assert torch.pow(torch.tensor([0j], device=device), torch.tensor([0j], device=device)).tolist() == [1]


@pytest.mark.parametrize(
    "dtype, sizes", [(torch.complex64, (5e-38, 1e-30, 1e30, 1e38)), (torch.complex128, (1e-307, 1e307))]
)
def test_quotients_of_very_small_and_very_large_complex_numbers_are_right(device, dtype, sizes):
    for size in sizes:
        z = torch.tensor([complex(size, size), complex(size, -size / 2)], dtype=dtype, device=device)
        np.testing.assert_allclose((z / z).cpu().numpy(), [1, 1], rtol=1e-5)
        np.testing.assert_allclose((z[:1] / z[1:]).cpu().numpy(), [(1 + 1j) / (1 - 0.5j)], rtol=1e-5)


# Matrices.


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128], ids=str)
def test_singular_values_of_very_large_and_very_small_numbers_are_right(device, dtype):
    large, small = (1e200, 1e-200) if dtype in (torch.float64, torch.complex128) else (1e30, 1e-25)
    for size in (large, small):
        a = torch.tensor([[1.0, 2.0, 0.5], [-3.0, 1.0, 4.0]], dtype=dtype)
        u, s, vh = torch.linalg.svd((a * size).to(device), full_matrices=False)
        np.testing.assert_allclose((s.cpu() / size).numpy(), torch.linalg.svdvals(a).numpy(), rtol=1e-5)
        np.testing.assert_allclose(((u * (s / size)) @ vh).cpu().numpy(), a.numpy(), atol=1e-5)
        assert torch.linalg.matrix_rank((a * size).to(device)).item() == 2
        np.testing.assert_allclose(
            (torch.linalg.norm((a * size).to(device), 2) / size).item(), torch.linalg.norm(a, 2).item(), rtol=1e-5
        )
        h = (a @ a.mH) * size
        np.testing.assert_allclose(
            (torch.linalg.eigvalsh(h.to(device)).cpu() / size).numpy(),
            torch.linalg.eigvalsh(a @ a.mH).numpy(),
            rtol=1e-5,
        )


def test_singular_values_of_infinities_are_nan_and_of_nan_an_error(device):
    a = torch.tensor([[INF, 1.0], [2.0, 3.0]], device=device)
    assert torch.linalg.svdvals(a).isnan().all()
    assert torch.linalg.svd(a).S.isnan().all()
    assert torch.linalg.matrix_rank(a).item() == 0
    with pytest.raises(torch.linalg.LinAlgError, match="contained non-finite values"):
        torch.linalg.svdvals(torch.tensor([[NAN, 1.0], [2.0, 3.0]], device=device))


# 16-bit floats.


def test_a_threshold_is_not_rounded_to_16_bits(device):
    x = torch.tensor([0.10009765625, 0.05], dtype=torch.bfloat16, device=device)
    assert F.threshold(x, 0.1, 20).tolist() == [x[0].item(), 20]
    h = torch.tensor([0.1], dtype=torch.float16, device=device)
    assert F.threshold(h, 0.1, 20).item() == 20


def test_activations_of_bfloat16_are_those_of_float32_rounded(device):
    nn = torch.nn
    layers = (
        nn.ReLU(),
        nn.GELU(),
        nn.ELU(),
        nn.Hardtanh(),
        nn.Hardswish(),
        nn.Hardsigmoid(),
        nn.LeakyReLU(),
        nn.SELU(),
        nn.Softplus(),
        nn.Softshrink(),
        nn.Hardshrink(),
        nn.Threshold(0.1, 20),
        nn.SiLU(),
        nn.Mish(),
        nn.LogSigmoid(),
        nn.Tanhshrink(),
        nn.CELU(),
        nn.ReLU6(),
        nn.Softsign(),
    )
    x = (torch.randn(10_000) * 4).bfloat16().to(device)
    for layer in layers:
        difference = (layer(x).float() - layer(x.float()).bfloat16().float()).abs().max().item()
        assert difference <= 0.07, (type(layer).__name__, difference)


@pytest.mark.parametrize("dtype, steps", [(torch.float16, 1024), (torch.bfloat16, 128)], ids=str)
def test_nextafter_of_16_bit_floats_is_a_neighbour(device, dtype, steps):
    x = torch.tensor([0.0, 0.0, 10.0, 1.0, 1.0, -1.0, 5.0], dtype=dtype, device=device)
    y = torch.tensor([INF, -INF, 10.0, INF, -INF, INF, NAN], dtype=dtype, device=device)
    got = torch.nextafter(x, y).cpu()
    tiny = got[0].item()
    bits = got.view(torch.int16).tolist()
    assert bits[:2] == [1, -32767] and tiny > 0
    assert got[2:6].tolist() == [10, 1 + 1 / steps, 1 - 0.5 / steps, -1 + 0.5 / steps]
    assert got[6].isnan()


def test_nextafter_of_16_bit_floats_takes_any_strides():
    x = torch.arange(12, dtype=torch.float16).view(3, 4).t()
    up = torch.nextafter(x, torch.tensor(INF, dtype=torch.float16))
    assert (up > x).all() and torch.equal(torch.nextafter(up, torch.tensor(-INF, dtype=torch.float16)), x)


def test_sinc_of_bfloat16_keeps_the_angle(device):
    x = torch.tensor([1000.5, 0.0, 0.5], dtype=torch.bfloat16, device=device)
    want = torch.sinc(x.float()).bfloat16()
    assert (torch.sinc(x) - want).abs().max().item() < 1e-5
    assert torch.sinc(x).dtype == torch.bfloat16


# `dim=None` means all dimensions, also where the default is an empty list.


def test_none_means_all_dimensions(device):
    x = torch.arange(6.0, device=device).view(2, 3)
    assert torch.amax(x, dim=None).item() == 5 and x.amin(dim=None).item() == 0
    assert torch.amax(x, None, keepdim=True).shape == (1, 1)
    assert torch.roll(x, 1, dims=None).tolist() == [[5, 0, 1], [2, 3, 4]]
    assert torch.roll(x, (1,), None).tolist() == [[5, 0, 1], [2, 3, 4]]
    with pytest.raises(RuntimeError, match="shifts and dimensions must align. shifts: 2, dims:0"):
        torch.roll(x, (1, 2), dims=None)


@pytest.mark.parametrize(
    "name, z, want",
    [
        ("sqrt", complex(INF, 0), complex(INF, 0)),
        ("sqrt", complex(-INF, -0.0), complex(0, -INF)),
        ("acos", complex(INF, 0), complex(0, -INF)),
        ("acos", complex(-INF, -0.0), complex(PI, INF)),
        ("asin", complex(-INF, 0), complex(-PI / 2, INF)),
        ("acosh", complex(INF, INF), complex(INF, PI / 4)),
        ("asinh", complex(0, INF), complex(INF, PI / 2)),
    ],
)
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_functions_of_infinity(name, z, want, dtype):
    got = getattr(torch.tensor([z], dtype=dtype), name)().item()
    assert got.real == pytest.approx(want.real, abs=1e-6) and got.imag == pytest.approx(want.imag, abs=1e-6)
