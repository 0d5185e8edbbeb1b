"""`torch._scaled_mm`: products of 8-bit floats with scales."""

import pytest

import pytpu as torch
from pytpu.testing import assert_close


@pytest.fixture(params=["cpu", "tpu"])
def device(request):
    return request.param


def operands(device, narrow=torch.float8_e4m3fn, other=None):
    torch.manual_seed(3)
    a, b = torch.randn(16, 32).to(narrow), torch.randn(16, 32).to(other or narrow).t()
    return a.to(device), b.to(device)


@pytest.mark.parametrize("narrow, other", [("float8_e4m3fn", "float8_e4m3fn"), ("float8_e5m2", "float8_e4m3fn")])
@pytest.mark.parametrize("out", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("of_rows", [False, True])
def test_the_product_is_that_of_the_numbers(device, narrow, other, out, of_rows):
    a, b = operands(device, getattr(torch, narrow), getattr(torch, other))
    sizes = ((16, 1), (1, 16)) if of_rows else ((), (1,))
    scales = [torch.rand(size).add(0.5).to(device) for size in sizes]
    bias = torch.randn(16, device=device)
    wide = [x.to(torch.float64) for x in (a, b, *scales, bias)]
    want = (wide[0] * wide[2]) @ (wide[1] * wide[3]) + wide[4]
    out = getattr(torch, out)
    got = torch._scaled_mm(a, b, *scales, bias=bias, out_dtype=out)
    assert got.dtype == out
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}[out]
    assert_close(got.to(torch.float64), want, rtol=tolerance, atol=tolerance)
    assert torch.ops.aten._scaled_mm(a, b, *scales, out_dtype=out).shape == (16, 16)


def test_the_result_has_the_dtype_of_the_first_matrix(device):
    a, b = operands(device)
    one = torch.ones((), device=device)
    got = torch._scaled_mm(a, b, one, one * 0.5)
    assert got.dtype == torch.float8_e4m3fn
    want = torch._scaled_mm(a, b, one, one * 0.5, out_dtype=torch.float32).to(torch.float8_e4m3fn)
    assert torch.equal(got.view(torch.uint8), want.view(torch.uint8))


def test_wrong_operands_are_refused_in_pytorchs_words(device):
    a, b = operands(device)
    one = torch.ones((), device=device)
    with pytest.raises(RuntimeError, match="mat1 must be a matrix"):
        torch._scaled_mm(a[0], b, one, one)
    with pytest.raises(RuntimeError, match="mat2 must be a matrix"):
        torch._scaled_mm(a, b[0], one, one)
    with pytest.raises(RuntimeError, match=r"mat_a and mat_b shapes cannot be multiplied \(16x32 and 8x16\)"):
        torch._scaled_mm(a, b[:8], one, one)
    with pytest.raises(RuntimeError, match="Bias must be size 16 but got 3"):
        torch._scaled_mm(a, b, one, one, bias=torch.ones(3, device=device))
    scales = torch.ones(16, 1, device=device)
    for x, scale_a, words in (
        (a.float(), one, "Got mat_a.dtype\\(\\)=Float, scale_a.dtype\\(\\)=Float, scale_a.size\\(\\)=\\[\\]"),
        (a, one.double(), "scale_a.dtype\\(\\)=Double"),
        (a, scales, "scale_a.size\\(\\)=\\[16, 1\\], scale_a.stride\\(\\)=\\[1, 1\\]"),
    ):
        with pytest.raises(ValueError, match="(?s)Invalid scaling configuration.*" + words):
            torch._scaled_mm(x, b, scale_a, one)
