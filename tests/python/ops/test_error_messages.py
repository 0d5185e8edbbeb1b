"""Errors of arguments: PyTorch's exceptions and messages, on every device."""

import math
import re

import pytest

import pytpu as torch
from pytpu.nn import functional as F

TOO_LARGE = 2**62


# A call with a function that makes tensors of ones, its exception, and the beginning of the message.
CALLS = [
    (
        lambda o: F.max_pool1d(o(1, 1, 3), 0),
        RuntimeError,
        "max_pool1d() kernel_size must be greater than zero, but got 0",
    ),
    (
        lambda o: F.max_pool1d(o(1, 1, 3), 2, 1, 2),
        RuntimeError,
        "max_pool1d() padding should be at most half of kernel size, but got padding=2 and kernel_size=2",
    ),
    (lambda o: F.max_pool1d(o(1, 1, 3), 5), RuntimeError, "max_pool1d() Invalid computed output size: 0"),
    (
        lambda o: F.max_pool1d(o(1, 1, 3), TOO_LARGE, 1, 0, TOO_LARGE),
        RuntimeError,
        f"effective kernel size overflows, but got kernel_size={TOO_LARGE} and dilation={TOO_LARGE}",
    ),
    (lambda o: F.max_pool1d(o(3), 2), RuntimeError, "max_pool1d: Expected 2D or 3D (batch mode) tensor"),
    (
        lambda o: F.max_pool1d(o(1, 1, 3), [2, 2]),
        RuntimeError,
        "max_pool1d() kernel_size must be an int, list of ints or tuple of ints of size 1 but got size 2",
    ),
    (
        lambda o: F.avg_pool1d(o(3), 2),
        RuntimeError,
        (
            "Expected 2 to 3 dimensions, but got 1-dimensional tensor for argument #1 'self' (while checking arguments "
            "for avg_pool1d)"
        ),
    ),
    (
        lambda o: F.avg_pool1d(o(1, 1, 3), 2, -1),
        RuntimeError,
        "stride should be greater than zero, but got dH: 1 dW: -1",
    ),
    (
        lambda o: F.avg_pool1d(o(1, 1, 3), 5),
        RuntimeError,
        "Given input size: (1x1x3). Calculated output size: (1x1x0). Output size is too small",
    ),
    (lambda o: F.max_pool2d(o(1, 1, 3, 3), 0), RuntimeError, "stride should not be zero"),
    (
        lambda o: F.max_pool2d(o(1, 1, 3, 3), -1),
        RuntimeError,
        "kernel size should be greater than zero, but got kH: -1 kW: -1",
    ),
    (
        lambda o: F.max_pool2d(o(1, 1, 3, 3), 2, 2, 0, 0),
        RuntimeError,
        "dilation should be greater than zero, but got dilationH: 0 dilationW: 0",
    ),
    (
        lambda o: F.max_pool2d(o(1, 1, 3, 3), 2, TOO_LARGE),
        RuntimeError,
        "value cannot be converted to type int without overflow",
    ),
    (lambda o: F.max_pool2d(o(0, 1, 49), 2, 50, -1), RuntimeError, "pad must be non-negative, but got pad: -1"),
    (lambda o: F.max_pool2d(o(3, 3), 2), RuntimeError, "non-empty 3D or 4D (batch mode) tensor expected for input"),
    (
        lambda o: F.avg_pool2d(o(1, 0, 3, 3), 2),
        RuntimeError,
        "Expected 3D or 4D (batch mode) tensor with optional 0 dim",
    ),
    (
        lambda o: F.avg_pool3d(o(1, 1, 3, 3, 3), 5),
        RuntimeError,
        "input image (T: 3 H: 3 W: 3) smaller than kernel size (kT: 5 kH: 5 kW: 5)",
    ),
    (
        lambda o: F.max_pool3d(o(1, 0, 3, 3, 3), 2),
        RuntimeError,
        "max_pool3d_with_indices_out_cpu_template(): Expected input to have",
    ),
    (
        lambda o: F.adaptive_avg_pool1d(o(1, 2, 3), []),
        RuntimeError,
        "adaptive_avg_pool1d() argument 'output_size' should contain one int (got 0)",
    ),
    (
        lambda o: F.adaptive_max_pool2d(o(2, 3, 3), [-1, 2]),
        RuntimeError,
        "Trying to create tensor with negative dimension -1: [2, -1, 2]",
    ),
    (
        lambda o: F.adaptive_avg_pool2d(o(2, 3, 3), [-1, 2]),
        RuntimeError,
        "adaptive_avg_pool2d: elements of output_size must be greater than or equal to 0 but received {-1, 2}",
    ),
    (lambda o: F.conv1d(o(1, 1, 4), o(1, 2)), RuntimeError, "weight should have at least three dimensions"),
    (lambda o: F.group_norm(o(1, 2, 0), 1), RuntimeError, "Expected HxW to be greater than 0, got 0"),
    (lambda o: F.batch_norm(o(3), None, None, training=True), IndexError, "Dimension out of range"),
    (
        lambda o: F.prelu(o(2, 3), o(3, 1)),
        RuntimeError,
        "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = 2",
    ),
    (
        lambda o: F.softshrink(o(2), -0.5),
        RuntimeError,
        "lambda must be in range [0, 3.40282e+38] for input dtype Float, but found -0.5",
    ),
    (
        lambda o: F.softshrink(o(2).half(), 1e6),
        RuntimeError,
        "lambda must be in range [0, 65504] for input dtype Half, but found 1e+06",
    ),
    (
        lambda o: F.softshrink(o(2).double(), float("nan")),
        RuntimeError,
        "lambda must be in range [0, 1.79769e+308] for input dtype Double, but found nan",
    ),
    (
        lambda o: F.soft_margin_loss(o(5, 4), o(5)),
        RuntimeError,
        "The size of tensor a (4) must match the size of tensor b (5)",
    ),
    (lambda o: o(5).narrow(0, torch.tensor([1, 2]), 1), RuntimeError, "start must be an 0-dim integral Tensor."),
    (lambda o: o(5).narrow(0, torch.tensor(True), 1), RuntimeError, "start must be an 0-dim integral Tensor."),
    (lambda o: o(5).narrow(0, 7, 1), IndexError, "start out of range (expected to be in range of [-5, 5], but got 7)"),
    (
        lambda o: torch.narrow_copy(o(5), 1, 1, 1),
        RuntimeError,
        "Expected dim < static_cast<int64_t>(self_sizes.size()) to be true",
    ),
    (lambda o: torch.narrow_copy(o(5), 0, 1, -1), RuntimeError, "start (1) + length (-1) exceeds dimension size (5)."),
    (lambda o: o(1).reshape(0, -1), RuntimeError, "shape '[0, -1]' is invalid for input of size 1"),
    (lambda o: o(4, 6).view_as(o(5, 5)), RuntimeError, "shape '[5, 5]' is invalid for input of size 24"),
    (lambda o: torch.roll(o(), 0, 0), IndexError, "Dimension specified as 0 but tensor has no dimensions"),
    (lambda o: torch.fft.fftn(o(), dim=[0]), IndexError, "Dimension specified as 0 but tensor has no dimensions"),
    (lambda o: torch.fliplr(o(1)), RuntimeError, "Input must be >= 2-d."),
    (lambda o: torch.flipud(o()), RuntimeError, "Input must be >= 1-d."),
    (
        lambda o: torch.dsplit(o(5, 5), 2),
        RuntimeError,
        "torch.dsplit requires a tensor with at least 3 dimension, but got a tensor with 2",
    ),
    (
        lambda o: torch.index_add(o(3, 2), 0, torch.tensor([0, 1]).to(o().device), o(2)),
        RuntimeError,
        (
            "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = "
            "[3, 2] source.shape = [2]"
        ),
    ),
    (lambda o: torch.cat([o(5), None]), TypeError, "expected Tensor as element 1 in argument 0, but got NoneType"),
    (
        lambda o: torch.pow(2, 3.0),
        TypeError,
        "pow() received an invalid combination of arguments - got (int, float), but expected one of:",
    ),
    (lambda o: torch.ldexp(o(2), 2), TypeError, "ldexp(): argument 'other' (position 2) must be Tensor, not int"),
    (lambda o: torch.aminmax(o(5, 0)), RuntimeError, "aminmax(): cannot compute aminmax over an empty dimension"),
    (
        lambda o: torch.aminmax(o(2, 2), dim=0, out=(o(2), o(2).double())),
        RuntimeError,
        "Expected out tensor to have dtype float, but got double instead",
    ),
    (
        lambda o: torch.aminmax(o(2, 2), dim=0, out=2 * (o(2),)),
        ValueError,
        "aminmax(): the `min` and `max` out= tensors must not overlap.",
    ),
    (
        lambda o: torch.kthvalue(x := o(5), 2, out=(x, o().long())),
        RuntimeError,
        (
            "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
            "memory location."
        ),
    ),
    (
        lambda o: torch.complex(o(2), o(2), out=o(2).cdouble()),
        RuntimeError,
        "Expected object of scalar type ComplexFloat but got scalar type ComplexDouble for argument 'out'",
    ),
    (
        lambda o: torch._chunk_cat([o(2, 3), o(4)], 1, 3),
        RuntimeError,
        "_chunk_cat expects dim < ndim for all input tensors",
    ),
    (
        lambda o: o(3).masked_fill(o(3), 1),
        RuntimeError,
        "masked_fill_ only supports boolean masks, but got mask with dtype float",
    ),
    (
        lambda o: o(3).masked_fill(o(3).long(), 1),
        RuntimeError,
        "masked_fill_ only supports boolean masks, but got mask with dtype long int",
    ),
    (
        lambda o: o(3).masked_fill_(o(2).bool(), 1),
        RuntimeError,
        "The size of tensor a (3) must match the size of tensor b (2) at",
    ),
    (
        lambda o: o(3).masked_fill(o(2).bool(), 1),
        RuntimeError,
        "The size of tensor a (2) must match the size of tensor b (3) at",
    ),
    (
        lambda o: o(3).masked_fill(True, 1),
        TypeError,
        "masked_fill() received an invalid combination of arguments - got (bool, int)",
    ),
    (
        lambda o: o(3).copy_(o(2)),
        RuntimeError,
        "The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 0",
    ),
    (lambda o: o(3).copy_([1, 2, 3]), TypeError, "copy_(): argument 'other' (position 1) must be Tensor, not list"),
    (
        lambda o: o(2, 2).repeat(2, -1, 1),
        RuntimeError,
        "Trying to create tensor with negative dimension -2: [2, -2, 2]",
    ),
    (
        lambda o: torch.randperm(-1, device=o().device),
        RuntimeError,
        "Trying to create tensor with negative dimension -1: [-1]",
    ),
    (
        lambda o: torch.bernoulli(o(2) * 2).sum().item(),
        RuntimeError,
        "Expected p_in >= 0 && p_in <= 1 to be true, but got false.",
    ),
    (lambda o: o(2).bernoulli_(float("nan")), RuntimeError, "bernoulli_ expects p to be in [0, 1], but got p=nan"),
    (
        lambda o: o(2).bernoulli_(o(3)),
        RuntimeError,
        "The expanded size of the tensor (2) must match the existing size (3) at",
    ),
    (lambda o: torch.bucketize(o(2), o(2, 2)), RuntimeError, "boundaries tensor must be 1 dimension, but got dim(2)"),
    (lambda o: torch.bucketize(1.0, o(2, 2)), RuntimeError, "boundaries tensor must be 1 dimension, but got dim(2)"),
    (
        lambda o: torch.searchsorted(o(2, 2), 1.0),
        RuntimeError,
        (
            "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but we got "
            "boundaries tensor dim(2)"
        ),
    ),
    (
        lambda o: torch.searchsorted(o(2), o(2), sorter=o(2)),
        RuntimeError,
        "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype Float",
    ),
    (
        lambda o: o(2, 2) @ o(2, 2).long(),
        RuntimeError,
        "expected m1 and m2 to have the same dtype, but got: float != long int",
    ),
    (
        lambda o: F.scaled_dot_product_attention(o(4), o(3, 4), o(3, 4)),
        RuntimeError,
        (
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: 1 key.dim: 2 and "
            "value.dim: 2 instead."
        ),
    ),
    (
        lambda o: F.scaled_dot_product_attention(o(2, 3, 4), o(2, 3, 5), o(2, 3, 4)),
        RuntimeError,
        "Expected size for first two dimensions of batch2 tensor to be: [2, 4] but got: [2, 5].",
    ),
    (
        lambda o: F.scaled_dot_product_attention(o(2, 3, 4), o(3, 3, 4), o(2, 3, 4)),
        RuntimeError,
        "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 1",
    ),
    (
        lambda o: F.scaled_dot_product_attention(o(2, 3, 4), o(2, 3, 4).double(), o(2, 3, 4)),
        RuntimeError,
        (
            "Expected query, key, and value to have the same dtype, but got query.dtype: float key.dtype: double and "
            "value.dtype: float"
        ),
    ),
    (
        lambda o: F.scaled_dot_product_attention(*[o(2, 3, 4).long()] * 3),
        RuntimeError,
        "expected scalar type Float but found Long",
    ),
    (
        lambda o: F.scaled_dot_product_attention(*[o(2, 3, 4)] * 3, attn_mask=o(2, 2)),
        RuntimeError,
        "The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 3",
    ),
    (
        lambda o: F.scaled_dot_product_attention(*[o(2, 3, 4)] * 3, attn_mask=o(3, 3).long()),
        RuntimeError,
        (
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: long int "
            "and  query.dtype: float"
        ),
    ),
    (
        lambda o: F.ctc_loss(o(5, 2, 4), o(2, 2).long(), (5,), (2, 2)),
        RuntimeError,
        "input_lengths must be of size batch_size",
    ),
    (
        lambda o: F.ctc_loss(o(5, 2, 4), o(2, 2).long(), (5, 5), (2,)),
        RuntimeError,
        "target_lengths must be of size batch_size",
    ),
    (
        lambda o: F.ctc_loss(o(5, 2, 4), o(2, 2).long(), (5, 6), (2, 2)),
        RuntimeError,
        (
            "Expected input_lengths to have value at most 5, but got value 6 (while checking arguments for "
            "ctc_loss_allocate_outputs)"
        ),
    ),
    (
        lambda o: F.ctc_loss(o(5, 2, 4), o(2, 2).long(), (5, 5), (2, 3)),
        RuntimeError,
        "Expected tensor to have size at least 3 at dimension 1, but got size 2 for argument #2 'targets'",
    ),
    (
        lambda o: F.ctc_loss(o(5, 2, 4), o(3).long(), (5, 5), (2, 2)),
        RuntimeError,
        "Expected tensor to have size 4 at dimension 0, but got size 3 for argument #2 'targets'",
    ),
    (
        lambda o: F.ctc_loss(o(5, 2, 4), o(2, 2).long(), (5, 5), (2, 2), blank=4),
        RuntimeError,
        "blank must be in label range",
    ),
    (
        lambda o: F.ctc_loss(o(5, 2, 4).half(), o(2, 2).long(), (5, 5), (2, 2)),
        NotImplementedError,
        "\"ctc_loss_cpu\" not implemented for 'Half'",
    ),
    (
        lambda o: F.ctc_loss(o(5, 4), o(2).long(), 5, 2),
        TypeError,
        "ctc_loss() received an invalid combination of arguments - got (Tensor",
    ),
]


@pytest.mark.parametrize(("call", "kind", "words"), CALLS, ids=[words[:60] for _, _, words in CALLS])
def test_errors_equal_pytorchs(call, kind, words, device):
    with pytest.raises(kind, match="^" + re.escape(words)) as raised:
        call(lambda *sizes: torch.ones(sizes, device=device))
    assert raised.type is kind


AS_PYTORCH_SAYS = [
    (
        lambda x, w: F.cross_entropy(x, torch.zeros(3, 2, dtype=torch.long)),
        RuntimeError,
        "0D or 1D target tensor expected, multi-target not supported",
    ),
    (lambda x, w: F.one_hot(x), RuntimeError, "one_hot is only applicable to index tensor of type LongTensor."),
    (
        lambda x, w: F.pad(x[None], (4, 0), mode="reflect"),
        RuntimeError,
        (
            "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding (4, 0) "
            "at dimension 2 of input [1, 3, 4]"
        ),
    ),
    (
        lambda x, w: torch.nn.ConvTranspose1d(1, 1, 3, stride=2)(x[:1, None], output_size=(20,)),
        ValueError,
        "requested an output size of (20,), but valid sizes range from [9] to [10] (for an input of torch.Size([4]))",
    ),
    (
        lambda x, w: setattr(w, "grad", torch.ones(2)),
        RuntimeError,
        (
            "attempting to assign a gradient of size '[2]' to a tensor of size '[3]'. Please ensure that the gradient "
            "and the tensor are the same size"
        ),
    ),
    (lambda x, w: torch.zeros(2, -1), RuntimeError, "zeros: Dimension size must be non-negative."),
    (lambda x, w: torch.ones(2, -1), RuntimeError, "Trying to create tensor with negative dimension -1: [2, -1]"),
    (
        lambda x, w: torch.tensor([300], dtype=torch.uint8),
        RuntimeError,
        "value cannot be converted to type uint8 without overflow",
    ),
    (
        lambda x, w: torch.tensor([1 << 40], dtype=torch.int32),
        RuntimeError,
        "value cannot be converted to type int32 without overflow",
    ),
    (
        lambda x, w: torch.full((1,), 1 << 40, dtype=torch.int32),
        RuntimeError,
        "value cannot be converted to type int without overflow",
    ),
    (lambda x, w: torch.tensor(2**63), ValueError, "Overflow when unpacking long long"),
    (lambda x, w: x + 2**70, OverflowError, "int too big to convert"),
    (lambda x, w: x == 2**70, OverflowError, "int too big to convert"),
    (lambda x, w: x.mul_(2**70), OverflowError, "int too big to convert"),
    (lambda x, w: torch.clamp(x, 2**70), OverflowError, "int too big to convert"),
    (lambda x, w: torch.full((1,), 2**70), OverflowError, "int too big to convert"),
    (lambda x, w: x.narrow(0, 2**70, 1), ValueError, "Overflow when unpacking long long"),
    (lambda x, w: x[10**20], ValueError, "Overflow when unpacking long long"),
    (lambda x, w: torch.manual_seed(2**65), ValueError, "Overflow when unpacking long long"),
    (
        lambda x, w: torch.nn.Conv1d(4, 1, 1)(x[None].double().mT),
        RuntimeError,
        "Input type (double) and bias type (float) should be the same",
    ),
    (
        lambda x, w: torch.nn.Conv1d(4, 1, 1, bias=False)(x[None].double().mT),
        RuntimeError,
        "expected scalar type Double but found Float",
    ),
    (
        lambda x, w: torch.autograd.grad((w * 1).sum(), [w, torch.ones(2, requires_grad=True)]),
        RuntimeError,
        (
            "The differentiated Tensor at index 1 appears to not have been used in the graph. Set allow_unused=True if "
            "this is the desired behavior."
        ),
    ),
    (lambda x, w: w.detach().bincount(), NotImplementedError, "\"bincount_cpu\" not implemented for 'Float'"),
    (lambda x, w: torch.tensor(["a"]), ValueError, "too many dimensions 'str'"),
    (lambda x, w: torch.tensor(["a"], dtype=torch.float32), ValueError, "too many dimensions 'str'"),
    (lambda x, w: torch.tensor([1, "a"]), TypeError, "new(): invalid data type 'str'"),
    (lambda x, w: torch.tensor([1, "a"], dtype=torch.float32), TypeError, "must be real number, not str"),
    (
        lambda x, w: torch.tensor([1, None], dtype=torch.int64),
        TypeError,
        "'NoneType' object cannot be interpreted as an integer",
    ),
    (lambda x, w: torch.tensor([1, [2]]), TypeError, "'list' object cannot be interpreted as an integer"),
    (lambda x, w: torch.tensor([[1], 2]), TypeError, "not a sequence"),
    (
        lambda x, w: torch.tensor([x[0], x[1]]),
        ValueError,
        "only one element tensors can be converted to Python scalars",
    ),
    (
        lambda x, w: torch.tensor([x[0].long(), x[1].long()]),
        TypeError,
        "only integer tensors of a single element can be converted to an index",
    ),
    (
        lambda x, w: torch.tensor(1, requires_grad=True),
        RuntimeError,
        "Only Tensors of floating point and complex dtype can require gradients",
    ),
    (
        lambda x, w: torch.ones(1, dtype=torch.int64, requires_grad=True),
        RuntimeError,
        "Only Tensors of floating point and complex dtype can require gradients",
    ),
    (lambda x, w: torch.device("cpu", -2), RuntimeError, "Device index must not be negative"),
    (lambda x, w: torch.device(-1), RuntimeError, "Device index must not be negative"),
]


@pytest.mark.parametrize("call, kind, words", AS_PYTORCH_SAYS, ids=[words[:60] for _, _, words in AS_PYTORCH_SAYS])
def test_messages_equal_pytorchs_exactly(call, kind, words):
    with pytest.raises(kind) as error:
        call(torch.ones(3, 4), torch.ones(3, requires_grad=True))
    assert str(error.value) == words


def test_shapes_that_do_not_broadcast_are_named():
    text = (
        r"dimension of length 4 at -1! Mismatching argument at index 1 had \(3, 4\); but expected shape should be "
        r"broadcastable to \[1, 2\]"
    )
    with pytest.raises(RuntimeError, match=text):
        torch.broadcast_shapes((2,), (3, 4), (5, 4))
    with pytest.raises(ValueError, match="Attempting to broadcast a dimension with negative length!"):
        torch.broadcast_shapes((-1,), (2,))
    assert torch.broadcast_shapes(3, (2, 1)) == (2, 3)


def test_unknown_type_names_are_refused():
    with pytest.raises(ValueError, match="invalid type: 'torch.ZzzTensor'"):
        torch.ones(1).type("torch.ZzzTensor")


def test_grids_are_spanned_by_vectors():
    with pytest.raises(
        RuntimeError, match=r"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: tensor\(\[\["
    ):
        torch.meshgrid(torch.ones(2), torch.ones(2, 2), indexing="ij")


REFUSED = [
    (lambda x, i: x - (x > 0), NotImplementedError, "with a bool tensor is not supported"),
    (lambda x, i: (x > 0) - (x > 0), NotImplementedError, "with two bool tensors is not supported"),
    (lambda x, i: ~x, TypeError, "only implemented on integer and Boolean-type tensors"),
    (lambda x, i: torch.frac(i), NotImplementedError, "\"frac_cpu\" not implemented for 'Long'"),
    (lambda x, i: torch.hypot(i, i), NotImplementedError, "\"hypot_cpu\" not implemented for 'Long'"),
    (lambda x, i: torch.logaddexp(i, i), NotImplementedError, "\"logaddexp_cpu\" not implemented for 'Long'"),
    (lambda x, i: (x > 0) % (x > 0), NotImplementedError, "\"remainder_cpu\" not implemented for 'Bool'"),
    (lambda x, i: torch.argmax(x > 0), NotImplementedError, "does not support bool input"),
    (lambda x, i: torch.sin_(i), RuntimeError, "result type Float can't be cast to the desired output type Long"),
    (lambda x, i: torch.std(i), NotImplementedError, "only support floating point and complex dtypes"),
    (lambda x, i: torch.cat([]), ValueError, "expected a non-empty list of Tensors"),
    (lambda x, i: torch.vstack([]), RuntimeError, "vstack expects a non-empty TensorList"),
    (lambda x, i: torch.meshgrid([]), RuntimeError, "meshgrid expects a non-empty TensorList"),
    (
        lambda x, i: torch.full((2,), 300, dtype=torch.uint8),
        RuntimeError,
        "value cannot be converted to type uint8_t without overflow",
    ),
    (
        lambda x, i: torch.full((2,), math.nan, dtype=torch.int32),
        RuntimeError,
        "value cannot be converted to type int without overflow",
    ),
    (
        lambda x, i: x.__setitem__([0, 1], i),
        RuntimeError,
        "source and destination dtypes match, got Float for the destination and Long",
    ),
    (lambda x, i: x.__setitem__(0, [1, 2]), TypeError, "can't assign a list to a torch.FloatTensor"),
    (lambda x, i: x.reshape(1, 2, 2).index_copy(1, i, x), IndexError, "their dimensionality must match"),
    (lambda x, i: x.index_fill(0, i.int(), 1.0), IndexError, "Expected dtype int64 for index"),
    (lambda x, i: torch.mm(x, x[:1]), RuntimeError, "mm: mat1 and mat2 shapes cannot be multiplied (2x2 and 1x2)"),
    (
        lambda x, i: F.linear(x, x[:, :1], i),
        RuntimeError,
        "addmm: mat1 and mat2 shapes cannot be multiplied (2x2 and 1x2)",
    ),
    (
        lambda x, i: torch.addmv(x[0], x, x.new_ones(3)),
        RuntimeError,
        "size mismatch, got input (2), mat (2x2), vec (3)",
    ),
    (lambda x, i: torch.tensordot(x, x, 3), RuntimeError, "tensordot expects dims < ndim_a or ndim_b, but got dims=3"),
    (lambda x, i: F.smooth_l1_loss(i, i), NotImplementedError, "\"smooth_l1_cpu\" not implemented for 'Long'"),
    (lambda x, i: F.huber_loss(i, i), NotImplementedError, "\"huber_cpu\" not implemented for 'Long'"),
    (lambda x, i: F.kl_div(x, x.long()), RuntimeError, "kl_div: Integral inputs not supported."),
    (
        lambda x, i: F.nll_loss(i.reshape(1, 2), i[:1]),
        NotImplementedError,
        "\"nll_loss_out_frame\" not implemented for 'Long'",
    ),
    (
        lambda x, i: F.binary_cross_entropy(x.abs() / 9, x.double()),
        RuntimeError,
        "Found dtype Double but expected Float",
    ),
    (lambda x, i: F.binary_cross_entropy(x, x).item(), RuntimeError, "all elements of input should be between 0 and 1"),
    (
        lambda x, i: F.conv1d(i.reshape(1, 1, 2), i.reshape(1, 1, 2), x[0, :1]),
        RuntimeError,
        "and bias type (float) should be the same",
    ),
    (
        lambda x, i: F.pad(x.reshape(1, 1, 2, 2), (1, 1), "reflect"),
        NotImplementedError,
        "Padding size 2 is not supported for 4D input tensor",
    ),
    (
        lambda x, i: torch.multinomial(x.abs(), 1, out=x.clone()),
        RuntimeError,
        "multinomial expects Long tensor out, got: Float",
    ),
    (lambda x, i: torch.arange(2, dtype=torch.bool), NotImplementedError, "\"arange_cpu\" not implemented for 'Bool'"),
    (
        lambda x, i: torch.linspace(0, 1, 3, dtype=torch.bool),
        NotImplementedError,
        "\"linspace_cpu\" not implemented for 'Bool'",
    ),
    (lambda x, i: torch.kthvalue(x[0] > 0, 1), NotImplementedError, "\"kthvalue_cpu\" not implemented for 'Bool'"),
    (lambda x, i: torch.median(x > 0), NotImplementedError, "\"median_cpu\" not implemented for 'Bool'"),
    (lambda x, i: torch.median(x > 0, 0), NotImplementedError, "\"median_out\" not implemented for 'Bool'"),
    (
        lambda x, i: torch.baddbmm(x[None], x[None], x),
        IndexError,
        "Dimension out of range (expected to be in range of [-2, 1], but got 2)",
    ),
    (lambda x, i: torch.neg(x, out=x.long()), RuntimeError, "Found dtype Long but expected Float"),
    (lambda x, i: (x > 0) // (x > 0), NotImplementedError, "\"div_floor_cpu\" not implemented for 'Bool'"),
    (
        lambda x, i: torch.Tensor.float_power_(x, 2),
        RuntimeError,
        "has dtype Float but the operation's result requires dtype Double",
    ),
]


@pytest.mark.parametrize("call, kind, words", REFUSED, ids=[words[:60] for _, _, words in REFUSED])
def test_wrong_operands_are_refused_with_pytorchs_messages(device, call, kind, words):
    x = torch.tensor([[1.0, -2.0], [3.0, 4.0]], device=device)
    with pytest.raises(kind) as error:
        call(x, torch.tensor([0, 1], device=device))
    assert words in str(error.value)
    assert type(error.value) is kind


X, M, B = torch.ones(2), torch.ones(2, 2), torch.ones(2, 2, 2)


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: torch.addmm(M.double(), M, M), "self and mat2 must have the same dtype, but got Double and Float"),
        (lambda: torch.addbmm(M.double(), B, B), "self and mat2 must have the same dtype, but got Double and Float"),
        (
            lambda: torch.addmv(X.double(), M, X),
            "addmv input tensors must have the same dtype, but got Double, Float, and Float",
        ),
        (lambda: torch.baddbmm(B.half(), B, B), "Input dtypes must be the same"),
        (lambda: torch.addr(M, X, X, alpha=2j), "value cannot be converted to type float without overflow"),
        (lambda: torch.linalg.vector_norm(X, 1j), "Expected a non-complex scalar as the order of norm"),
        (lambda: torch.linalg.norm(X, 1j), "Expected a non-complex scalar as the order of norm"),
        (
            lambda: torch.meshgrid(torch.tensor([1]), X, indexing="ij"),
            "meshgrid expects all tensors to have the same dtype",
        ),
        (
            lambda: torch.gradient(M, spacing=(X,)),
            "expected spacing to be unspecified, a scalar, or a list of length equal to",
        ),
        (lambda: torch.gradient(M, spacing=(1.0,)), "but got a list of length 1"),
        (lambda: M.diff(prepend=X), "diff expects prepend or append to be the same dimension as input"),
        (
            lambda: F.max_unpool1d(torch.ones(1, 1, 2, dtype=torch.int32), torch.tensor([[[0, 1]]]), 2),
            "\"max_unpool2d\" not implemented for 'Int'",
        ),
        (lambda: torch.linalg.multi_dot([M]), "expected at least 2 tensors"),
    ],
)
def test_refused_as_in_pytorch(call, text):
    with pytest.raises(RuntimeError) as e:
        call()
    assert text in str(e.value)
