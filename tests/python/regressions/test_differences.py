"""What once differed from PyTorch: values, dtypes, exceptions and their words."""

import math

import numpy as np
import pytest

import pytpu as torch
from pytpu.nn import functional as F

REFUSED = [
    ("x - (x > 0)", NotImplementedError, "with a bool tensor is not supported"),
    ("(x > 0) - (x > 0)", NotImplementedError, "with two bool tensors is not supported"),
    ("~x", TypeError, "only implemented on integer and Boolean-type tensors"),
    ("torch.frac(i)", NotImplementedError, "\"frac_cpu\" not implemented for 'Long'"),
    ("torch.hypot(i, i)", NotImplementedError, "\"hypot_cpu\" not implemented for 'Long'"),
    ("torch.logaddexp(i, i)", NotImplementedError, "\"logaddexp_cpu\" not implemented for 'Long'"),
    ("(x > 0) % (x > 0)", NotImplementedError, "\"remainder_cpu\" not implemented for 'Bool'"),
    ("torch.argmax(x > 0)", NotImplementedError, "does not support bool input"),
    ("torch.sin_(i)", RuntimeError, "result type Float can't be cast to the desired output type Long"),
    ("torch.std(i)", NotImplementedError, "only support floating point and complex dtypes"),
    ("torch.cat([])", ValueError, "expected a non-empty list of Tensors"),
    ("torch.vstack([])", RuntimeError, "vstack expects a non-empty TensorList"),
    ("torch.meshgrid([])", RuntimeError, "meshgrid expects a non-empty TensorList"),
    (
        "torch.full((2,), 300, dtype=torch.uint8)",
        RuntimeError,
        "value cannot be converted to type uint8_t without overflow",
    ),
    (
        "torch.full((2,), math.nan, dtype=torch.int32)",
        RuntimeError,
        "value cannot be converted to type int without overflow",
    ),
    (
        "x.__setitem__([0, 1], i)",
        RuntimeError,
        "source and destination dtypes match, got Float for the destination and Long",
    ),
    ("x.__setitem__(0, [1, 2])", TypeError, "can't assign a list to a torch.FloatTensor"),
    ("x.reshape(1, 2, 2).index_copy(1, i, x)", IndexError, "their dimensionality must match"),
    ("x.index_fill(0, i.int(), 1.0)", IndexError, "Expected dtype int64 for index"),
    ("torch.mm(x, x[:1])", RuntimeError, "mm: mat1 and mat2 shapes cannot be multiplied (2x2 and 1x2)"),
    ("F.linear(x, x[:, :1], i)", RuntimeError, "addmm: mat1 and mat2 shapes cannot be multiplied (2x2 and 1x2)"),
    ("torch.addmv(x[0], x, x.new_ones(3))", RuntimeError, "size mismatch, got input (2), mat (2x2), vec (3)"),
    ("torch.tensordot(x, x, 3)", RuntimeError, "tensordot expects dims < ndim_a or ndim_b, but got dims=3"),
    ("F.smooth_l1_loss(i, i)", NotImplementedError, "\"smooth_l1_cpu\" not implemented for 'Long'"),
    ("F.huber_loss(i, i)", NotImplementedError, "\"huber_cpu\" not implemented for 'Long'"),
    ("F.kl_div(x, x.long())", RuntimeError, "kl_div: Integral inputs not supported."),
    ("F.nll_loss(i.reshape(1, 2), i[:1])", NotImplementedError, "\"nll_loss_out_frame\" not implemented for 'Long'"),
    ("F.binary_cross_entropy(x.abs() / 9, x.double())", RuntimeError, "Found dtype Double but expected Float"),
    ("F.binary_cross_entropy(x, x).item()", RuntimeError, "all elements of input should be between 0 and 1"),
    (
        "F.conv1d(i.reshape(1, 1, 2), i.reshape(1, 1, 2), x[0, :1])",
        RuntimeError,
        "and bias type (float) should be the same",
    ),
    (
        "F.pad(x.reshape(1, 1, 2, 2), (1, 1), 'reflect')",
        NotImplementedError,
        "Padding size 2 is not supported for 4D input tensor",
    ),
    ("torch.multinomial(x.abs(), 1, out=x.clone())", RuntimeError, "multinomial expects Long tensor out, got: Float"),
    ("torch.arange(2, dtype=torch.bool)", NotImplementedError, "\"arange_cpu\" not implemented for 'Bool'"),
    ("torch.linspace(0, 1, 3, dtype=torch.bool)", NotImplementedError, "\"linspace_cpu\" not implemented for 'Bool'"),
    ("torch.kthvalue(x[0] > 0, 1)", NotImplementedError, "\"kthvalue_cpu\" not implemented for 'Bool'"),
    ("torch.median(x > 0)", NotImplementedError, "\"median_cpu\" not implemented for 'Bool'"),
    ("torch.median(x > 0, 0)", NotImplementedError, "\"median_out\" not implemented for 'Bool'"),
    (
        "torch.baddbmm(x[None], x[None], x)",
        IndexError,
        "Dimension out of range (expected to be in range of [-2, 1], but got 2)",
    ),
    ("torch.neg(x, out=x.long())", RuntimeError, "Found dtype Long but expected Float"),
    ("(x > 0) // (x > 0)", NotImplementedError, "\"div_floor_cpu\" not implemented for 'Bool'"),
    (
        "torch.Tensor.float_power_(x, 2)",
        RuntimeError,
        "has dtype Float but the operation's result requires dtype Double",
    ),
]


@pytest.mark.parametrize("expression, kind, words", REFUSED, ids=[e for e, _, _ in REFUSED])
def test_refused_in_pytorchs_words(device, expression, kind, words):
    x = torch.tensor([[1.0, -2.0], [3.0, 4.0]], device=device)
    names = {"x": x, "i": torch.tensor([0, 1], device=device), "torch": torch, "F": F, "math": math}
    with pytest.raises(kind) as error:
        eval(expression, names)
    assert words in str(error.value)
    assert type(error.value) is kind


def test_result_type_ranks_tensors_over_numbers():
    half, number = torch.ones(2, dtype=torch.float16), torch.tensor(1.0, dtype=torch.float64)
    assert torch.result_type(half, number) is torch.float16
    assert torch.result_type(torch.ones(2, dtype=torch.int8), 1) is torch.int8
    assert torch.result_type(torch.ones(2, dtype=torch.int8), 1.5) is torch.float32
    assert torch.result_type(1, 2.5) is torch.float32


def test_lists_that_hold_lists_or_slices_are_tuples(device):
    x = torch.arange(24, device=device).reshape(2, 3, 4)
    assert torch.equal(x[[[0, 1], [1, 0]]], x[[0, 1], [1, 0]])
    assert torch.equal(x[[slice(0, 1)]], x[:1])
    assert torch.equal(x[[None]], x[None])
    assert torch.equal(x[range(2)], x)
    assert torch.equal(x[..., ...], x)
    assert torch.equal(x[[1.5]], x[[1]])
    x[[[0, 1], [1, 0]]] = 7
    assert x[0, 1].tolist() == [7] * 4 and x[1, 0].tolist() == [7] * 4 and x[0, 0, 1].item() == 1


def test_a_mask_over_leading_dimensions_takes_a_number_of_any_dtype(device):
    x = torch.zeros(2, 3, device=device)
    x[torch.tensor([True, False], device=device)] = torch.tensor(5, device=device)
    assert x.tolist() == [[5.0] * 3, [0.0] * 3]


def test_bytes_answer_all_and_any_in_bytes(device):
    x = torch.tensor([[1, 0], [2, 3]], dtype=torch.uint8, device=device)
    assert x.all().dtype is torch.uint8 and x.any(1).dtype is torch.uint8
    assert x.all(1).tolist() == [0, 1]


def test_values_that_differed(device):
    nan = torch.tensor([math.nan, -2.0], device=device)
    assert nan.sign().tolist() == [0.0, -1.0]
    assert torch.add(torch.tensor([True]), torch.tensor([True]), alpha=2).dtype is torch.bool
    x = torch.arange(6.0, device=device).reshape(1, 2, 3)
    assert x.moveaxis(0, -1).shape == (2, 3, 1)
    target = torch.tensor([2], dtype=torch.uint8, device=device)
    assert torch.equal(F.nll_loss(x[:, 0], target), F.nll_loss(x[:, 0], target.long()))
    assert torch.isin(torch.tensor([1, 2, 3], device=device), 2).tolist() == [False, True, False]
    logits = torch.zeros(3, device=device)
    assert math.isclose(F.binary_cross_entropy_with_logits(logits, logits).item(), math.log(2), rel_tol=1e-6)
    ys = torch.tensor([0.0, 3.0], device=device)
    assert F.huber_loss(ys, ys * 0, reduction="none").tolist() == [0.0, 2.5]
    assert F.smooth_l1_loss(ys, ys * 0, beta=2.0, reduction="none").tolist() == [0.0, 2.0]


def test_elements_are_mapped_by_a_function():
    x = torch.tensor([1.0, 2.0])
    assert x.map_(torch.tensor([10.0, 20.0]), lambda a, b: a + b).tolist() == [11.0, 22.0]
    assert x.map2_(x, x, lambda a, b, c: a + b - c).tolist() == [11.0, 22.0]
    assert torch.tensor([2.0], dtype=torch.float64).float_power_(3).item() == 8.0


def test_named_results_print_a_line_a_field():
    assert repr(torch.max(torch.tensor([[1.0, 2.0]]), 1)) == (
        "torch.return_types.max(\nvalues=tensor([2.]),\nindices=tensor([1]))"
    )


def test_print_options_are_kept_until_the_profile_changes():
    x = torch.tensor([1.23456, 2.0])
    try:
        torch.set_printoptions(precision=2)
        assert str(x) == "tensor([1.23, 2.00])"
        torch.set_printoptions(sci_mode=True)
        assert str(x) == "tensor([1.23e+00, 2.00e+00])"
        torch.set_printoptions(profile="default", threshold=3, edgeitems=1)
        assert str(torch.arange(10)) == "tensor([0,  ..., 9])"
    finally:
        torch.set_printoptions(profile="default")
    assert str(x) == "tensor([1.2346, 2.0000])"


def test_sixteen_bits_meet_a_number_in_full_precision(device):
    # The number itself is beyond float16, or falls between two of its neighbours; the results do not.
    half = torch.tensor([6.0e4, 2.0, -3.0], dtype=torch.float16, device=device)
    assert (half / 1e6).tolist() == [0.05999755859375, 2.0265579223632812e-06, 2.9802322387695312e-06 * -1]
    assert (1e6 / half).tolist()[0] == pytest.approx(16.67, rel=2e-3)
    assert (half[1:] * 1e-9 * 1e9).tolist() == [0.0, 0.0]
    assert (half[1:] * 1e-6).tolist() == (half[1:] / 1e6).tolist()
    wide = torch.linspace(-4, 4, 300, device=device).bfloat16()
    for number in (0.1, 3.3, 300001, 1e-3):
        assert torch.equal(wide * number, (wide.float() * number).bfloat16())
        assert torch.equal(number * wide, wide * number)
        assert torch.equal(wide / number, (wide.float() / number).bfloat16())
        assert torch.equal(wide // number, (wide.float() // number).bfloat16())
        assert torch.equal(wide.clone().mul_(number), wide * number)
        assert torch.equal(wide[::3] * number, (wide * number)[::3])
        assert torch.equal(wide * torch.tensor(number), wide * number)
        assert torch.equal(wide.div(number, rounding_mode="trunc"), (wide.float() / number).trunc().bfloat16())
        # Sums, powers and comparisons round the number first.
        rounded = torch.tensor(number, device=device).bfloat16()
        assert torch.equal(wide + number, wide + rounded)
        assert torch.equal(wide < number, wide < rounded)
    assert torch.equal(
        torch.lerp(wide, wide.flip(0), 0.3), torch.lerp(wide.float(), wide.flip(0).float(), 0.3).bfloat16()
    )


def test_gradients_of_sixteen_bits_and_a_number(device):
    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.bfloat16, device=device, requires_grad=True)
    (x * 0.1).sum().backward()
    assert x.grad.dtype is torch.bfloat16 and x.grad.tolist() == [0.10009765625] * 3
    x.grad = None
    (x / 3.3).sum().backward()
    assert x.grad.tolist() == [torch.tensor(1 / 3.3).bfloat16().item()] * 3


def test_another_number_beside_sixteen_bits_compiles_nothing():
    x = torch.ones(4, dtype=torch.bfloat16, device="tpu")
    x.tolist()
    (x * 0.3).tolist()
    before = torch.tpu.compilation_count()
    assert (x * 0.7).tolist() == [0.69921875] * 4
    assert (x * 2.0).tolist() == [2.0] * 4
    assert torch.tpu.compilation_count() == before


def test_view_of_another_dtype(device):
    f = torch.tensor([1.0, -2.0, 3.5, 0.0], device=device)
    assert f.view(torch.int32).tolist() == [1065353216, -1073741824, 1080033280, 0]
    assert f.view(torch.int16).tolist() == [0, 16256, 0, -16384, 0, 16480, 0, 0]
    assert f.view(torch.uint8).shape == (16,) and f.view(torch.uint8)[:4].tolist() == [0, 0, 128, 63]
    assert f.view(torch.int64).tolist() == [1065353216 + (-1073741824 << 32), 1080033280]
    assert f.view(torch.complex64).tolist() == [1 - 2j, 3.5 + 0j]
    assert torch.tensor([1 + 2j], device=device).view(torch.float32).tolist() == [1.0, 2.0]
    assert torch.tensor(1.0, device=device).view(torch.int32).item() == 1065353216
    assert (f > 0).view(torch.uint8).tolist() == [1, 0, 1, 0]
    assert torch.equal(f.view(torch.uint8).view(torch.float32), f)
    grid = torch.arange(8, dtype=torch.int32, device=device).reshape(2, 4)
    assert grid.t().view(torch.float32).shape == (4, 2)
    assert grid[:, 2:].view(torch.int64).tolist() == [[2 + (3 << 32)], [6 + (7 << 32)]]
    assert not f.clone().requires_grad_().view(torch.bfloat16).requires_grad


def test_a_view_of_another_dtype_shares_memory(device):
    f = torch.tensor([1.0, -2.0, 3.5, 0.0], device=device)
    f.view(torch.int32)[0] = 0x40000000
    assert f.tolist() == [2.0, -2.0, 3.5, 0.0]
    f.view(torch.int16)[3] = 0x3F80
    assert f.tolist() == [2.0, 1.0, 3.5, 0.0]
    bits = f[1:3].view(torch.int32)
    f.add_(1)
    assert bits.tolist() == [0x40000000, 0x40900000]
    f.view(torch.int64).zero_()
    assert f.tolist() == [0.0] * 4


VIEWS_REFUSED = [
    (
        "i[:, 1:].view(torch.int64)",
        "self.size(-1) must be divisible by 2 to view Int as Long (different element sizes), but got 3",
    ),
    ("i.t().view(torch.int16)", "self.stride(-1) must be 1 to view Int as Short (different element sizes), but got 4"),
    ("i[0, 0].view(torch.int16)", "self.dim() cannot be 0 to view Int as Short (different element sizes)"),
    (
        "i[0, 1:3].view(torch.int64)",
        "self.storage_offset() must be divisible by 2 to view Int as Long (different element sizes), but got 1",
    ),
    ("c.conj().view(torch.float32)", "torch.Tensor.view is not supported for conjugate view tensors when converting"),
]


@pytest.mark.parametrize("expression, words", VIEWS_REFUSED, ids=[e for e, _ in VIEWS_REFUSED])
def test_views_of_another_dtype_are_refused(device, expression, words):
    i = torch.arange(8, dtype=torch.int32, device=device).reshape(2, 4)
    c = torch.tensor([1 + 2j], device=device)
    with pytest.raises(RuntimeError) as error:
        eval(expression, {"i": i, "c": c, "torch": torch})
    assert words in str(error.value)


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


def test_truth_times_what_is_no_number(device):
    b = torch.tensor([True, False], device=device)
    for y in (b * math.nan, b.float() * torch.tensor([math.nan] * 2, device=device)):
        assert y.isnan().tolist() == [True, True]
    assert (b * math.inf).tolist()[0] == math.inf and (b * math.inf)[1].isnan().item()
    assert (b / 0).tolist()[0] == math.inf and (b / 0)[1].isnan().item()


def test_powers_without_bound_pool_maxima(device):
    x = torch.randn(1, 2, 8, 8, device=device)
    assert torch.equal(F.lp_pool2d(x, math.inf, 2), F.max_pool2d(x.abs(), 2))
    with pytest.raises(ValueError, match="norm_type must be a non-zero value, but got 0"):
        F.lp_pool1d(x[0], 0, 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_no_gradient_where_a_bound_is_met(device, dtype):
    for f, xs, slopes in [
        (F.relu6, [-1.0, 0.0, 1.0, 6.0, 7.0], [0.0, 0.0, 1.0, 0.0, 0.0]),
        (F.hardtanh, [-2.0, -1.0, 0.5, 1.0, 2.0], [0.0, 0.0, 1.0, 0.0, 0.0]),
        (F.hardsigmoid, [-4.0, -3.0, 0.0, 3.0, 4.0], [0.0, 0.0, 1 / 6, 0.0, 0.0]),
    ]:
        x = torch.tensor(xs, dtype=dtype, device=device, requires_grad=True)
        f(x).sum().backward()
        assert torch.equal(x.grad, torch.tensor(slopes, device=device).to(dtype)), f


def test_types_from_before_dtypes():
    assert torch.FloatTensor([1, 2]).tolist() == [1.0, 2.0] and torch.LongTensor((3,)).dtype is torch.int64
    assert torch.FloatTensor(2, 3).shape == (2, 3) and torch.HalfTensor().shape == (0,)
    assert isinstance(torch.zeros(2), torch.FloatTensor) and not isinstance(torch.zeros(2), torch.LongTensor)
    assert torch.zeros(2).type(torch.BoolTensor).dtype is torch.bool
    assert torch.ByteTensor.dtype is torch.uint8
    with pytest.raises(TypeError, match="expected torch.FloatTensor"):
        torch.FloatTensor(torch.zeros(2).long())
    with pytest.raises(TypeError, match="data must be a sequence"):
        torch.FloatTensor(1.5)


def test_the_gradient_of_clamp_stays_within_numbers_and_is_shared_with_tensors(device):
    def gradient(function, *more):
        x = torch.tensor([-2.0, -1.0, 0.0, 1.0, 2.0, float("nan")], device=device, requires_grad=True)
        function(x, *more).sum().backward()
        return x.grad.tolist()

    assert gradient(lambda x: x.clamp(-1, 1)) == [0, 0, 1, 0, 0, 0]
    assert gradient(lambda x: x.clamp(min=-1)) == [0, 0, 1, 1, 1, 0]
    assert gradient(lambda x: x.clamp_max(1)) == [1, 1, 1, 0, 0, 0]
    low = torch.full((6,), -1.0, device=device, requires_grad=True)
    high = torch.full((6,), 1.0, device=device, requires_grad=True)
    assert gradient(lambda x: x.clamp(low, high))[:5] == [0, 0.5, 1, 0.5, 0]
    assert low.grad.tolist()[:5] == [1, 0.5, 0, 0, 0]
    assert high.grad.tolist()[:5] == [0, 0, 0, 0.5, 1]
    # Functions that clamp on the way keep their own gradients at the bounds.
    assert gradient(lambda x: torch.nn.functional.softshrink(x, 1.0))[:5] == [1, 0, 0, 0, 1]
    assert gradient(lambda x: torch.nn.functional.hardtanh(x))[:5] == [0, 0, 1, 0, 0]


def test_gradients_of_maxima_beside_nan(device):
    nan = float("nan")
    want = {
        "maximum": ([0.5, 1, 0, 1, 1, 1], [0.5, 0, 1, 1, 1, 1]),
        "minimum": ([0.5, 0, 1, 1, 1, 1], [0.5, 1, 0, 1, 1, 1]),
        "fmax": ([0.5, 1, 0, 0, 1, 1], [0.5, 0, 1, 1, 0, 0]),
        "fmin": ([0.5, 0, 1, 0, 1, 1], [0.5, 1, 0, 1, 0, 0]),
    }
    for name, gradients in want.items():
        a = torch.tensor([1, 2, 1, nan, 1, nan], device=device, requires_grad=True)
        b = torch.tensor([1, 1, 2, 1, nan, nan], device=device, requires_grad=True)
        getattr(torch, name)(a, b).sum().backward()
        assert (a.grad.tolist(), b.grad.tolist()) == gradients, name


def test_results_never_share_memory_with_what_they_were_made_of(device):
    number, pair = torch.tensor(3.0, device=device), torch.tensor([[1.0, 2.0]], device=device)
    makes = {
        "sum": lambda: (number, number.sum()),
        "sum of no dimension": lambda: (number, number.sum((), keepdim=True)),
        "max": lambda: (number, number.max()),
        "max along": lambda: (number, number.max(0)[0]),
        "min": lambda: (number, number.min()),
        "amax": lambda: (number, number.amax()),
        "prod": lambda: (number, number.prod()),
        "mean": lambda: (number, number.mean()),
        "pad": lambda: (pair, F.pad(pair, (0, 0))),
        "pad by reflection": lambda: (pair, F.pad(pair, (0, 0), mode="reflect")),
        "ZeroPad1d": lambda: (pair, torch.nn.ZeroPad1d(0)(pair)),
        "repeat_interleave": lambda: (pair, pair.repeat_interleave(1, 0)),
        "clamp": lambda: (pair, pair.clamp(max=float("inf"))),
    }
    for name, make in makes.items():
        x, y = make()
        before = x.tolist()
        y += 1
        assert x.tolist() == before, name
    loss = torch.tensor([1.0, 2.0], device=device, requires_grad=True).sum()
    total = loss.sum()
    total += 1
    assert loss.item() == 3 and total.item() == 4
    total.backward()


def test_indexed_dimensions_lie_as_pytorchs(device):
    x = torch.arange(24.0, device=device).reshape(2, 3, 4)
    for y in (x[:, [0, 2]], x[:, :, [1, 3]], x[:, torch.tensor([True, False, True])], x[:, [0, 1], [2, 3]]):
        assert y.is_contiguous() and not y._is_view()
        y.detach_()
    assert x[:, [0, 2]].view(-1).tolist() == x[:, ::2].reshape(-1).tolist()


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


def test_dropout_is_drawn_as_elements_lie_in_memory():
    torch.manual_seed(0)
    assert F.dropout(torch.ones(2, 3).t(), 0.5).tolist() == [[0, 0], [0, 0], [2, 0]]
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True)
    torch.manual_seed(1)
    y = layer(torch.arange(48.0).view(2, 3, 8) / 10)[1, 0, :2]
    assert torch.allclose(y, torch.tensor([-1.1500, -1.0826]), atol=1e-4)


def test_masks_of_the_host_and_of_bytes(device):
    x = torch.ones(2, 2, device=device)
    x[torch.tensor([True, False])] = 0.0
    assert x.tolist() == [[0, 0], [1, 1]]
    a, b = torch.tensor([1, 2], device=device), torch.tensor([3, 4], device=device)
    assert torch.where(torch.tensor([1, 0], dtype=torch.uint8, device=device), a, b).tolist() == [1, 4]


def test_overwriting_all_of_a_tensor_through_a_view_keeps_its_history(device):
    for write in (
        lambda y: y.__setitem__(slice(0, 2), torch.ones(2, 2, device=device)),
        lambda y: y.__setitem__(None, 2),
        lambda y: y.view(-1).zero_(),
        lambda y: y.t().copy_(3.0),
    ):
        w = torch.ones(2, 2, device=device, requires_grad=True)
        y = w * 1
        write(y)
        y.sum().backward()
        assert w.grad.tolist() == [[0, 0], [0, 0]]


def test_dimensions_of_numbers(device):
    x = torch.tensor(1.0, device=device)
    assert x.movedim(0, 0).shape == x.movedim(-1, 0).shape == x.movedim((), ()).shape == ()
    with pytest.raises(IndexError):
        x.moveaxis(0, 1)
    with pytest.raises(RuntimeError, match="unflatten got an unexpected error"):
        x.unflatten(0, (1, 1))


MANY_VIEWS = "This view is the output of a function that returns multiple views"
NO_GRAD_VIEW = "A view was created in no_grad mode and is being modified inplace with grad mode enabled"


@pytest.mark.parametrize("apart", ["chunk(2)", "split(2)", "split([1, 3])", "unbind(0)"])
def test_views_that_share_a_node_refuse_in_place_changes(device, apart):
    x = torch.ones(4, 2, device=device, requires_grad=True) * 1
    parts = eval(f"x.{apart}", {"x": x})
    for change in (lambda: parts[1].add_(1), lambda: parts[1][:1].mul_(2), lambda: parts[1].__setitem__(0, 3.0)):
        with pytest.raises(RuntimeError, match=MANY_VIEWS):
            change()
    with torch.no_grad():
        parts[0].add_(1)
    assert x[0, 0].item() == 2
    # Nothing is lost where nothing is recorded, or where nodes are not shared.
    plain = torch.zeros(4, 2, device=device)
    eval(f"plain.{apart}", {"plain": plain})[0].add_(1)
    assert plain.sum().item() > 0
    y = x.unsafe_chunk(2)[0].add_(1)
    y = y + x.tensor_split(2)[0].mul_(2)
    y.sum().backward()


def test_a_view_made_without_grad_refuses_recorded_changes(device):
    x = torch.ones(4, device=device, requires_grad=True)
    base = x * 1
    with torch.no_grad():
        of_leaf, view = x.view(2, 2), base.view(2, 2)
    for change in (lambda: of_leaf.add_(1), lambda: view.add_(1), lambda: view[0].add_(1)):
        with pytest.raises(RuntimeError, match=NO_GRAD_VIEW):
            change()
    with torch.no_grad():
        view.add_(1)
    assert base.tolist() == [2.0] * 4
    plain = torch.ones(4, device=device)
    with torch.no_grad():
        view = plain.view(2, 2)
    view.add_(1)
    with pytest.raises(RuntimeError, match=NO_GRAD_VIEW):
        view.mul_(x.view(2, 2))
    assert plain.tolist() == [2.0] * 4


def test_backward_runs_again_through_what_saved_nothing(device):
    p = torch.ones(3, device=device, requires_grad=True)
    shared = torch.cat([p.view(1, 3), p.expand(2, 3)]).sum(0)
    for _ in range(2):
        (shared * shared).sum().backward()
    assert p.grad.tolist() == [36.0] * 3
    product = (p * p).sum()
    product.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        product.backward()


@pytest.mark.parametrize("write", ["y[:] = b", "y[...] = b", "y.copy_(b)"])
def test_what_is_overwritten_has_a_gradient_of_zero(device, write):
    a, b = (torch.ones(3, device=device, requires_grad=True) for _ in range(2))
    y = a * 2
    exec(write, {"y": y, "b": b})
    y.sum().backward()
    assert a.grad.tolist() == [0.0] * 3 and b.grad.tolist() == [1.0] * 3


def test_written_values_lose_leading_ones(device):
    x = torch.zeros(4, 2, device=device)
    x[torch.tensor([True, False, True, False])] = torch.ones(1, 1, 1, 2, device=device)
    x[(1, 3), (1, 0)] = torch.full((1, 2), 5.0, device=device)
    assert x.tolist() == [[1, 1], [0, 5], [1, 1], [5, 0]]
    x[3, [True, False]] = torch.full((1, 1), 7.0, device=device)
    mask = torch.tensor([False, True, False, False], device=device)
    x[mask] = torch.tensor([9.0], dtype=torch.float64)
    assert x.tolist() == [[1, 1], [9, 9], [1, 1], [7, 0]]
    counts = torch.zeros(4, dtype=torch.int64, device=device)
    counts[mask] = torch.tensor([2.0])
    assert counts.tolist() == [0, 2, 0, 0]
    with pytest.raises(RuntimeError, match="value tensor of shape \\[3\\] cannot be broadcast"):
        x[[0, 1]] = torch.ones(1, 3, device=device)


def test_arrays_of_numpy_beside_tensors():
    x, array = torch.tensor([1.0, 2.0, 3.0]), np.array([1.0, 5.0, 3.0])
    assert (x == array).tolist() == [True, False, True] == (array == x).tolist()
    quotient = array / x
    assert quotient.dtype == torch.float64 and quotient.tolist() == pytest.approx([1.0, 2.5, 1.0])
    assert (x == np.array(["a"])) is False
    with pytest.raises(RuntimeError, match="must match the size of tensor b"):
        x == array[:2]


def test_types_of_python_as_dtypes_have_64_bits(device):
    assert torch.zeros(2, dtype=float, device=device).dtype == torch.float64
    assert torch.linspace(0, 1, 3, dtype=float, device=device).dtype == torch.float64
    assert torch.ones(2, device=device).to(float).dtype == torch.float64
    assert torch.ones(2, dtype=complex).dtype == torch.complex128
    assert torch.nn.Linear(2, 2, dtype=float).weight.dtype == torch.float64
    assert torch.tensor([1, 2], dtype=int).dtype == torch.int64 and torch.tensor([1, 0], dtype=bool).dtype == torch.bool


def test_the_hash_of_a_tensor_is_its_id():
    x = torch.ones(2)
    assert hash(x) == id(x) and hash(x + 1) != hash(x)


def test_stacked_tensors_have_one_node(device):
    x = torch.ones(2, device=device, requires_grad=True)
    y = torch.stack([x, x.double(), x * 3], dim=1)
    assert y.grad_fn.name() == "StackBackward0" and y.shape == (2, 3) and y.dtype is torch.float64
    assert torch.hstack([x, x]).grad_fn.name() == torch.cat([x, x]).grad_fn.name() == "CatBackward0"
    (y * torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], device=device)).sum().backward()
    assert x.grad.tolist() == [12, 27]


def test_one_element_tensors_in_a_list_are_numbers():
    assert torch.tensor([torch.tensor([1.0]), torch.tensor(2)]).tolist() == [1, 2]
    assert torch.tensor([2, torch.tensor([[1.5]])]).tolist() == [2, 1.5]
    assert torch.tensor([[1, 2], torch.tensor([3, 4])]).tolist() == [[1, 2], [3, 4]]


OVERLAPPING = [
    "x[1:].add_(x[:-1])",
    "x[1:].sub_(x[:-1], alpha=2)",
    "x[1:].copy_(x[:-1])",
    "x.mul_(x[2])",
    "x[:4].view(2, 2).add_(x[:4].view(2, 2).t())",
    "x[1:].lerp_(x[:-1], 0.5)",
    "x[1:].clamp_(x[:-1])",
    "x[1:].eq_(x[:-1])",
    "x[1:].scatter_(0, i, x[:2])",
    "x.add_(x.detach()[0])",
    "x.__setitem__(slice(1, None), x[:-1])",
]


@pytest.mark.parametrize("write", OVERLAPPING)
def test_writing_over_what_is_read_is_refused(device, write):
    x = torch.arange(6.0, device=device)
    with pytest.raises(
        RuntimeError, match="unsupported operation: some elements of the input tensor and the written-to tensor"
    ):
        eval(write, {"x": x, "i": torch.tensor([0, 1], device=device)})
    assert x.tolist() == [0, 1, 2, 3, 4, 5]


def test_writing_over_the_very_same_or_other_elements_is_not(device):
    x = torch.arange(6.0, device=device)
    x.add_(x)
    x[:3].add_(x[3:])
    x[::2].add_(x[1::2])
    assert x.tolist() == [16, 10, 20, 6, 18, 10]
    x[1:].sub_(x[0])
    x[1:].fill_(x[3])
    assert x.tolist() == [16, -10, -10, -10, -10, -10]
    y = torch.ones(1, 4, 2, device=device)
    y[:, 3] += 1
    assert y[0, 3].tolist() == [2, 2]


def test_a_number_may_be_written_to_repeated_elements(device):
    x = torch.ones(3, device=device)
    x.expand(2, 3)[:] = 5
    assert x.tolist() == [5, 5, 5]
    for write in (
        lambda e: e.add_(1),
        lambda e: e.copy_(torch.ones(2, 3, device=device)),
        lambda e: e.__setitem__(slice(None), x),
    ):
        with pytest.raises(
            RuntimeError, match="more than one element of the written-to tensor refers to a single memory location"
        ):
            write(x.expand(2, 3))


def test_truth_is_divided_by_numbers(device):
    truth, two = torch.tensor([True, False], device=device), torch.tensor([2, 1], device=device)
    for mode in ("trunc", "floor"):
        y = torch.div(truth, two, rounding_mode=mode)
        assert y.tolist() == [0, 0] and y.dtype is torch.int64
        assert torch.div(truth, 1, rounding_mode=mode).tolist() == [1, 0]
        with pytest.raises(NotImplementedError, match=f"\"div_{mode}_cpu\" not implemented for 'Bool'"):
            torch.div(truth, truth, rounding_mode=mode)


def test_a_power_of_one_half_is_a_root():
    x = torch.tensor([-math.inf, -0.0, 4.0])
    assert str((x**0.5).tolist()) == str(x.pow(0.5).tolist()) == str(x.clone().pow_(0.5).tolist()) == "[nan, -0.0, 2.0]"
    assert str((x**-0.5).tolist()) == "[nan, -inf, 0.5]"
    # An exponent that is a tensor takes the power.
    assert str((x ** torch.full((3,), 0.5)).tolist()) == "[inf, 0.0, 2.0]"


def test_searches_among_numbers_of_another_dtype(device):
    floats, ints = torch.tensor([1.5, 2.5], device=device), torch.tensor([1, 2, 3], device=device)
    assert torch.searchsorted(ints, floats).tolist() == [1, 2]
    assert torch.bucketize(ints, floats).tolist() == [0, 1, 2]
