"""Functions of the `torch` module that are not in the op table."""

from __future__ import annotations

import math

from . import _C
from ._functions.arguments import _into
from ._functions.creation import asarray, scalar_tensor
from ._functions.predicates import (
    get_device,
    is_complex,
    is_conj,
    is_distributed,
    is_floating_point,
    is_inference,
    is_inference_mode_enabled,
    is_neg,
    is_nonzero,
    is_signed,
    is_storage,
    numel,
    typename,
)
from ._functions.products import cdist, chain_matmul, dist, einsum, lu, norm, norm_except_dim
from ._functions.search import histogramdd, nonzero, unique, unique_consecutive
from ._functions.settings import (
    _once,
    are_deterministic_algorithms_enabled,
    get_deterministic_debug_mode,
    get_device_module,
    get_float32_matmul_precision,
    get_num_interop_threads,
    get_num_threads,
    is_deterministic_algorithms_warn_only_enabled,
    is_warn_always_enabled,
    set_anomaly_enabled,
    set_default_tensor_type,
    set_deterministic_debug_mode,
    set_float32_matmul_precision,
    set_flush_denormal,
    set_num_interop_threads,
    set_num_threads,
    set_printoptions,
    set_warn_always,
    use_deterministic_algorithms,
)
from ._functions.shapes import (
    as_strided_,
    atleast_1d,
    atleast_2d,
    atleast_3d,
    block_diag,
    broadcast_shapes,
    broadcast_tensors,
    cartesian_prod,
    combinations,
    detach_,
    meshgrid,
    resize_as_,
    row_stack,
    split,
    unravel_index,
    view_as_complex_copy,
    view_as_real_copy,
)
from ._functions.symbolic import sym_float, sym_int, sym_ite, sym_max, sym_min, sym_not, sym_sqrt, sym_sum
from ._tensor import overridable_method as _overridable_method
from .overrides import _overridable

TYPE_CHECKING = False  # As in `typing`, without the cost of importing it.
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from pytpu import Tensor


__all__ = [
    "as_strided_",
    "cdist",
    "detach_",
    "resize_as_",
    "allclose",
    "count_nonzero",
    "diff",
    "inner",
    "is_same_size",
    "isclose",
    "tensordot",
    "asarray",
    "compile",
    "get_device_module",
    "get_num_interop_threads",
    "get_num_threads",
    "is_complex",
    "is_conj",
    "is_floating_point",
    "is_inference",
    "is_inference_mode_enabled",
    "is_neg",
    "is_nonzero",
    "is_signed",
    "is_storage",
    "get_device",
    "set_anomaly_enabled",
    "is_warn_always_enabled",
    "set_warn_always",
    "numel",
    "set_default_tensor_type",
    "set_flush_denormal",
    "set_num_interop_threads",
    "set_num_threads",
    "set_printoptions",
    "typename",
    "fill_",
    "zero_",
    "use_deterministic_algorithms",
    "are_deterministic_algorithms_enabled",
    "is_deterministic_algorithms_warn_only_enabled",
    "get_deterministic_debug_mode",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "get_float32_matmul_precision",
    "broadcast_shapes",
    "split",
    "scalar_tensor",
    "block_diag",
    "cartesian_prod",
    "combinations",
    "dist",
    "row_stack",
    "chain_matmul",
    "einsum",
    "histogramdd",
    "unravel_index",
    "cond",
    "is_distributed",
    "norm_except_dim",
    "sym_float",
    "sym_int",
    "sym_ite",
    "sym_max",
    "sym_min",
    "sym_not",
    "sym_sqrt",
    "sym_sum",
    "view_as_complex_copy",
    "view_as_real_copy",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_tensors",
    "lu",
    "meshgrid",
    "nonzero",
    "norm",
    "unique",
    "unique_consecutive",
]


def isclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Return whether `|input - other| <= atol + rtol * |other|`, for each element.

    Args:
        input: First tensor.
        other: Second tensor, of the same dtype.
        rtol: Relative tolerance.
        atol: Absolute tolerance.
        equal_nan: If `True`, two NaNs are close.

    Returns:
        A `bool` tensor of the common size.

    Raises:
        RuntimeError: If the dtypes differ, or a tolerance is negative.

    Example:
        >>> import pytpu as torch
        >>> torch.isclose(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.1]))
        tensor([ True, False])
    """
    for name, place, t in (("input", 1, input), ("other", 2, other)):
        if not isinstance(t, _C.Tensor):
            raise TypeError(f"isclose(): argument '{name}' (position {place}) must be Tensor, not {type(t).__name__}")
    for name, place, tolerance in (("rtol", 3, rtol), ("atol", 4, atol)):
        if not isinstance(tolerance, (int, float)) and not _is_plain_number(tolerance):
            raise TypeError(
                f"isclose(): argument '{name}' (position {place}) must be float, not {type(tolerance).__name__}"
            )
    if input.dtype != other.dtype:
        raise RuntimeError(f"{_scalar_type(input)} did not match {_scalar_type(other)}")
    if rtol < 0 or atol < 0:
        raise RuntimeError(
            f"{'rtol' if rtol < 0 else 'atol'} must be greater than or equal to zero, but got "
            f"{rtol if rtol < 0 else atol}"
        )
    close = input == other
    inexact = input.is_floating_point() or input.is_complex()
    if equal_nan and inexact:
        close = close | (input.isnan() & other.isnan())
    if rtol == 0 and atol == 0:
        return close
    x, y = (input, other) if inexact else (input.double(), other.double())
    difference = (x - y).abs()
    return close | (difference.isfinite() & (difference <= atol + (rtol * y).abs()))


def _scalar_type(t):
    return t.dtype._scalar_type


def _is_plain_number(t):
    """Return whether a tensor is one real number without a history, or another object has `__float__`."""
    if isinstance(t, _C.Tensor):
        return t.dim() == 0 and not t.requires_grad and not t.is_complex()
    return hasattr(t, "__float__") and not isinstance(t, str)


def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Return whether all elements of two tensors are close, as `isclose` defines it.

    Args:
        input: First tensor.
        other: Second tensor, of the same dtype.
        rtol: Relative tolerance.
        atol: Absolute tolerance.
        equal_nan: If `True`, two NaNs are close.

    Raises:
        RuntimeError: If the dtypes differ, or a tolerance is negative.

    Example:
        >>> import pytpu as torch
        >>> torch.allclose(torch.tensor([1.0]), torch.tensor([1.0 + 1e-9]))
        True
    """
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


def count_nonzero(input: Tensor, dim: int | tuple[int, ...] | None = None) -> Tensor:
    """Count the elements that are not zero.

    Args:
        input: Tensor.
        dim: Dimension, or dimensions, to count along. `None` counts all elements.

    Returns:
        An `int64` tensor.

    Example:
        >>> import pytpu as torch
        >>> torch.count_nonzero(torch.tensor([[0, 1], [2, 3]]), dim=0)
        tensor([1, 2])
    """
    x = (input != 0).long()
    return x.sum() if dim is None else x.sum(dim)


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have the same size.

    Example:
        >>> import pytpu as torch
        >>> torch.is_same_size(torch.zeros(2, 3), torch.ones(2, 3))
        True
    """
    return input.shape == other.shape


def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the sums of products over the last dimensions.

    Args:
        input: Tensor of shape `(*a, n)`, or a number as a tensor.
        other: Tensor of shape `(*b, n)`, or a number as a tensor.
        out: Tensor to write the result to.

    Returns:
        A tensor of shape `(*a, *b)`.

    Raises:
        RuntimeError: If the last dimensions differ.

    Example:
        >>> import pytpu as torch
        >>> torch.inner(torch.tensor([1, 2]), torch.tensor([3, 4]))
        tensor(11)
    """
    if input.dim() and other.dim() and input.size(-1) != other.size(-1):
        raise RuntimeError(
            f"inner() the last dimension must match on both input tensors but got shapes {list(input.shape)} and "
            f"{list(other.shape)}"
        )
    y = input * other if input.dim() == 0 or other.dim() == 0 else tensordot(input, other, ([-1], [-1]))
    return y if out is None else _into(out, y)


def tensordot(
    a: Tensor,
    b: Tensor,
    dims: int | list[int] | list[list[int]] | tuple[Sequence[int], Sequence[int]] = 2,
    out: Tensor | None = None,
) -> Tensor:
    """Return the sums of products over some dimensions of two tensors.

    Args:
        a: First tensor.
        b: Second tensor.
        dims: Number of last dimensions of `a` and first dimensions of `b`, or two lists of dimensions.
        out: Tensor to write the result to.

    Returns:
        A tensor with the other dimensions of `a`, then those of `b`.

    Raises:
        RuntimeError: If the sizes of the dimensions differ.

    Example:
        >>> import pytpu as torch
        >>> torch.tensordot(torch.ones(2, 3), torch.ones(3, 4), dims=1).shape
        torch.Size([2, 4])
    """
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.dim(), b.dim()):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        left, right = list(range(-dims, 0)), list(range(dims))
    else:
        left, right = ([d] if isinstance(d, int) else list(d) for d in dims)
    if len(left) != len(right):
        raise RuntimeError("both dimension lists should have same length")
    given = list(zip(left, right))
    left, right = [d % a.dim() for d in left], [d % b.dim() for d in right]
    for (i, j), (shown_i, shown_j) in zip(zip(left, right), given):
        if a.size(i) != b.size(j) and 1 in (a.size(i), b.size(j)):
            # A dimension of size 1 is broadcast: sum over the other.
            one, d = (b, j) if a.size(i) == 1 else (a, i)
            one = one.sum(d, keepdim=True, dtype=one.dtype)
            a, b = (a, one) if a.size(i) == 1 else (one, b)
        elif a.size(i) != b.size(j):
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {a.size(i)} in dim {shown_i} and second has "
                f"size {b.size(j)} in dim {shown_j}"
            )
    rest_a = [d for d in range(a.dim()) if d not in left]
    rest_b = [d for d in range(b.dim()) if d not in right]
    n = 1
    for d in left:
        n *= a.size(d)
    rows, columns = (math.prod(t.size(d) for d in rest) for t, rest in ((a, rest_a), (b, rest_b)))
    x = a.permute(rest_a + left).reshape(rows, n)
    y = b.permute(right + rest_b).reshape(n, columns)
    y = (x @ y).reshape([a.size(d) for d in rest_a] + [b.size(d) for d in rest_b])
    return y if out is None else _into(out, y)


def diff(
    input: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return the differences of neighbors along a dimension.

    Args:
        input: Tensor.
        n: How often to take differences.
        dim: Dimension.
        prepend: Tensor to put before `input` along the dimension.
        append: Tensor to put after `input` along the dimension.
        out: Tensor to write the result to.

    Raises:
        RuntimeError: If `input` has no dimensions, `n` is negative, or the numbers of dimensions differ.

    Example:
        >>> import pytpu as torch
        >>> torch.diff(torch.tensor([1, 4, 9]))
        tensor([3, 5])
    """
    if input.dim() == 0:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    parts = [t for t in (prepend, input, append) if t is not None]
    if any(t.dim() != input.dim() for t in parts):
        raise RuntimeError("diff expects prepend or append to be the same dimension as input")
    x = _C._ops.cat(parts, dim) if len(parts) > 1 and n > 0 else input
    size = x.size(dim)
    if n == 0:
        x = x.clone()
    elif n >= size:
        x = x.narrow(dim, 0, 0).clone()
    else:
        for _ in range(n):
            size -= 1
            after, before = x.narrow(dim, 1, size), x.narrow(dim, 0, size)
            x = after ^ before if x.dtype == _C.bool else after - before
    return x if out is None else _into(out, x)


def _polygamma(self, n):
    """Return `torch.polygamma(n, self)`."""
    return _C._ops.polygamma(n, self)


def _polygamma_(self, n):
    """Write `torch.polygamma(n, self)` to the tensor."""
    return self.copy_(_C._ops.polygamma(n, self))


fill_, zero_ = _C._ops.fill_, _C._ops.zero_

for _name, _method in (("polygamma", _polygamma), ("polygamma_", _polygamma_)):
    setattr(_C.Tensor, _name, _overridable_method(_method, _name))
del _name, _method


_COMPILE_MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
_BACKENDS = (
    "inductor",
    "eager",
    "aot_eager",
    "aot_eager_decomp_partition",
    "cudagraphs",
    "onnxrt",
    "openxla",
    "tpu",
    "tvm",
)


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Callable[..., Any]:
    """Compile each call of a function or module on `tpu` as one program.

    Ops are recorded as they run, so nothing is traced before, and no Python code is refused. The recorded ops are cut
    before and after the call, and the ops in between are compiled as a whole.

    Args:
        model: Function or module. Without it, return a decorator.
        fullgraph: Accepted for compatibility.
        dynamic: Accepted for compatibility.
        backend: Name of a backend of PyTorch. All names do the same. A function is not called.
        mode: Name of a mode of PyTorch. All modes do the same.
        options: Accepted for compatibility.
        disable: If `True`, return `model` itself.

    Returns:
        A function, or a module, that is called as `model`.

    Raises:
        RuntimeError: If both `mode` and `options` are given, or one name is unknown.

    Example:
        >>> import pytpu as torch
        >>> @torch.compile
        ... def f(x):
        ...     return x.sin() + 1
        >>> f(torch.zeros(2))
        tensor([1., 1.])
    """
    from ._compiled import OptimizedModule, around

    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if backend == "inductor" and mode is not None and mode not in _COMPILE_MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_COMPILE_MODES)}")
    if isinstance(backend, str) and backend not in _BACKENDS:
        raise RuntimeError(f"Invalid backend: '{backend}'. There are {', '.join(_BACKENDS)}, which all do the same.")
    if dynamic is not None and not isinstance(dynamic, bool):
        raise AssertionError(f"Expected enable to be a bool, got {type(dynamic)}")
    if model is not None and not callable(model):
        raise AssertionError(f"A callable function is expected, but {type(model)} is provided.")
    if model is None:
        return lambda m: compile(
            m, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, disable=disable
        )
    if disable:
        return model
    if callable(backend):
        _once(
            f"torch.compile: the backend {getattr(backend, '__name__', backend)} is not called, since pytpu makes no "
            "graphs of Python code. The function runs as with the default backend."
        )
    return OptimizedModule(model) if hasattr(model, "forward") else around(model)


# A function of the op table replaces the one of this module. These functions are methods too.
for _k in ("allclose", "isclose", "count_nonzero", "diff", "inner", "is_same_size", "tensordot"):
    if hasattr(_C._functions, _k):
        globals()[_k] = getattr(_C._functions, _k)
    elif not hasattr(_C.Tensor, _k) and _k != "tensordot":
        setattr(_C.Tensor, _k, _overridable_method(globals()[_k]))
del _k


def cond(
    pred: bool | int | float | Tensor,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: tuple[Any, ...] | list[Any] = (),
) -> Any:
    """Call `true_fn(*operands)` or `false_fn(*operands)`.

    Args:
        pred: A `bool`, or a tensor with one element, that chooses the function.
        true_fn: Function for a true `pred`.
        false_fn: Function for a false `pred`.
        operands: Arguments of the function.

    Raises:
        RuntimeError: If `pred` is a tensor with another number of elements.

    Example:
        >>> import pytpu as torch
        >>> torch.cond(torch.tensor(True), torch.sin, torch.cos, (torch.zeros(1),))
        tensor([0.])
    """
    if isinstance(pred, _C.Tensor) and pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    return (true_fn if pred else false_fn)(*operands)


# Subclasses of tensors can intercept functions that take tensors, as they can intercept ops.
for _name in "allclose count_nonzero diff inner is_same_size isclose tensordot".split():
    globals()[_name] = _overridable(globals()[_name])
del _name
