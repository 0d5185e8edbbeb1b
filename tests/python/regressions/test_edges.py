"""Values and shapes at the edge: infinities, sizes of zero, exponents beyond a word, memory seen several times.

Expected values are PyTorch's (2.15, on cpu).
"""

import math
import random

import pytest

import pytpu as torch
from pytpu.testing import assert_close

INF, NAN, PI = math.inf, math.nan, math.pi


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


def test_complex_powers_of_zero(device):
    assert (torch.tensor([0j, 0j], device=device) ** (1.5 + 1j)).tolist() == [0, 0]
    assert (torch.tensor([0.0], device=device) ** (1.5 + 1j)).tolist() == [0]


def test_indices_into_nothing_are_errors_and_harm_nothing(device):
    zeros, at = torch.zeros(0, 3, device=device), torch.tensor([0], device=device)
    before = torch.ones(3, device=device) + 1
    with pytest.raises(RuntimeError, match="self indexing axis dim should be positive"):
        zeros.index_select(0, at)
    with pytest.raises((RuntimeError, IndexError)):
        torch.nn.functional.embedding(at, zeros)
    with pytest.raises(RuntimeError, match="out of bounds for dimension 0 with size 0"):
        zeros[:, 0].gather(0, at)
    with pytest.raises(RuntimeError, match="out of bounds for dimension 0 with size 0"):
        zeros[:, 0].scatter(0, at, 1.0)
    assert zeros.index_select(0, at[:0]).shape == (0, 3)
    assert before.tolist() == [2, 2, 2]


def test_what_is_not_finite_stays_in_its_windows(device):
    x = torch.tensor([[[NAN, 1, 2, 3], [4, 5, 6, 7], [1, 2, 3, 4], [1, 1, 1, INF]]], device=device)
    y = torch.nn.functional.adaptive_avg_pool2d(x, (2, 3)).flatten().tolist()
    assert math.isnan(y[0]) and y[1:5] == [3.5, 4.5, 1.25, 1.75] and y[5] == INF


def test_norms_of_nothing(device):
    F = torch.nn.functional
    mean, var = torch.zeros(2, device=device), torch.ones(2, device=device)
    assert F.batch_norm(torch.zeros(0, 2, 3, device=device), mean, var, training=True).shape == (0, 2, 3)
    assert F.instance_norm(torch.zeros(0, 2, 3, device=device), mean, var).shape == (0, 2, 3)
    assert mean.tolist() == [0, 0] and var.tolist() == [1, 1]


def test_writes_to_what_was_expanded(device):
    x = torch.zeros(3, device=device)
    x.expand(2, 3)[0].add_(1)
    assert x.tolist() == [1, 1, 1]
    x.expand(2, 3)[1, 1:].mul_(5)
    assert x.tolist() == [1, 5, 5]
    x.expand(2, 3).fill_(4)
    assert x.tolist() == [4, 4, 4]
    x.expand(2, 3)[:, 1].zero_()
    assert x.tolist() == [4, 0, 4]
    x.expand(2, 3)[2:] = 7
    assert x.tolist() == [4, 0, 4]
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        x.expand(2, 3).add_(1)


def test_as_strided_speaks_of_the_storage(device):
    b = torch.arange(24.0, device=device).reshape(4, 6)
    assert b.t().detach().as_strided((2, 2), (3, 1), 1).tolist() == [[1, 2], [4, 5]]
    assert b[1:].detach().t().as_strided((2, 2), (3, 1)).tolist() == [[6, 7], [9, 10]]
    assert b[1:].detach().t().diagonal().tolist() == [6, 13, 20]
    b.t().data.as_strided((2, 2), (3, 1), 1).zero_()
    assert b[0].tolist() == [0, 0, 0, 3, 0, 0] and b[1:].flatten().tolist() == list(range(6, 24))


def test_retained_gradients_accumulate(device):
    x = torch.ones(2, device=device, requires_grad=True)
    y = x * 2
    y.retain_grad()
    (y * y).sum().backward(retain_graph=True)
    (y * y).sum().backward()
    assert y.grad.tolist() == [8, 8] and x.grad.tolist() == [16, 16]


@pytest.mark.parametrize("join", [torch.cat, torch.stack])
def test_batches_drawn_from_a_buffer_are_one_program(join):
    now = [torch.full((1, 4), float(k)).to("tpu") for k in range(100)]
    then = now[1:] + now[:1]
    draw = random.Random(0)

    def batch():
        at = draw.sample(range(100), 32)
        change = join([then[k] for k in at]) - join([now[k] for k in at])
        assert change.reshape(32, 4)[:, 0].tolist() == [1.0 if k < 99 else -99.0 for k in at]

    batch()
    before = torch.tpu.compilation_count()
    for _ in range(5):
        batch()
    assert torch.tpu.compilation_count() == before
    assert now[0].tolist() == [[0, 0, 0, 0]]


def test_stacked_tensors_are_no_view(device):
    x = torch.zeros(2, 3, device=device)
    for dim in (0, 1, 2):
        y = torch.stack([x] * 20, dim)
        assert not y._is_view() and y.shape[dim] == 20
        y += 1
        assert y.sum().item() == 120 and x.sum().item() == 0


def _reads(x, i):
    return x[i] * 2 + x[:, i : i + 2].sum()


def _writes(x, i):
    y = x.clone()
    y[i] = y[i + 1] + i
    y[:, i] += 1
    y[i, i] = -7
    y[i : i + 5 : 2] *= 3
    return y


def _rolls(x, i):
    return x.roll(i, 0) + x.roll((i, -i), (0, 1))


def _windows(x, i):
    return x.as_strided((3, 2), (13, 2), i) + x.flatten()[i:].as_strided((3, 2), (12, 1))


def _gradients(x, i):
    w = x.detach().requires_grad_()
    y = w * 1
    y[i] = 2 * w[i + 2]
    (y[:, i].pow(2).sum() + w[i : i + 6 : 3].prod() + (w.roll(i, 1) * x).sum()).backward()
    return w.grad


def _second_gradients(x, i):
    w = x.detach().requires_grad_()
    (g,) = torch.autograd.grad((w[i] ** 3).sum() + (w[:, i : i + 2] ** 2).sum(), w, create_graph=True)
    (g * x).sum().backward()
    return w.grad


def _pads(x, i):
    w = x.detach().requires_grad_()
    y = torch.nn.functional.pad(w, (i, 4 - i, 4 - i, i), value=0.5)
    (g,) = torch.autograd.grad((y**3).sum(), w, create_graph=True)
    (g**2).sum().backward()
    return y.detach(), w.grad


@pytest.mark.parametrize("program", [_pads, _reads, _writes, _rolls, _windows, _gradients, _second_gradients])
def test_a_number_as_a_place_is_no_new_program(program):
    x = torch.arange(120.0).reshape(10, 12).cos()
    on_tpu = x.to("tpu")
    for i in [0, 1, 2, 3, 1, 2, 4, 3]:
        if i == 3:
            before = torch.tpu.compilation_count()
        assert_close(program(on_tpu, i), program(x, i), check_device=False)
    # Nothing was compiled for 4, and nothing at the end.
    assert torch.tpu.compilation_count() == before


@pytest.mark.parametrize("dtype", [torch.float64, torch.int8, torch.bool, torch.complex64, torch.bfloat16])
def test_places_of_every_dtype(dtype):
    x = (torch.arange(24).reshape(6, 4) % 5).to(dtype)
    on_tpu = x.to("tpu")
    for i in range(4):
        y, z = x.clone(), on_tpu.clone()
        for t in (y, z):
            t[i::2] = t[i].clone()
            t[:, i] = t[i, i].clone()
            t[i : i + 2, 1:3] = 1
            t[i : i + 2, 0] = t[4:6, i]
        assert z.tolist() == y.tolist()


def test_a_buffer_filled_in_a_loop_is_few_programs():
    steps = torch.zeros(300, 4, device="tpu")
    x = torch.ones(4, device="tpu")
    before = torch.tpu.compilation_count()
    for i in range(300):
        steps[i] = x * i
    assert steps[:, 2].tolist() == list(range(300))
    for i in range(300):
        steps[i, 1] = steps[299 - i, 2].item()
    assert steps[:, 1].tolist() == list(range(299, -1, -1))
    assert torch.tpu.compilation_count() - before < 20


@pytest.mark.parametrize(
    "write",
    [
        lambda e: e[0].mul_(2),
        lambda e: e[1, 2].add_(5).mul_(e[0, 0].detach() + 1),
        lambda e: e[2][:, 1].fill_(3),
        lambda e: e[2, ::2].exp_(),
    ],
)
def test_history_of_writes_to_part_of_what_was_expanded(write, device):
    factors = torch.arange(16.0, device=device).view(4, 4)

    def run(expand):
        x = torch.arange(16.0, device=device).view(4, 4).div(8).requires_grad_()
        y = x * 1
        # All copies are the same memory.
        write(y.unsqueeze(0).expand(3, 4, 4) if expand else _Copies(y))
        (y * factors).sum().backward()
        return y.detach(), x.grad

    assert_close(run(True), run(False))


class _Copies:
    """Three of one matrix, as indexing sees them."""

    def __init__(self, y):
        self.y = y

    def __getitem__(self, at):
        rest = at[1:] if isinstance(at, tuple) else ()
        return self.y[rest] if rest else self.y


def test_slice_scatter_gives_memory_of_its_own(device):
    x, part = torch.arange(4.0, device=device), torch.ones(4, device=device)
    torch.slice_scatter(x, x[:0], 0, 1, 1).add_(5)
    torch.slice_scatter(x, part, 0).add_(5)
    assert x.tolist() == [0, 1, 2, 3] and part.tolist() == [1, 1, 1, 1]
    assert torch.slice_scatter(x, part.double()[:2], 0, 1, 3).tolist() == [0, 1, 1, 3]


def test_leaves_that_are_views_are_not_written(device):
    base = torch.zeros(3, 4, device=device)
    x = base.view(4, 3).requires_grad_()
    for write in (lambda: x.add_(1), lambda: x[0].add_(1), lambda: x.__setitem__(0, 1), lambda: x[:].mul_(2)):
        with pytest.raises(
            RuntimeError, match="a view of a leaf Variable that requires grad is being used in an in-place"
        ):
            write()
    with torch.no_grad():
        x[0] = 1
    base.add_(1)
    assert x.sum().item() == 15 and not base.requires_grad


def test_ties_of_a_median_share_its_gradient(device):
    for median in (torch.median, torch.nanmedian):
        x = torch.tensor([1.0, 2.0, 2.0, 3.0], device=device).requires_grad_()
        y = median(x)
        assert y.item() == 2
        y.backward()
        assert x.grad.tolist() == [0, 0.5, 0.5, 0]


def test_rms_norm_gives_the_inputs_dtype(device):
    for dtype in (torch.float64, torch.bfloat16, torch.float32):
        x = torch.ones(2, 3, dtype=dtype, device=device)
        assert torch.nn.functional.rms_norm(x, (3,), torch.ones(3, device=device)).dtype == dtype


def test_diagonals_of_nothing_have_a_history(device):
    for k in (0, 1, -2):
        x = torch.zeros(2, 0, device=device).requires_grad_()
        y = torch.diagflat(x, k)
        assert y.shape == (abs(k), abs(k)) and y.requires_grad
        y.sum().backward()
        assert x.grad.shape == (2, 0)


def test_a_write_of_nothing_has_a_history(device):
    nothing = torch.zeros(0, device=device).requires_grad_()
    for write in (
        lambda y: y[1:1].copy_(nothing),
        lambda y: y[1:1].mul_(nothing),
        lambda y: y.__setitem__(slice(1, 1), nothing),
        lambda y: y.view(3, 1).diagonal(1).copy_(nothing),
    ):
        y = torch.arange(3.0, device=device)
        write(y)
        assert y.requires_grad and y.tolist() == [0, 1, 2]
        (y * y).sum().backward()
        assert nothing.grad.shape == (0,)


@pytest.mark.parametrize(
    "window",
    [
        lambda y: y.diagonal(),
        lambda y: y.diagonal(1)[1:],
        lambda y: y[1:].diagonal(),
        lambda y: y.t().as_strided((3,), (5,), 1),
        lambda y: y.narrow(0, 0, 3).narrow(1, 0, 3).as_strided((3,), (5,)),
        lambda y: y.unsqueeze(0).diagonal(0, 1, 2)[0, :3],
    ],
)
def test_a_write_to_a_diagonal_has_a_history(window, device):
    x = torch.tensor([2.0, 3.0, 5.0, 7.0], device=device).requires_grad_()
    for write, result in (
        (torch.Tensor.copy_, lambda old, new: new + 0),
        (torch.Tensor.mul_, lambda old, new: old * new),
        (torch.Tensor.add_, lambda old, new: old + new),
    ):
        y = torch.arange(16.0, device=device).reshape(4, 4) * 1
        v = window(y)
        old = v.clone()
        write(v, x[: len(v)])
        assert v.requires_grad and y.requires_grad and v._base is y
        new = result(old, x[: len(v)])
        assert torch.equal(window(y), new)
        (g,) = torch.autograd.grad((y * y).sum(), x)
        (expected,) = torch.autograd.grad((new * new).sum(), x)
        assert torch.equal(g, expected)


def test_diagonals_are_put_back_with_their_history(device):
    x = torch.tensor([2.0, 3.0], device=device).requires_grad_()
    for y in (torch.diagflat(x, 1), torch.diagonal_scatter(torch.zeros(2, 2, device=device), x)):
        assert y.requires_grad
        (g,) = torch.autograd.grad((y**2).sum(), x)
        assert g.tolist() == [4, 6]


@pytest.mark.parametrize(
    "data",
    [lambda x: x.mT, lambda x: x[1:], lambda x: x[:, :2], lambda x: x[1:].mT, lambda x: x.flatten()[3:9].view(2, 3)],
)
@pytest.mark.parametrize(
    "window",
    [
        lambda p: p.diagonal(),
        lambda p: p.t().diagonal(),
        lambda p: p[1:].diagonal(),
        lambda p: p.unfold(0, 2, 1),
        lambda p: p.unfold(1, 2, 1)[:, 0],
        lambda p: p.as_strided((2,), (p.stride(1),)),
    ],
)
def test_windows_on_a_parameter_whose_data_is_a_view(data, window, device):
    x = torch.arange(12.0, device=device).view(4, 3)
    p, q = (torch.nn.Parameter(torch.zeros_like(data(x))) for _ in range(2))
    p.data = data(x)
    q.data = data(x).contiguous().clone()
    got = window(p)
    # Where the elements of the window are in `p`, told by a tensor with the same strides on the host.
    places = data(torch.arange(12).view(4, 3))
    order = torch.full((12,), -1)
    order[places] = torch.arange(p.numel()).view(p.shape)
    seen = window(places)
    want = q.flatten()[order[seen].to(device)]
    weights = torch.arange(1.0, got.numel() + 1, device=device).view(got.shape)
    assert got.shape == want.shape and torch.equal(got, want)
    assert torch.equal(*(torch.autograd.grad((y * weights).sum(), leaf)[0] for y, leaf in ((got, p), (want, q))))
    with torch.no_grad():
        window(p).mul_(2)
    assert not torch.equal(data(x), q) and torch.equal(p, data(x))


def test_windows_beyond_a_parameter_have_no_history(device):
    x = torch.arange(6.0, device=device).view(3, 2)
    p = torch.nn.Parameter(torch.zeros(2, 2, device=device))
    p.data = x[1:]
    with pytest.raises(NotImplementedError, match="beyond the elements of a tensor whose data is a view"):
        p.as_strided((2,), (2,), 0)
    assert p.detach().as_strided((2,), (2,), 0).tolist() == [0, 2]


@pytest.mark.parametrize(
    "rows, inner, outer",
    [((3,), 8, 0), ((2, 3), 8, 0), ((2, 3), 0, 4), ((0,), 8, 4), ((), 8, 0), ((0, 2), 0, 0)],
)
def test_linear_layers_without_features(rows, inner, outer, device):
    x, w = (torch.ones(*s, device=device, requires_grad=True) for s in ((*rows, inner), (outer, inner)))
    b = torch.ones(outer, device=device, requires_grad=True)
    y = torch.nn.functional.linear(x, w, b)
    assert y.shape == (*rows, outer) and (y == 1 + inner).all()
    y.sum().backward()
    count = 1
    for n in rows:
        count *= n
    assert x.grad.shape == x.shape and (x.grad == outer).all()
    assert w.grad.shape == w.shape and (w.grad == count).all()
    assert b.grad.shape == b.shape and (b.grad == count).all()


@pytest.mark.parametrize("name", ["dropout", "alpha_dropout", "dropout2d", "feature_alpha_dropout"])
def test_dropout_in_place_of_nothing_writes_nothing(name, device):
    f = getattr(torch.nn.functional, name)
    x = torch.randn(2, 3, 4, 5, device=device, requires_grad=True)
    for p, training in ((0.5, False), (0.0, True)):
        y = x.softmax(-1)
        assert f(y, p, training, inplace=True) is y and y._version == 0
        (y * y).sum().backward()
        assert f(x, p, training, inplace=True) is x
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        f(x, 0.5, True, inplace=True)
    with pytest.raises((RuntimeError, ValueError), match="dropout probability has to be between 0 and 1"):
        f(x, 1.5, False, inplace=True)
    y = torch.ones(4, 50, 2, 2, device=device)
    assert f(y, 0.5, True, inplace=True) is y and y._version > 0 and len(y.unique()) == 2
