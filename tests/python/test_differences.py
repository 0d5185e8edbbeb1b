"""What once differed from PyTorch: values, dtypes, exceptions and their words."""

import math

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
    ("torch.full((2,), 300, dtype=torch.uint8)", RuntimeError, "value cannot be converted to type uint8_t without overflow"),
    ("torch.full((2,), math.nan, dtype=torch.int32)", RuntimeError, "value cannot be converted to type int without overflow"),
    ("x.__setitem__([0, 1], i)", RuntimeError, "source and destination dtypes match, got Float for the destination and Long"),
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
    ("F.conv1d(i.reshape(1, 1, 2), i.reshape(1, 1, 2), x[0, :1])", RuntimeError, "and bias type (float) should be the same"),
    ("F.pad(x.reshape(1, 1, 2, 2), (1, 1), 'reflect')", NotImplementedError, "Padding size 2 is not supported for 4D input tensor"),
    ("torch.multinomial(x.abs(), 1, out=x.clone())", RuntimeError, "multinomial expects Long tensor out, got: Float"),
    ("torch.Tensor.float_power_(x, 2)", RuntimeError, "has dtype Float but the operation's result requires dtype Double"),
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
