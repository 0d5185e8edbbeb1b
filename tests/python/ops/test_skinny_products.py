"""Products of few rows with a large matrix, in all layouts, against the same product in `float64`."""

import pytest

import pytpu as torch
import pytpu.nn.functional as F

# Units in the last place of 1 for each dtype.
UNITS = {torch.float32: 2**-23, torch.bfloat16: 2**-8, torch.float16: 2**-11}
SIZES = [(2, 70, 300), (3, 33, 1025), (4, 513, 64), (5, 96, 31), (8, 130, 4100), (9, 64, 257), (16, 100, 515)]


def random(*sizes, dtype):
    return (torch.rand(*sizes) - 0.5).to(dtype)


@pytest.mark.parametrize("dtype", UNITS)
@pytest.mark.parametrize("sizes", SIZES)
def test_all_layouts_are_as_near_as_rounding_allows(sizes, dtype):
    m, n, k = sizes
    x, w, bias = random(m, k, dtype=dtype), random(n, k, dtype=dtype), random(n, dtype=dtype)
    exact = x.double() @ w.double().t()
    limit = UNITS[dtype] * exact.abs().max() + 4e-6 * k**0.5
    columns = x.t().contiguous().t()
    for y in (
        F.linear(x, w),
        F.linear(columns, w),
        x @ w.t().contiguous(),
        (w @ x.t()).t(),
        (w.t().contiguous().t() @ columns.t()).t(),
        F.linear(x.view(1, m, k).expand(3, m, k), w)[2],
        torch.stack([x, x]).matmul(w.t())[1],
    ):
        assert (y.double() - exact).abs().max() <= limit
    y = F.linear(x, w, bias).double() - bias.double()
    assert (y - exact).abs().max() <= 2 * limit
    y = torch.addmm(exact.to(dtype), x, w.t(), beta=2, alpha=-1)
    assert (y.double() - (2 * exact.to(dtype).double() - exact)).abs().max() <= 4 * limit


@pytest.mark.parametrize("dtype", UNITS)
def test_a_row_does_not_depend_on_the_rows_beside_it(dtype):
    w = random(200, 1000, dtype=dtype)
    x = random(8, 1000, dtype=dtype)
    whole = F.linear(x, w)
    for rows in (2, 3, 5, 8):
        assert torch.equal(F.linear(x[:rows], w), whole[:rows])


def test_numbers_that_are_not_finite_stay_in_their_places():
    x, w = torch.ones(3, 40), torch.ones(50, 40)
    x[1, 39], w[7, 3] = float("nan"), float("inf")
    y = F.linear(x, w)
    assert y[1].isnan().all() and not y[[0, 2]].isnan().any()
    assert y[0].isinf().nonzero().flatten().tolist() == [7]
