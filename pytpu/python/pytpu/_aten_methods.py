"""Operators of aten that have no row in the op table: their schemas, and their functions.

Graphs of exported programs name them. The functions are methods of tensors, or made of rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytpu as torch

from . import _C

Tensor = _C.Tensor

#: Schemas of PyTorch by the names of operators. An operator without a function in `_FUNCTIONS` is the method.
SCHEMAS: dict[str, list[str]] = {}
for _line in """
_adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor
_adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor
_assert_async(Tensor self) -> ()
_assert_async.msg(Tensor self, str assert_msg) -> ()
_assert_scalar(Scalar self, str assert_msg) -> ()
_assert_tensor_metadata(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, ScalarType? dtype=None, *, Device? device=None, Layout? layout=None) -> ()
_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor
_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool benchmark, bool deterministic, bool cudnn_enabled, bool allow_tf32) -> Tensor
_convolution.deprecated(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, int[] output_padding, SymInt groups, bool benchmark, bool deterministic, bool cudnn_enabled) -> Tensor
_euclidean_dist(Tensor x1, Tensor x2) -> Tensor
_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor
_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor
_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor
_functional_assert_async.msg(Tensor self, str assert_msg, Tensor dep_token) -> Tensor
_is_all_true(Tensor self) -> Tensor
_is_any_true(Tensor self) -> Tensor
_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)
_linalg_eigh(Tensor A, str UPLO="L", bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)
_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)
_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)
_local_scalar_dense(Tensor self) -> Scalar
_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor
_pdist_forward(Tensor self, float p=2.) -> Tensor
_prelu_kernel(Tensor self, Tensor weight) -> Tensor
_reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a)
_softmax(Tensor self, int dim, bool half_to_float) -> Tensor
_stack(Tensor[] tensors, int dim=0) -> Tensor
_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor
_unsafe_index.Tensor(Tensor self, Tensor?[] indices) -> Tensor
_unsafe_index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor
_unsafe_view(Tensor self, SymInt[] size) -> Tensor
_weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor)
as_strided_(Tensor(a!) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a!)
cartesian_prod(Tensor[] tensors) -> Tensor
cauchy(Tensor self, float median=0., float sigma=1., *, Generator? generator=None) -> Tensor
combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor
copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor
copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)
detach_(Tensor(a!) self) -> Tensor(a!)
dim(Tensor self) -> int
dist(Tensor self, Tensor other, Scalar p=2) -> Tensor
exponential(Tensor self, float lambd=1., *, Generator? generator=None) -> Tensor
fill_diagonal_(Tensor(a!) self, Scalar fill_value, bool wrap=False) -> Tensor(a!)
float_power_.Scalar(Tensor(a!) self, Scalar exponent) -> Tensor(a!)
float_power_.Tensor(Tensor(a!) self, Tensor exponent) -> Tensor(a!)
geometric(Tensor self, float p, *, Generator? generator=None) -> Tensor
is_complex(Tensor self) -> bool
is_contiguous(Tensor self) -> bool
is_contiguous.memory_format(Tensor self, MemoryFormat memory_format) -> bool
is_floating_point(Tensor self) -> bool
is_nonzero(Tensor self) -> bool
is_same_size(Tensor self, Tensor other) -> bool
lift(Tensor self) -> Tensor
lift_fresh(Tensor(a) self) -> Tensor(a)
lift_fresh_copy(Tensor self) -> Tensor
log_normal(Tensor self, float mean=1., float std=2., *, Generator? generator=None) -> Tensor
log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)
nll_loss2d_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) -> (Tensor output, Tensor total_weight)
nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) -> (Tensor output, Tensor total_weight)
normal_functional(Tensor self, float mean=0., float std=1., *, Generator? generator=None) -> Tensor
numel(Tensor self) -> int
pad_sequence(Tensor[] sequences, bool batch_first=False, float padding_value=0., str padding_side="right") -> Tensor
polygamma_(Tensor(a!) self, int n) -> Tensor(a!)
random(Tensor self, *, Generator? generator=None) -> Tensor
random.from(Tensor self, int from, int? to, *, Generator? generator=None) -> Tensor
random.to(Tensor self, int to, *, Generator? generator=None) -> Tensor
reflection_pad1d(Tensor self, SymInt[2] padding) -> Tensor
reflection_pad2d(Tensor self, SymInt[4] padding) -> Tensor
reflection_pad3d(Tensor self, SymInt[6] padding) -> Tensor
replication_pad1d(Tensor self, SymInt[2] padding) -> Tensor
replication_pad2d(Tensor self, SymInt[4] padding) -> Tensor
replication_pad3d(Tensor self, SymInt[6] padding) -> Tensor
resize_(Tensor(a!) self, SymInt[] size, *, MemoryFormat? memory_format=None) -> Tensor(a!)
record_stream(Tensor(a!) self, Stream s) -> ()
resize_as_(Tensor(a!) self, Tensor the_template, *, MemoryFormat? memory_format=None) -> Tensor(a!)
scalar_tensor(Scalar s, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
size(Tensor self) -> int[]
size.int(Tensor self, int dim) -> int
squeeze_(Tensor(a!) self) -> Tensor(a!)
squeeze_.dim(Tensor(a!) self, int dim) -> Tensor(a!)
squeeze_.dims(Tensor(a!) self, int[] dim) -> Tensor(a!)
storage_offset(Tensor self) -> int
stride(Tensor self) -> int[]
stride.int(Tensor self, int dim) -> int
sum_to_size(Tensor self, SymInt[] size) -> Tensor
swapaxes_(Tensor(a!) self, int axis0, int axis1) -> Tensor(a!)
swapdims_(Tensor(a!) self, int dim0, int dim1) -> Tensor(a!)
sym_constrain_range(Scalar size, *, int? min=None, int? max=None) -> ()
sym_constrain_range_for_size(Scalar size, *, int? min=None, int? max=None) -> ()
sym_is_contiguous(Tensor self, MemoryFormat memory_format=0) -> SymBool
sym_numel(Tensor self) -> SymInt
sym_size(Tensor self) -> SymInt[]
sym_size.int(Tensor self, int dim) -> SymInt
sym_storage_offset(Tensor self) -> SymInt
sym_stride(Tensor self) -> SymInt[]
sym_stride.int(Tensor self, int dim) -> SymInt
t_(Tensor(a!) self) -> Tensor(a!)
to.device(Tensor(a) self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)
to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)
to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)
to.other(Tensor(a) self, Tensor other, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)
transpose_(Tensor(a!) self, int dim0, int dim1) -> Tensor(a!)
uniform(Tensor self, float from=0., float to=1., *, Generator? generator=None) -> Tensor
unsqueeze_(Tensor(a!) self, int dim) -> Tensor(a!)
zero(Tensor self) -> Tensor
""".strip().splitlines():  # noqa: E501
    SCHEMAS.setdefault(_line.partition("(")[0].partition(".")[0], []).append(_line)


# ---- conversions and copies


def _to(
    self: Tensor,
    *args: Any,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: Any = None,
    other: Any = None,
) -> Tensor:
    """`to` with the arguments of all its overloads by position."""
    rest = list(args)
    if rest and isinstance(rest[0], Tensor):
        other = rest.pop(0)
    elif rest and not isinstance(rest[0], torch.dtype):
        device = rest.pop(0)
        dtype = rest.pop(0) if rest else dtype
    elif rest:
        dtype = rest.pop(0)
    if other is not None:
        dtype, device = other.dtype, other.device
    non_blocking = rest.pop(0) if rest else non_blocking
    copy = rest.pop(0) if rest else copy
    memory_format = rest.pop(0) if rest else memory_format
    more = {} if memory_format in (None, torch.preserve_format) else {"memory_format": memory_format}
    return Tensor.to(self, device=device, dtype=dtype, non_blocking=bool(non_blocking), copy=bool(copy), **more)


def _to_copy(
    self: Tensor,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    non_blocking: bool = False,
    memory_format: Any = None,
) -> Tensor:
    return _to(self, dtype=dtype, device=device, non_blocking=non_blocking, copy=True, memory_format=memory_format)


def _copy_(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    return Tensor.copy_(self, src, non_blocking)


def _copy(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    made = torch.empty_strided(self.shape, self.stride(), dtype=self.dtype, device=self.device)
    return made.copy_(src.expand(self.shape))


def _fill(name: str) -> Callable[..., Tensor]:
    """Return the function that fills a tensor like another: `uniform` for `uniform_`."""

    def function(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return getattr(torch.empty_like(self), name)(*args, **kwargs)

    return function


def _scalar_tensor(
    s: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None
) -> Tensor:
    return torch.full((), s, dtype=torch.get_default_dtype() if dtype is None else dtype, device=device)


def _same(self: Tensor) -> Tensor:
    return self


# ---- sizes


def _size_of(name: str) -> Callable[..., Any]:
    def function(self: Tensor, *dim: Any, **kwargs: Any) -> Any:
        return getattr(Tensor, name)(self, *dim, **kwargs)

    return function


def _sym_is_contiguous(self: Tensor, memory_format: Any = torch.contiguous_format) -> bool:
    return self.is_contiguous(memory_format=memory_format)


def _is_same_size(self: Tensor, other: Tensor) -> bool:
    return self.shape == other.shape


def _restride(self: Tensor, size: Sequence[int], stride: Sequence[int]) -> Tensor:
    return self.as_strided(size, stride, self.storage_offset())


# ---- checks


def _assert_tensor_metadata(
    a: Tensor,
    size: Any = None,
    stride: Any = None,
    dtype: Any = None,
    *,
    device: Any = None,
    layout: Any = None,
) -> None:
    """Check sizes, strides, dtype and device as far as they are given."""
    for what, expected, actual in (
        ("sizes", size, tuple(a.shape)),
        ("strides", stride, tuple(a.stride())),
        ("dtype", dtype, a.dtype),
        ("layout", layout, a.layout),
    ):
        if expected is None:
            continue
        expected = tuple(expected) if isinstance(expected, (list, tuple)) else expected
        if actual != expected:
            raise RuntimeError(f"Tensor {what} mismatch! Expected: {_show_list(expected)}, Got: {_show_list(actual)}")
    if device is not None and torch.device(device).type != a.device.type:
        raise RuntimeError(f"Tensor device mismatch! Expected: {torch.device(device)}, Got: {a.device}")


def _show_list(value: Any) -> str:
    return f"[{', '.join(map(str, value))}]" if isinstance(value, tuple) else str(value)


def _assert_scalar(self: Any, assert_msg: str) -> None:
    if not self:
        raise RuntimeError(assert_msg)


def _assert_async(self: Tensor, assert_msg: str = "Expected Tensor with single nonzero value, but got zero") -> None:
    if not bool(self):
        raise RuntimeError(assert_msg)


def _functional_assert_async(self: Tensor, assert_msg: str, dep_token: Tensor) -> Tensor:
    _assert_async(self, assert_msg)
    return dep_token


def _constrain(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    if (min is not None and size < min) or (max is not None and size > max):
        low, high = -math.inf if min is None else min, math.inf if max is None else max
        raise RuntimeError(f"Invalid value range for {size} between [{low}, {high}].")


def _constrain_size(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    _constrain(size, min=0 if min is None else min, max=max)


# ---- neural networks


def _local_scalar_dense(self: Tensor) -> Any:
    # Reading an element is itself offered to modes under this name.
    before = _C._set_torch_dispatch_disabled(True)
    try:
        return self.item()
    finally:
        _C._set_torch_dispatch_disabled(before)


def _softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    return torch.softmax(self, dim, dtype=torch.float32 if half_to_float else None)


def _log_softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    return torch.log_softmax(self, dim, dtype=torch.float32 if half_to_float else None)


def _pad(mode: str) -> Callable[[Tensor, Sequence[int]], Tensor]:
    def function(self: Tensor, padding: Sequence[int]) -> Tensor:
        return torch.nn.functional.pad(self, list(padding), mode)

    return function


def _convolution(
    input: Tensor,
    weight: Tensor,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    *settings: bool,
    **named: bool,
) -> Tensor:
    return torch.ops.aten.convolution(
        input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
    )


def _reduction(number: int) -> str:
    return ("none", "mean", "sum")[number]


def _nll_loss_forward(
    self: Tensor, target: Tensor, weight: Any, reduction: int, ignore_index: int
) -> tuple[Tensor, Tensor]:
    loss = torch.nn.functional.nll_loss(
        self, target, weight, ignore_index=ignore_index, reduction=_reduction(reduction)
    )
    if reduction == 0:
        return loss, self.new_zeros(())
    counted = target != ignore_index
    if weight is None:
        return loss, counted.sum().to(self.dtype)
    return loss, (weight[torch.where(counted, target, 0)] * counted).sum()


def _log_sigmoid_forward(self: Tensor) -> tuple[Tensor, Tensor]:
    return torch.nn.functional.logsigmoid(self), torch.exp(-self.abs())


def _weight_norm_interface(v: Tensor, g: Tensor, dim: int = 0) -> tuple[Tensor, Tensor]:
    dims = [d for d in range(v.dim()) if d != dim % v.dim()]
    norm = torch.linalg.vector_norm(v, 2, dims, keepdim=True)
    return v * (g / norm), norm


def _prelu_kernel(self: Tensor, weight: Tensor) -> Tensor:
    return torch.where(self > 0, self, weight * self)


# ---- distances, transforms, matrices


def _cdist_forward(x1: Tensor, x2: Tensor, p: float, compute_mode: Any) -> Tensor:
    return torch.cdist(x1, x2, p)


def _euclidean_dist(x1: Tensor, x2: Tensor) -> Tensor:
    return torch.cdist(x1, x2)


def _pdist_forward(self: Tensor, p: float = 2.0) -> Tensor:
    return torch.nn.functional.pdist(self, p)


def _scale(self: Tensor, dim: Sequence[int], normalization: int, sizes: Sequence[int]) -> Tensor:
    """Divide by the root of the number of elements (1), or by the number (2)."""
    if normalization == 0:
        return self
    count = math.prod(sizes[d] for d in dim)
    return self / (math.sqrt(count) if normalization == 1 else count)


def _fft_r2c(self: Tensor, dim: Sequence[int], normalization: int, onesided: bool) -> Tensor:
    transform = torch.fft.rfftn if onesided else torch.fft.fftn
    return _scale(transform(self, dim=list(dim)), dim, normalization, self.shape)


def _fft_c2c(self: Tensor, dim: Sequence[int], normalization: int, forward: bool) -> Tensor:
    if forward:
        return _scale(torch.fft.fftn(self, dim=list(dim)), dim, normalization, self.shape)
    return _scale(torch.fft.ifftn(self, dim=list(dim), norm="forward"), dim, normalization, self.shape)


def _fft_c2r(self: Tensor, dim: Sequence[int], normalization: int, last_dim_size: int) -> Tensor:
    sizes = [self.shape[d] for d in dim[:-1]] + [last_dim_size]
    made = torch.fft.irfftn(self, s=sizes, dim=list(dim), norm="forward")
    return _scale(made, dim, normalization, made.shape)


def _linalg_det(A: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    lu, pivots = torch.linalg.lu_factor(A)
    return torch.linalg.det(A), lu, pivots


def _linalg_slogdet(A: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    sign, logabsdet = torch.linalg.slogdet(A)
    return sign, logabsdet, *torch.linalg.lu_factor(A)


def _linalg_eigh(A: Tensor, UPLO: str = "L", compute_v: bool = True) -> tuple[Tensor, Tensor]:
    if compute_v:
        return tuple(torch.linalg.eigh(A, UPLO))
    return torch.linalg.eigvalsh(A, UPLO), A.new_empty([0])


def _linalg_svd(
    A: Tensor,
    full_matrices: bool = False,
    compute_uv: bool = True,
    *,
    driver: Any = None,
) -> tuple[Tensor, ...]:
    if compute_uv:
        return tuple(torch.linalg.svd(A, full_matrices))
    return A.new_empty([0]), torch.linalg.svdvals(A), A.new_empty([0])


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "_adaptive_avg_pool2d": lambda self, output_size: torch.ops.aten.adaptive_avg_pool2d(self, output_size),
    "_adaptive_avg_pool3d": lambda self, output_size: torch.ops.aten.adaptive_avg_pool3d(self, output_size),
    "_assert_async": _assert_async,
    "_assert_scalar": _assert_scalar,
    "_assert_tensor_metadata": _assert_tensor_metadata,
    "_cdist_forward": _cdist_forward,
    "_convolution": _convolution,
    "_euclidean_dist": _euclidean_dist,
    "_fft_c2c": _fft_c2c,
    "_fft_c2r": _fft_c2r,
    "_fft_r2c": _fft_r2c,
    "_functional_assert_async": _functional_assert_async,
    "_is_all_true": lambda self: self.all(),
    "_is_any_true": lambda self: self.any(),
    "_linalg_det": _linalg_det,
    "_linalg_eigh": _linalg_eigh,
    "_linalg_slogdet": _linalg_slogdet,
    "_linalg_svd": _linalg_svd,
    "_local_scalar_dense": _local_scalar_dense,
    "_log_softmax": _log_softmax,
    "_pdist_forward": _pdist_forward,
    "_prelu_kernel": _prelu_kernel,
    "_reshape_alias": _restride,
    "_softmax": _softmax,
    "_stack": lambda tensors, dim=0: torch.stack(tensors, dim),
    "_to_copy": _to_copy,
    "_unsafe_index": lambda self, indices: torch.ops.aten.index(self, indices),
    "_unsafe_index_put": lambda self, indices, values, accumulate=False: torch.ops.aten.index_put(
        self, indices, values, accumulate
    ),
    "_unsafe_view": lambda self, size: self.reshape(size),
    "_weight_norm_interface": _weight_norm_interface,
    "cartesian_prod": lambda tensors: torch.cartesian_prod(*tensors),
    "cauchy": _fill("cauchy_"),
    "combinations": lambda self, r=2, with_replacement=False: torch.combinations(self, r, with_replacement),
    "copy": _copy,
    "copy_": _copy_,
    "exponential": _fill("exponential_"),
    "geometric": _fill("geometric_"),
    "is_same_size": _is_same_size,
    "lift": _same,
    "lift_fresh": _same,
    "lift_fresh_copy": lambda self: self.clone(),
    "log_normal": _fill("log_normal_"),
    "log_sigmoid_forward": _log_sigmoid_forward,
    "nll_loss2d_forward": _nll_loss_forward,
    "nll_loss_forward": _nll_loss_forward,
    "normal_functional": _fill("normal_"),
    "pad_sequence": lambda sequences, batch_first=False, padding_value=0.0, padding_side="right": (
        torch.nn.utils.rnn.pad_sequence(sequences, batch_first, padding_value, padding_side)
    ),
    "random": _fill("random_"),
    **{f"reflection_pad{n}d": _pad("reflect") for n in (1, 2, 3)},
    **{f"replication_pad{n}d": _pad("replicate") for n in (1, 2, 3)},
    "record_stream": lambda self, s: None,
    "scalar_tensor": _scalar_tensor,
    "sym_constrain_range": _constrain,
    "sym_constrain_range_for_size": _constrain_size,
    "sym_is_contiguous": _sym_is_contiguous,
    "sym_numel": _size_of("numel"),
    "sym_size": _size_of("size"),
    "sym_storage_offset": _size_of("storage_offset"),
    "sym_stride": _size_of("stride"),
    "to": _to,
    "uniform": _fill("uniform_"),
    "zero": lambda self: torch.zeros_like(self),
}


def find(name: str) -> Callable[..., Any] | None:
    """Return the function of an operator, or `None`."""
    return _FUNCTIONS.get(name)
