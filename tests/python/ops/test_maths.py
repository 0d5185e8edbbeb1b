"""Contractions, statistics, windows and masked reductions against NumPy, on both devices."""

import math

import numpy as np
import pytest

import pytpu as torch

RNG = np.random.default_rng(7)


def array(*sizes):
    return RNG.standard_normal(sizes).astype(np.float32)


# ---- einsum

EQUATIONS = [
    ("ij,jk->ik", [(2, 3), (3, 4)]),
    ("ij,jk", [(2, 3), (3, 4)]),
    ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
    ("ii->", [(4, 4)]),
    ("ii->i", [(4, 4)]),
    ("iji->ij", [(3, 2, 3)]),
    ("i,j->ji", [(2,), (3,)]),
    ("...ij,...jk->...ik", [(2, 5, 3, 4), (5, 4, 2)]),
    ("i...->...", [(3, 2, 2)]),
    ("ij,ij,jk->k", [(2, 3), (2, 3), (3, 4)]),
    ("abc,cd,db->a", [(2, 3, 4), (4, 5), (5, 3)]),
    (" i j , j -> i ", [(2, 3), (3,)]),
]


@pytest.mark.parametrize("equation, sizes", EQUATIONS, ids=[e for e, _ in EQUATIONS])
def test_einsum_is_numpys(equation, sizes, device, close):
    a = [array(*s) for s in sizes]
    got = torch.einsum(equation, *[torch.from_numpy(x).to(device) for x in a])
    close(got, np.einsum(equation.replace(" ", ""), *a), rtol=1e-4, atol=1e-5)


def test_einsum_broadcasts_dimensions_of_one_element(device, close):
    a, b = array(2, 1), array(3, 4)
    got = torch.einsum("ij,jk->ik", torch.from_numpy(a).to(device), torch.from_numpy(b).to(device))
    close(got, a * b.sum(0), rtol=1e-4, atol=1e-5)


def test_einsum_takes_lists_of_subscripts(close):
    a, b = array(2, 3), array(3, 4)
    x, y = torch.from_numpy(a), torch.from_numpy(b)
    close(torch.einsum(x, [0, 1], y, [1, 2], [0, 2]), a @ b, atol=1e-5)
    close(torch.einsum(x, [0, 1], y, [1, 2]), a @ b, atol=1e-5)
    close(torch.einsum(x, [..., 1], y, [1, 2], [2, ...]), (a @ b).T, atol=1e-5)
    close(torch.einsum("ij,jk->ik", [x, y]), a @ b, atol=1e-5)


@pytest.mark.parametrize(
    "equation, sizes, text",
    [
        ("ij->i", [(2,)], r"the number of subscripts in the equation \(2\) does not match"),
        ("i,j->ij", [(2,)], "fewer operands were provided"),
        ("i->i", [(2,), (2,)], "more operands were provided"),
        ("ii->i", [(2, 3)], "subscript i is repeated for operand 0 but the sizes don't match, 3 != 2"),
        ("i->ii", [(2,)], "output subscript i appears more than once"),
        ("i->j", [(2,)], "output subscript j does not appear"),
        ("i1->i", [(2, 2)], "invalid subscript given at index 1"),
        (".i->i", [(2,)], "is not part of any ellipsis"),
        ("ij,jk->ik", [(2, 3), (4, 5)], "has size 4 for operand 1 which does not broadcast"),
    ],
)
def test_einsum_refuses_what_does_not_fit(equation, sizes, text):
    with pytest.raises(RuntimeError, match=text):
        torch.einsum(equation, *[torch.ones(s) for s in sizes])


def test_einsum_gradient_is_the_transposed_product(device, close):
    a, b = array(2, 3), array(3, 4)
    x = torch.from_numpy(a).to(device).requires_grad_()
    torch.einsum("ij,jk->ik", x, torch.from_numpy(b).to(device)).sum().backward()
    close(x.grad, np.broadcast_to(b.sum(1), a.shape), rtol=1e-4)


# ---- products and powers of matrices


def test_matrix_powers(device, close):
    a = array(2, 3, 3)
    x = torch.from_numpy(a).to(device)
    for p in (0, 1, 2, 5):
        close(torch.linalg.matrix_power(x, p), np.linalg.matrix_power(a, p), rtol=1e-3, atol=1e-3)
    close(torch.linalg.matrix_power(x, -2), np.linalg.matrix_power(a.astype(np.float64), -2), rtol=1e-2, atol=1e-2)


def test_negative_power_of_a_singular_matrix_is_an_error():
    with pytest.raises(RuntimeError, match="singular"):
        torch.linalg.matrix_power(torch.ones(2, 2), -1)


def test_multi_dot_takes_vectors_at_its_ends(close):
    a, b, c = array(3), array(3, 4), array(4)
    got = torch.linalg.multi_dot([torch.from_numpy(x) for x in (a, b, c)])
    close(got, a @ b @ c, rtol=1e-4, atol=1e-5)


def test_norms_of_matrices(device, close):
    a = array(2, 3, 4)
    x = torch.from_numpy(a).to(device)
    for order in (1, -1, math.inf, -math.inf, "fro"):
        want = [np.linalg.norm(m, order) for m in a]
        close(torch.linalg.matrix_norm(x, order), want, rtol=1e-5)
    close(torch.linalg.norm(x, dim=(0, 2), ord="fro"), np.sqrt((a**2).sum((0, 2))), rtol=1e-5)


# ---- statistics


@pytest.mark.parametrize("how", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantiles_are_numpys(how, device, close):
    a = array(4, 7)
    q = np.array([0.0, 0.25, 0.6, 1.0], np.float32)
    x = torch.from_numpy(a).to(device)
    got = torch.quantile(x, torch.from_numpy(q).to(device), dim=1, interpolation=how)
    close(got, np.quantile(a, q, axis=1, method=how), rtol=1e-5)
    close(torch.quantile(x, 0.3), np.quantile(a, 0.3), rtol=1e-4)


def test_nanquantile_leaves_nan_out(device, close):
    a = array(3, 6)
    a[0, 2] = a[1, :5] = np.nan
    x = torch.from_numpy(a).to(device)
    close(torch.nanquantile(x, 0.4, dim=1), np.nanquantile(a, 0.4, axis=1), rtol=1e-5)
    assert torch.quantile(x, 0.4, dim=1).isnan().tolist() == [True, True, False]


@pytest.mark.parametrize(
    "q, text", [(2.0, "must be in the range"), (torch.tensor([0.5, -1.0]), "must be in the range")]
)
def test_quantile_refuses_what_is_no_fraction(q, text):
    with pytest.raises(RuntimeError, match=text):
        torch.quantile(torch.ones(3), q)


def test_mode_is_the_least_of_the_commonest(device):
    x = torch.tensor([[3, 1, 3, 1, 2], [5, 5, 5, 0, 0]], device=device)
    values, indices = torch.mode(x)
    assert values.tolist() == [1, 5] and indices.tolist() == [3, 2]
    assert torch.mode(x, 0, True).values.tolist() == [[3, 1, 3, 0, 0]]


def test_covariances_are_numpys(device, close):
    a = array(3, 6)
    x = torch.from_numpy(a).to(device)
    close(torch.cov(x), np.cov(a), rtol=1e-4)
    close(torch.corrcoef(x), np.corrcoef(a), rtol=1e-4)
    f, w = np.array([1, 2, 1, 3, 0, 2]), RNG.random(6).astype(np.float32)
    got = torch.cov(x, fweights=torch.from_numpy(f).to(device), aweights=torch.from_numpy(w).to(device))
    close(got, np.cov(a, fweights=f, aweights=w), rtol=1e-4)


def test_histograms_are_numpys(device, close):
    a = array(50)
    hist, edges = torch.histogram(torch.from_numpy(a).to(device), 5, range=(-1.0, 2.0))
    want, want_edges = np.histogram(a, 5, range=(-1.0, 2.0))
    close(hist, want)
    close(edges, want_edges)
    points = array(40, 2)
    got = torch.histogramdd(torch.from_numpy(points).to(device), [3, 4], density=True)
    want, want_edges = np.histogramdd(points, [3, 4], density=True)
    close(got.hist, want, rtol=1e-3)
    for e, w in zip(got.bin_edges, want_edges):
        close(e, w)


def test_numerical_gradients_are_numpys(device, close):
    a = array(4, 5)
    x = torch.from_numpy(a).to(device)
    for got, want in zip(torch.gradient(x), np.gradient(a)):
        close(got, want)
    at = np.array([0.0, 0.5, 0.7, 2.0, 2.5], np.float32)
    (got,) = torch.gradient(x, spacing=[torch.from_numpy(at).to(device)], dim=1, edge_order=2)
    close(got, np.gradient(a, at, axis=1, edge_order=2), rtol=1e-3, atol=1e-4)


def test_segments(device):
    x = torch.arange(6, device=device, dtype=torch.float32)
    lengths = torch.tensor([2, 0, 4], device=device)
    assert torch.segment_reduce(x, "sum", lengths=lengths).tolist() == [1, 0, 14]
    assert torch.segment_reduce(x, "max", lengths=lengths).tolist() == [1, -math.inf, 5]
    offsets = torch.tensor([0, 2, 2, 6], device=device)
    assert torch.segment_reduce(x, "mean", offsets=offsets, initial=0).tolist() == [0.5, 0, 3.5]


def test_segments_must_fill_the_dimension():
    with pytest.raises(RuntimeError, match="Expected all rows of lengths along axis to sum"):
        torch.segment_reduce(torch.ones(4), "sum", lengths=torch.tensor([1, 2]))


# ---- indices


def test_index_reduce(device):
    x = torch.tensor([1.0, 2.0, 3.0], device=device)
    at, src = torch.tensor([0, 0, 2], device=device), torch.tensor([4.0, 5.0, 6.0], device=device)
    assert x.index_reduce(0, at, src, "prod").tolist() == [20, 2, 18]
    assert x.index_reduce(0, at, src, "amax", include_self=False).tolist() == [5, 2, 6]
    assert x.index_reduce(0, at, src, "mean").tolist() == pytest.approx([10 / 3, 2, 4.5])
    with pytest.raises(RuntimeError, match="Expected reduce to be one of"):
        x.index_reduce(0, at, src, "sum")


def test_index_reduce_refuses_an_index_out_of_range():
    with pytest.raises(IndexError, match="index out of range in self"):
        torch.ones(3).index_reduce(0, torch.tensor([3]), torch.ones(1), "amin")


def test_nonzero_static_pads_and_cuts(device):
    x = torch.tensor([[0, 3], [4, 0]], device=device)
    assert torch.nonzero_static(x, size=3).tolist() == [[0, 1], [1, 0], [-1, -1]]
    assert torch.nonzero_static(x, size=1, fill_value=9).tolist() == [[0, 1]]


def test_unravel_index_undoes_raveling(device):
    at = torch.tensor([0, 7, 23], device=device)
    assert [c.tolist() for c in torch.unravel_index(at, (2, 3, 4))] == [[0, 0, 1], [0, 1, 2], [0, 3, 3]]


def test_window_on_a_leaf_that_is_a_view_has_a_gradient():
    leaf = torch.arange(8.0)[2:].requires_grad_()
    leaf.as_strided((2, 2), (1, 2)).sum().backward()
    assert leaf.grad.tolist() == [1, 1, 1, 1, 0, 0]


def test_as_strided_scatter_replaces_a_window(device):
    x = torch.zeros(2, 3, device=device)
    y = torch.as_strided_scatter(x, torch.ones(2, device=device), (2,), (4,), 1)
    assert y.tolist() == [[0, 1, 0], [0, 0, 1]] and x.sum().item() == 0


# ---- integers and bits


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


def test_numbers_out_of_range_become_the_least_integer():
    x = torch.tensor([1e20, -1e20, math.nan, 3.9])
    least = -(2**63)
    assert x.long().tolist() == [least, least, least, 3]
    assert x.int().tolist() == [-(2**31)] * 3 + [3]
    assert x.char().tolist() == [0, 0, 0, 3]


# ---- special functions


def test_incomplete_gamma_functions_have_a_gradient_to_their_second_argument(device, close):
    a = torch.tensor([0.5, 2.0, 7.0], device=device)
    x = torch.tensor([0.4, 3.0, 6.0], device=device, requires_grad=True)
    torch.igamma(a, x).sum().backward()
    density = [math.exp((p - 1) * math.log(v) - v - math.lgamma(p)) for p, v in zip(a.tolist(), x.tolist())]
    close(x.grad, density, rtol=1e-5)
    with pytest.raises(NotImplementedError, match="the derivative for 'igamma: input' is not implemented"):
        torch.igamma(a.clone().requires_grad_(), x).sum().backward()


def test_polynomials_take_numbers_and_need_no_gradient(device):
    x = torch.tensor([0.5, -2.0], device=device, requires_grad=True)
    y = torch.special.hermite_polynomial_h(x, 3)
    assert y.tolist() == [8 * 0.125 - 12 * 0.5, 8 * -8.0 + 24.0] and not y.requires_grad
    assert torch.special.legendre_polynomial_p(0.5, torch.tensor([0, 1, 2, -1], device=device)).tolist() == [
        1,
        0.5,
        -0.125,
        0,
    ]
    with pytest.raises(TypeError, match="invalid combination of arguments"):
        torch.special.hermite_polynomial_h(1.0, 2)


# ---- windows


def test_windows_are_symmetric_or_periodic(device):
    for name in ("bartlett", "blackman", "hamming", "hann", "kaiser"):
        whole = getattr(torch, f"{name}_window")(9, False, device=device)
        cut = getattr(torch, f"{name}_window")(8, True, device=device)
        assert torch.allclose(whole[:-1], cut, atol=1e-6), name
        assert torch.allclose(whole, whole.flip(0), atol=1e-6), name
        signal = getattr(torch.signal.windows, name)(9)
        assert torch.allclose(whole.cpu(), signal, atol=1e-6), name


def test_window_values(close):
    close(torch.hann_window(6), 0.5 - 0.5 * np.cos(np.arange(6) / 6 * 2 * np.pi))
    close(torch.signal.windows.gaussian(5, std=2.0), np.exp(-(((np.arange(5) - 2) / 2) ** 2) / 2))
    close(torch.signal.windows.exponential(5, tau=3.0), np.exp(-np.abs(np.arange(5) - 2) / 3))
    close(torch.signal.windows.cosine(4), np.sin((np.arange(4) + 0.5) * np.pi / 4))
    close(torch.kaiser_window(7, False, 8.6), np.kaiser(7, 8.6), atol=1e-5)


def test_windows_refuse_negative_lengths():
    with pytest.raises(ValueError, match="requires non-negative window length, got M=-1"):
        torch.signal.windows.hann(-1)
    with pytest.raises(RuntimeError, match="requires non-negative window_length"):
        torch.hann_window(-1)


# ---- masked


def test_masked_reductions_leave_out(device, close):
    a = array(3, 5)
    keep = RNG.random((3, 5)) > 0.4
    keep[:, 0] = True
    x, mask = torch.from_numpy(a).to(device), torch.from_numpy(keep).to(device)
    m = np.ma.masked_array(a, ~keep)
    for name, want in {
        "sum": m.sum(1),
        "prod": m.prod(1),
        "mean": m.mean(1),
        "amax": m.max(1),
        "amin": m.min(1),
        "var": m.var(1, ddof=1),
        "std": m.std(1, ddof=1),
    }.items():
        close(getattr(torch.masked, name)(x, 1, mask=mask), want.filled(np.nan), rtol=1e-4, atol=1e-5)
    soft = torch.masked.softmax(x, 1, mask=mask)
    assert torch.allclose(soft.sum(1).cpu(), torch.ones(3)) and (soft.cpu()[~mask.cpu()] == 0).all()


def test_masked_elements_have_no_gradient(device):
    x = torch.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True)
    torch.masked.mean(x, mask=torch.tensor([True, False, True], device=device)).backward()
    assert x.grad.tolist() == [0.5, 0, 0.5]


def test_masks_may_not_have_more_dimensions():
    with pytest.raises(IndexError, match="mask dimensionality higher"):
        torch.masked.sum(torch.ones(3), mask=torch.ones(2, 3, dtype=torch.bool))


# ---- out=


def test_out_must_have_the_dtype_of_what_is_picked():
    x = torch.ones(2, 3)
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype float, but got double instead"):
        torch.gather(x, 1, torch.zeros(2, 1, dtype=torch.long), out=torch.empty(2, 1, dtype=torch.float64))
    with pytest.raises(RuntimeError, match="Expected the dtype for input and out to match"):
        torch.amax(x, 1, out=torch.empty(2, dtype=torch.float64))


def test_out_must_lie_apart_from_what_is_joined():
    x = torch.ones(4, 2)
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        torch.cat((x, x), out=x[:2])
    with pytest.raises(RuntimeError, match="unsupported operation"):
        torch.masked_select(x, x > 0, out=x)


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


def test_the_logarithm_of_a_sum_of_exponentials_has_gradients_and_edges(device):
    inf = float("inf")
    x = torch.tensor([0.5, -3.0, 200.0, inf, -inf, inf, 1.0], device=device, requires_grad=True)
    y = torch.tensor([0.25, 4.0, -200.0, 1.0, -inf, inf, -inf], device=device, requires_grad=True)
    z = torch.logaddexp(x, y)
    want = np.logaddexp(x.detach().cpu().numpy(), y.detach().cpu().numpy())
    np.testing.assert_allclose(z.detach().cpu().numpy(), want, rtol=1e-6)
    z[:3].sum().backward()
    share = 1 / (1 + np.exp(-np.array([0.25, -7.0, 400.0])))
    np.testing.assert_allclose(x.grad[:3].cpu().numpy(), share, rtol=1e-6)
    np.testing.assert_allclose(y.grad[:3].cpu().numpy(), 1 - share, rtol=1e-5, atol=1e-9)


def test_dtypes_of_sums_and_ranges_are_those_of_pytorch(device):
    small = torch.ones(3, 2, dtype=torch.uint8, device=device)
    assert torch.einsum("ij->i", small).dtype == torch.int64
    assert torch.einsum("ij,j->i", small, small[0]).dtype == torch.uint8
    stretched = torch.tensordot(small.view(1, 3, 2), small.view(3, 2, 1), dims=([0, 1], [1, 0]))
    assert stretched.dtype == torch.uint8 and stretched.tolist() == [[6], [6]]
    flags = small.bool()
    assert flags[0, 0].sum_to_size(()).dtype == torch.int64
    assert flags.sum_to_size(3, 2).dtype == torch.bool and flags.sum_to_size(1, 2).tolist() == [[3, 3]]
    assert torch.addr(flags, flags[:, 0], flags[0], beta=2, alpha=3).dtype == torch.bool
    places = torch.unravel_index(torch.tensor([3, 8], dtype=torch.uint8, device=device), (4, 5))
    assert [p.tolist() for p in places] == [[0, 1], [3, 3]] and places[0].dtype == torch.int64
    # Bounds and steps are whole numbers first; how many there are is not.
    for dtype in (torch.uint8, torch.int8, torch.int32, torch.int64):
        assert torch.arange(0.5, 9, 1.7, dtype=dtype, device=device).tolist() == [0, 1, 2, 3, 4]


def test_indices_along_a_dimension_wrap(device):
    x = torch.arange(10.0, device=device).view(2, 5)
    at = torch.tensor([[-1, -6, 7]], device=device)
    assert torch.take_along_dim(x, at, 1).tolist() == [[4.0, 4.0, 2.0], [9.0, 9.0, 7.0]]
    with pytest.raises((IndexError, RuntimeError), match="index -1 is out of bounds for dimension 0 with size 10"):
        torch.take_along_dim(x, torch.tensor([-1], device=device)).tolist()


def test_distances_and_spreads_of_complex_numbers_are_real(device):
    x = torch.tensor([[3 + 4j, 0], [0, 0]], device=device)
    for p, want in ((2.0, [5.0, 0.0]), (1.0, [5.0, 0.0]), (float("inf"), [5.0, 0.0])):
        distance = torch.nn.functional.pairwise_distance(x, torch.zeros_like(x), p=p, eps=0.0)
        assert distance.dtype == torch.float32 and np.allclose(distance.tolist(), want)
    z = torch.tensor([1 + 1j, 2, 3j], device=device)
    assert np.isclose(torch.masked.var(z, dim=0).item(), 10 / 3)
    kept = torch.tensor([True, False, True], device=device)
    assert np.isclose(torch.masked.logsumexp(z, dim=0, mask=kept).item(), np.log(np.exp(1 + 1j) + np.exp(3j)))


def test_a_part_starts_where_a_tensor_says(device):
    x = torch.arange(5.0, device=device)
    assert x.narrow(0, torch.tensor(1), 2).tolist() == [1.0, 2.0]
    assert x.narrow(0, torch.tensor(-2, device=device), 2).tolist() == [3.0, 4.0]


def test_what_is_overwritten_has_the_gradient_zero(device):
    x, y = (torch.ones(2, 3, device=device).requires_grad_() for _ in range(2))
    torch.slice_scatter(x, y, 0, 0, 20, 1).sum().backward()
    assert x.grad.tolist() == [[0.0] * 3] * 2 and y.grad.tolist() == [[1.0] * 3] * 2


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("beta, alpha", [(1, 1), (1.3, 0.7), (0, 2), (2, 0)])
def test_blended_products_of_16_bit_floats_are_rounded_once(device, dtype, beta, alpha):
    """As PyTorch's: neither the product nor a summand is rounded before the sum."""
    dtype = getattr(torch, dtype)
    torch.manual_seed(3)

    def numbers(*shape):
        return torch.randn(shape).to(dtype)

    x, row, a, b, v = numbers(40, 30), numbers(30), numbers(40, 50), numbers(50, 30), numbers(50)
    xs, many, others = numbers(2, 40, 30), numbers(2, 40, 50), numbers(2, 50, 30)
    cases = [
        (torch.addmm, x, a, b, lambda a, b: a @ b),
        (torch.addmm, row, a, b, lambda a, b: a @ b),
        (torch.baddbmm, xs, many, others, lambda a, b: a @ b),
        (torch.addbmm, x, many, others, lambda a, b: (a @ b).sum(0)),
        (torch.addmv, numbers(40), a, v, lambda a, b: a @ b),
    ]
    for op, x, a, b, product in cases:
        exact = beta * x.double() + alpha * product(a.double(), b.double())
        got = op(x.to(device), a.to(device), b.to(device), beta=beta, alpha=alpha).cpu()
        assert got.dtype == dtype
        # Sums in another order may fall on the other side of a middle, seldom.
        assert (got != exact.float().to(dtype)).float().mean() < 0.02, op.__name__
        leaves = [t.detach().to(device).requires_grad_() for t in (x, a, b)]
        op(*leaves, beta=beta, alpha=alpha).sum().backward()
        wide = [t.double().requires_grad_() for t in (x, a, b)]
        op(*wide, beta=beta, alpha=alpha).sum().backward()
        for leaf, want in zip(leaves, wide):
            assert leaf.grad.dtype == dtype
            error = (leaf.grad.cpu().double() - want.grad).abs().max()
            assert error <= 0.02 * (1 + want.grad.abs().max()), op.__name__


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.bool])
def test_alpha_times_an_integer_tensor_keeps_its_fraction(device, dtype):
    x, y = torch.zeros(1, device=device), torch.tensor([1], dtype=dtype, device=device)
    assert x.add(y, alpha=0.25).tolist() == [0.25]
    assert x.sub(y, alpha=0.25).tolist() == [-0.25]
    assert x.clone().add_(y, alpha=0.25).tolist() == [0.25]
    assert torch._foreach_add([x], [y], alpha=0.25)[0].tolist() == [0.25]
