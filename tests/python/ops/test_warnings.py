"""Warnings: PyTorch's messages, and how often each is given."""

import subprocess
import sys
import warnings

import pytpu as torch
from pytpu.nn import functional as F

TOO_LARGE = 2**62


# A call, of the device's tensors of ones; the exception; its first words.
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


def _warnings(f):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        f()
    return [str(w.message) for w in seen]


def test_warnings_are_pytorchs(device):
    x = torch.ones(3, device=device).requires_grad_()
    y = x * 2
    (text,) = _warnings(lambda: y.grad)
    assert text.startswith("The .grad attribute of a Tensor that is not a leaf Tensor is being accessed.")
    assert _warnings(lambda: x.grad) == []
    y.retain_grad()
    assert _warnings(lambda: y.grad) == []
    for made in (torch.tensor, x.new_tensor):
        (text,) = _warnings(lambda: made(x))
        assert text.startswith(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone()"
        )
    with torch.no_grad():
        assert _warnings(lambda: x.detach().new_tensor([1.0])) == []
    mask = torch.tensor([1, 0, 1], dtype=torch.uint8, device=device)
    assert _warnings(lambda: x.detach()[mask]) == [
        "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead."
    ]
    for name in ("std", "var", "std_mean", "var_mean"):
        (text,) = _warnings(lambda: getattr(torch, name)(x.detach()[:1]))
        assert text.startswith(f"{name}(): degrees of freedom is <= 0.")
        assert _warnings(lambda: getattr(torch, name)(x.detach())) == []
    assert _warnings(lambda: F.upsample(x.detach()[None, None], scale_factor=2)) == [
        "`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead."
    ]
    (text,) = _warnings(lambda: torch.range(0, 3, device=device))
    assert text.startswith("torch.range is deprecated")
    # A list with lists in it stands for a tuple, with a warning each time.
    for _ in range(2):
        (text,) = _warnings(lambda: x.detach()[[[0, 1]]])
        assert text.startswith("Using a non-tuple sequence for multidimensional indexing is deprecated")
    assert _warnings(lambda: x.detach()[[0, 1]]) == []


ONCE = """
import warnings, numpy, pytpu as torch
x = torch.ones(1, requires_grad=True)
for f in (
    torch.no_grad()(lambda: float(x)),
    lambda: float(x * 2),
    lambda: torch.ones(3).T,
    lambda: torch.meshgrid(torch.ones(2), torch.ones(2)),
    lambda: torch.tensor([numpy.zeros(2), numpy.zeros(2)]),
    lambda: (x * x).sum().backward(create_graph=True),
    lambda: torch.from_numpy(numpy.frombuffer(b"abcd", dtype=numpy.uint8)),
    lambda: torch.nn.functional.conv1d(torch.ones(1, 1, 5), torch.ones(1, 1, 2), padding="same"),
    lambda: torch.nn.functional.conv1d(torch.ones(1, 1, 5), torch.ones(1, 1, 3), padding="same"),
):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        f(), f()
    print(*(str(w.message).splitlines()[0][:40] for w in seen), sep="|")
"""


def test_some_warnings_are_given_once():
    run = subprocess.run([sys.executable, "-c", ONCE], capture_output=True, text=True, check=True, timeout=120)
    assert run.stdout.splitlines() == [
        "",
        "Converting a tensor with requires_grad=T",
        "The use of `x.T` on tensors of dimension",
        "torch.meshgrid: in an upcoming release, ",
        "Creating a tensor from a list of numpy.n",
        "Using backward() with create_graph=True ",
        "The given NumPy array is not writable, a",
        "Using padding='same' with even kernel le",
        "",
    ]


def test_short_transforms_without_a_window_warn():
    import subprocess
    import sys

    program = "import pytpu as torch; torch.stft(torch.ones(16), 8, return_complex=True)"
    text = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stderr
    assert "A window was not provided." in text
