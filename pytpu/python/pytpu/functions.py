"""Functions of the `torch` module that are not in the op table."""

from __future__ import annotations

import functools
import importlib as _importlib
import math
import warnings

from . import _C
from ._tensor import overridable_method as _overridable_method
from .overrides import _overridable

TYPE_CHECKING = False  # As in `typing`, without the cost of importing it.
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType
    from typing import Any, TypeVar

    from pytpu import Tensor
    from pytpu._size import Size

    _T = TypeVar("_T")


__all__ = [
    "as_strided_",
    "cdist",
    "detach_",
    "resize_as_",
    "is_same_size",
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

_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": float("inf"), "edgeitems": 3, "linewidth": 80},
}
_print_options = dict(_PROFILES["default"])
_settings = {"deterministic": False, "warn_only": False, "warn_always": False}


def numel(input: Tensor) -> int:
    """Return the number of elements of `input`.

    Example:
        >>> import pytpu as torch
        >>> torch.numel(torch.zeros(2, 3))
        6
    """
    return input.numel()


def is_floating_point(input: Tensor) -> bool:
    """Return whether the dtype of `input` is floating point.

    Example:
        >>> import pytpu as torch
        >>> torch.is_floating_point(torch.zeros(1, dtype=torch.float16))
        True
    """
    return input.is_floating_point()


def is_complex(input: Tensor) -> bool:
    """Return whether the dtype of `input` is complex.

    Example:
        >>> import pytpu as torch
        >>> torch.is_complex(torch.zeros(1, dtype=torch.complex64))
        True
    """
    return input.is_complex()


def is_conj(input: Tensor) -> bool:
    """Return whether `input` is a conjugated view.

    Example:
        >>> import pytpu as torch
        >>> torch.is_conj(torch.zeros(1, dtype=torch.complex64).conj())
        True
    """
    return input.is_conj()


def is_neg(input: Tensor) -> bool:
    """Return whether `input` is a negated view.

    Example:
        >>> import pytpu as torch
        >>> torch.is_neg(torch.zeros(1, dtype=torch.complex64).conj().imag)
        True
    """
    return input.is_neg()


def is_nonzero(input: Tensor) -> bool:
    """Return whether the only element of `input` is not zero.

    Raises:
        RuntimeError: If `input` does not have exactly one element.

    Example:
        >>> import pytpu as torch
        >>> torch.is_nonzero(torch.tensor([0.5]))
        True
    """
    return bool(input)


def is_signed(input: Tensor) -> bool:
    """Return whether the dtype of `input` has negative numbers.

    Example:
        >>> import pytpu as torch
        >>> torch.is_signed(torch.zeros(1, dtype=torch.uint8))
        False
    """
    return input.is_signed()


def get_device(input: Tensor) -> int:
    """Return the index of the device of `input`, or `-1` on the CPU.

    Example:
        >>> import pytpu as torch
        >>> torch.get_device(torch.zeros(1))
        -1
    """
    return input.get_device()


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Turn anomaly mode on or off, as `torch.autograd.set_detect_anomaly` does.

    Args:
        enabled: Whether anomaly mode is on.
        check_nan: If `True`, backward raises an error when it computes a NaN.
    """
    _C._set_anomaly_enabled(bool(enabled), bool(check_nan))


def is_inference(input: Tensor) -> bool:
    """Return whether `input` was made in inference mode.

    Example:
        >>> import pytpu as torch
        >>> with torch.inference_mode():
        ...     x = torch.zeros(1)
        >>> torch.is_inference(x)
        True
    """
    return input.is_inference()


is_inference_mode_enabled = _C.is_inference_mode_enabled


def is_storage(obj: object) -> bool:
    """Return whether `obj` is a storage.

    Example:
        >>> import pytpu as torch
        >>> torch.is_storage(torch.zeros(1).untyped_storage())
        True
    """
    import sys

    there = sys.modules.get("pytpu.storage")
    return there is not None and isinstance(obj, (there.TypedStorage, there.UntypedStorage))


def is_warn_always_enabled() -> bool:
    """Return whether warnings are repeated, as `set_warn_always` set."""
    return _settings["warn_always"]


def set_warn_always(b: bool) -> None:
    """Set whether a warning of this package is given every time instead of once. The filters of Python apply as well.

    Args:
        b: If `True`, give warnings every time.

    Raises:
        RuntimeError: If `b` is not a `bool`.
    """
    if not isinstance(b, bool):
        raise RuntimeError(f"setWarnOnlyOnce expects a bool, but got {type(b).__name__}")
    _settings["warn_always"] = b


def _seen_by_modes(function):
    """Return the function so that modes can intercept it. Types of arguments cannot, as in PyTorch."""

    @functools.wraps(function)
    def seen(*args, **kwargs):
        if _C._has_torch_function(()):
            return _C._call_torch_function(seen, (), args, kwargs)
        return function(*args, **kwargs)

    return seen


@_seen_by_modes
def asarray(
    obj: Any,
    *,
    dtype: _C.dtype | None = None,
    device: _C.device | str | int | None = None,
    copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """Convert an object to a tensor, without a copy where that is possible.

    Args:
        obj: Tensor, NumPy array, DLPack capsule, storage, object with a buffer, number, or nested sequence of numbers.
        dtype: Dtype of the result. `None` keeps that of `obj`.
        device: Device of the result. `None` keeps that of `obj`.
        copy: If `True`, always copy. If `False`, never copy. `None` copies if needed.
        requires_grad: Whether the result requires gradients. `None` is the value of `obj`.

    Returns:
        A tensor, on the memory of `obj` where possible.

    Raises:
        ValueError: If `copy` is `False` and the memory cannot be shared.

    Example:
        >>> import pytpu as torch
        >>> import numpy as np
        >>> a = np.zeros(2, dtype=np.float32)
        >>> t = torch.asarray(a)
        >>> a[0] = 5
        >>> t
        tensor([5., 0.])
    """
    device = None if device is None else _C.device(device)
    t = _aliased(obj, dtype, copy)
    if t is None:
        if copy is False:
            if type(obj).__module__ == "numpy":
                raise RuntimeError("can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray. ")
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        return _C.tensor(obj, dtype=dtype, device=device, requires_grad=bool(requires_grad))
    if copy is False:
        if device is not None and device.type != t.device.type:
            raise ValueError(f"can't alias tensor from device '{t.device}' to '{device}'.")
        if dtype is not None and dtype != t.dtype:
            raise ValueError(
                f"can't alias tensor with dtype '{t.dtype._scalar_type}' into dtype '{dtype._scalar_type}'."
            )
    if requires_grad is None and t.requires_grad and copy is not True:
        _once(
            "torch.asarray: unspecified requires_grad now defaults to obj.requires_grad instead of False. Pass "
            "requires_grad=False explicitly to get the old behavior and silence this warning."
        )
    y = t.to(t.device if device is None else device, t.dtype if dtype is None else dtype)
    if copy and y is t:
        y = t.clone()
    if requires_grad is False and y.requires_grad:
        return y.detach()
    if requires_grad and not y.requires_grad:
        if not (y.is_floating_point() or y.is_complex()):
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        y.requires_grad_()
    return y


def _aliased(obj, dtype, copy):
    """Return a tensor on the memory of an object, or `None` if the object has none to share."""
    if isinstance(obj, _C.Tensor):
        return obj
    kind = type(obj)
    if kind in (list, tuple, float, int, bool, complex, str):
        return None
    if hasattr(obj, "_flat") and is_storage(obj):
        return _on_storage(obj, dtype)
    if hasattr(kind, "__array_interface__") and hasattr(kind, "__setitem__"):
        return _C.from_numpy(obj) if hasattr(obj, "flags") else _C.as_tensor(obj)
    if kind.__name__ == "PyCapsule":
        from .utils.dlpack import from_dlpack

        return from_dlpack(obj)
    if kind.__module__ == "numpy":
        return None
    try:
        view = memoryview(obj)
    except TypeError:
        return None
    if dtype is None:
        names = {
            "b": "int8",
            "h": "int16",
            "i": "int32",
            "l": "int64",
            "q": "int64",
            "e": "float16",
            "f": "float32",
            "d": "float64",
            "?": "bool",
            "Zf": "complex64",
            "Zd": "complex128",
        }
        dtype = getattr(_C, names.get(view.format, "uint8"))
    from ._memory import frombuffer

    return frombuffer(obj, dtype=dtype)


def _on_storage(storage, dtype):
    """Return a tensor on the memory of a storage.

    Bytes without a dtype are `int64`, as in PyTorch, which takes them for a list of numbers.
    """
    flat = storage._flat()
    if flat.dtype is _C.uint8 and storage.untyped() is storage:
        dtype = _C.int64 if dtype is None else dtype
        return flat[: flat.numel() - flat.numel() % dtype.itemsize].view(dtype)
    return flat


@_seen_by_modes
def scalar_tensor(
    s: float | int | bool | complex,
    *,
    dtype: _C.dtype | None = None,
    device: _C.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor without dimensions.

    Args:
        s: Its value.
        dtype: Its dtype. `None` is the default dtype.
        device: Its device. `None` is the default device.
        requires_grad: Whether it requires gradients.

    Example:
        >>> import pytpu as torch
        >>> torch.scalar_tensor(3)
        tensor(3.)
    """
    return _C.tensor(s, dtype=dtype or _C.get_default_dtype(), device=device, requires_grad=requires_grad)


def split(tensor: Tensor, split_size_or_sections: int | list[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Split a tensor along a dimension into views.

    Args:
        tensor: Tensor to split.
        split_size_or_sections: Size of each part (the last one may be smaller), or a list of the sizes of the parts.
        dim: Dimension to split.

    Raises:
        RuntimeError: If the sizes do not sum to the size of the dimension.

    Example:
        >>> import pytpu as torch
        >>> torch.split(torch.arange(5), 2)
        (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    return tensor.split(split_size_or_sections, dim)


def broadcast_shapes(*shapes: int | Sequence[int]) -> Size:
    """Return the size that tensors of these sizes are broadcast to.

    Args:
        shapes: Sizes. An integer stands for one dimension.

    Raises:
        RuntimeError: If the sizes cannot be broadcast.

    Example:
        >>> import pytpu as torch
        >>> torch.broadcast_shapes((2, 1), (3,))
        torch.Size([2, 3])
    """
    sizes = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    rank = max((len(s) for s in sizes), default=0)
    out = [1] * rank
    for at, s in enumerate(sizes):
        for i, n in enumerate(reversed(s), 1):
            if n < 0 and out[-i] == 1:
                raise ValueError("Attempting to broadcast a dimension with negative length!")
            if n != 1 and out[-i] != n:
                if out[-i] != 1:
                    raise RuntimeError(
                        f"Attempting to broadcast a dimension of length {n} at {-i}! Mismatching argument at index "
                        f"{at} had {s}; "
                        f"but expected shape should be broadcastable to {out}"
                    )
                out[-i] = n
    return _size(out)


def _size(sizes):
    from ._size import Size

    return Size(sizes)


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have the same size.

    Example:
        >>> import pytpu as torch
        >>> torch.is_same_size(torch.zeros(2, 3), torch.ones(2, 3))
        True
    """
    return input.shape == other.shape


def tensordot(
    a: Tensor,
    b: Tensor,
    dims: int | list[list[int]] | tuple[Sequence[int], Sequence[int]] | Tensor = 2,
    out: Tensor | None = None,
) -> Tensor:
    """Return the sums of products over some dimensions of two tensors.

    Args:
        a: First tensor.
        b: Second tensor.
        dims: Number of last dimensions of `a` and first dimensions of `b`, or two lists of dimensions. It may be a
            tensor.
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
    if isinstance(dims, (tuple, list)):
        dims_a, dims_b = dims
    elif isinstance(dims, _C.Tensor) and dims.numel() > 1:
        dims_a, dims_b = dims.tolist()
    elif isinstance(dims, (int, _C.Tensor)):
        n = int(dims)
        if n < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if n > min(a.dim(), b.dim()):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        dims_a, dims_b = list(range(-n, 0)), list(range(n))
    else:
        raise RuntimeError(
            "tensordot expects dims to be int or tuple[list[int], list[int]] or list[list[int]] containing two lists, "
            f"but got dims={dims}"
        )
    return _C._ops.tensordot(a, b, dims_a, dims_b, out=out)


def _into(out, x):
    """Write a result to the tensor that is given as `out`."""
    return _C._ops.alias_copy(x, out=out)


def _several(tensors: Any) -> Any:
    """Return the tensors of a call that takes them one by one or as one list."""
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        return tensors[0]
    return tensors


def broadcast_tensors(*tensors: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return views of the tensors with their common size.

    Args:
        tensors: Tensors, one by one or as a list.

    Example:
        >>> import pytpu as torch
        >>> a, b = torch.broadcast_tensors(torch.zeros(2, 1), torch.zeros(3))
        >>> a.shape, b.shape
        (torch.Size([2, 3]), torch.Size([2, 3]))
    """
    return _C._ops.broadcast_tensors(_several(tensors))


_said: set[str] = set()


def _once(text):
    """Give a warning once in a process."""
    if text not in _said or _settings["warn_always"]:
        _said.add(text)
        warnings.warn(text, stacklevel=4)


def lu(
    A: Tensor, pivot: bool = True, get_infos: bool = False, out: Sequence[Tensor] | None = None
) -> tuple[Tensor, ...]:
    """Return the LU factorization of matrices in compact form. Deprecated: use `torch.linalg.lu_factor`.

    Args:
        A: Tensor of shape `(*, m, n)`.
        pivot: If `False`, do not swap rows.
        get_infos: If `True`, return a third tensor, of shape `(*)`. It is not zero where a factorization failed.
        out: Tensors to write the results to.

    Returns:
        A tuple of both triangles in one tensor of shape `(*, m, n)`, and the pivots, `int32` of shape `(*, min(m, n))`.

    Example:
        >>> import pytpu as torch
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     factors, pivots = torch.lu(torch.tensor([[2.0, 0.0], [1.0, 3.0]]))
        >>> factors
        tensor([[2.0000, 0.0000],
                [0.5000, 3.0000]])
    """
    _once(
        "torch.lu is deprecated in favor of torch.linalg.lu_factor / torch.linalg.lu_factor_ex and will be removed in "
        "a "
        "future PyTorch release.\nLU, pivots = torch.lu(A, compute_pivots)\nshould be replaced with\n"
        "LU, pivots = torch.linalg.lu_factor(A, compute_pivots)\nand\n"
        "LU, pivots, info = torch.lu(A, compute_pivots, get_infos=True)\nshould be replaced with\n"
        "LU, pivots, info = torch.linalg.lu_factor_ex(A, compute_pivots)"
    )
    found = _C._ops._lu_with_info(A, pivot, check_errors=not get_infos)
    if not get_infos:
        found = found[:2]
    if out is None:
        return tuple(found) if not get_infos else found
    if len(out) != len(found):
        raise TypeError(f"expected tuple of {len(found)} elements but got {len(out)}")
    return tuple(_into(o, x) for o, x in zip(out, found))


def meshgrid(*tensors: Tensor | Sequence[Tensor], indexing: str | None = None) -> tuple[Tensor, ...]:
    """Return the coordinates of the grid that one-dimensional tensors span.

    Args:
        tensors: Tensors with at most one dimension, one by one or as a list.
        indexing: `"ij"`: dimension `i` of the results belongs to tensor `i`. `"xy"` swaps the first two. `None` is
            `"ij"` and gives a warning.

    Returns:
        A tuple with one tensor for each argument, all of the same size.

    Raises:
        RuntimeError: If a tensor has more than one dimension.

    Example:
        >>> import pytpu as torch
        >>> x, y = torch.meshgrid(torch.tensor([1, 2]), torch.tensor([3, 4]), indexing="ij")
        >>> x
        tensor([[1, 1],
                [2, 2]])
        >>> y
        tensor([[3, 4],
                [3, 4]])
    """
    if indexing is None:
        _once("torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument.")
        indexing = "ij"
    tensors = _several(tensors)
    for t in tensors:
        if isinstance(t, _C.Tensor) and t.dim() > 1:
            raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {t}")
    return _C._ops.meshgrid(tensors, indexing=indexing)


def _atleast(name):
    def atleast(*tensors):
        one = getattr(_C._ops, name)
        if len(tensors) == 1 and not isinstance(tensors[0], (tuple, list)):
            return one(tensors[0])
        return tuple(one(t) for t in _several(tensors))

    atleast.__name__ = atleast.__qualname__ = name
    atleast.__doc__ = f"Return views of the tensors with at least {name[8]} dimension(s)."
    return atleast


atleast_1d, atleast_2d, atleast_3d = (_atleast(f"atleast_{n}d") for n in (1, 2, 3))


def einsum(*args: Any) -> Tensor:
    """Return sums of products that an equation describes, in Einstein's notation.

    Args:
        args: An equation and the operands, such as `"ij,jk->ik", a, b`. Or operands that are each followed by a list of
            numbers of dimensions, and a list for the result.

    Raises:
        ValueError: If there are too few arguments, or a number is not in `[0, 52)`.
        RuntimeError: If the equation does not fit the operands.

    Example:
        >>> import pytpu as torch
        >>> a = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> torch.einsum("ij,jk->ik", a, a)
        tensor([[ 7., 10.],
                [15., 22.]])
        >>> torch.einsum("ii", a)
        tensor(5.)
    """
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one operand and its "
            "subscripts list"
        )
    if isinstance(args[0], str):
        return _C._ops.einsum(args[0], list(_several(args[1:])))
    operands, lists = list(args[: len(args) // 2 * 2 : 2]), args[1::2]
    parts = [_subscripts(s) for s in lists]
    equation = ",".join(parts)
    if len(args) % 2:
        equation += "->" + _subscripts(args[-1])
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = list(operands[0])
    return _C._ops.einsum(equation, operands)


def _subscripts(places):
    """Return a list of numbers and ellipses as letters."""
    text = ""
    for p in places:
        if p is Ellipsis:
            text += "..."
        elif 0 <= p < 26:
            text += chr(ord("A") + p)
        elif 26 <= p < 52:
            text += chr(ord("a") + p - 26)
        else:
            raise ValueError(f"einsum(): subscript in subscript list is not within the valid range [0, 52): got {p}")
    return text


def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """Return the product of a chain of matrices, in the cheapest order.

    Args:
        matrices: Matrices, one by one or as a list.
        out: Tensor to write the result to.

    Example:
        >>> import pytpu as torch
        >>> torch.chain_matmul(torch.ones(2, 3), torch.ones(3, 4), torch.ones(4, 1)).shape
        torch.Size([2, 1])
    """
    return _C._ops.chain_matmul(list(_several(matrices)), out=out)


def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Convert flat indices to coordinates.

    Args:
        indices: Integer tensor of indices into the elements in row-major order.
        shape: Size of the tensor that is indexed.

    Returns:
        A tuple with one `int64` tensor for each dimension, of the size of `indices`.

    Raises:
        TypeError: If `indices` does not have an integer dtype, or `shape` holds something else than integers.
        ValueError: If `shape` has a negative number.

    Example:
        >>> import pytpu as torch
        >>> torch.unravel_index(torch.tensor([0, 4, 5]), (2, 3))
        (tensor([0, 1, 1]), tensor([0, 1, 2]))
    """
    if indices.is_floating_point() or indices.is_complex() or indices.dtype == _C.bool:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    for n in shape:
        if not isinstance(n, int):
            raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(n)}")
    if any(n < 0 for n in shape):
        raise ValueError(f"'shape' cannot have negative values, but got {shape}")
    found: list[Tensor] = []
    indices, step = indices.long(), 1
    for n in reversed(shape):
        found.insert(0, _C._ops.div(indices, step, rounding_mode="floor") % n)
        step *= n
    return tuple(found)


def histogramdd(
    input: Tensor,
    bins: int | Sequence[int] | Sequence[Tensor],
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> _HistogramDD:
    """Return a histogram of points in several dimensions.

    Args:
        input: Tensor of shape `(*, d)`: points with `d` coordinates.
        bins: Number of bins in all dimensions, a list with one number per dimension, or a list of tensors of edges.
        range: Lowest and highest edge of each dimension, as `2 * d` numbers. `None` takes them from the points.
        weight: Weight of each point, of shape `(*)`.
        density: If `True`, divide so that the integral is 1.

    Returns:
        A tuple `(hist, bin_edges)`: the counts, and a tuple of the edges in each dimension.

    Example:
        >>> import pytpu as torch
        >>> points = torch.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
        >>> torch.histogramdd(points, [2, 2]).hist
        tensor([[0., 1.],
                [1., 1.]])
    """
    if isinstance(bins, int):
        bins = [bins] * input.shape[-1] if input.dim() > 1 else [bins]
    if bins and isinstance(bins[0], _C.Tensor):
        edges = tuple(bins)
        counts = _C._ops._histogramdd_from_bin_tensors(input, list(bins), weight=weight, density=density)
    else:
        edges = tuple(_C._ops._histogramdd_bin_edges(input, list(bins), range=range, weight=weight, density=density))
        counts = _C._ops._histogramdd_from_bin_cts(input, list(bins), range=range, weight=weight, density=density)
    return _HistogramDD((counts, edges))


class _HistogramDD(tuple):
    """Result of `histogramdd`: `hist` and `bin_edges`."""

    hist = property(lambda self: self[0])
    bin_edges = property(lambda self: self[1])

    def __repr__(self):
        return f"torch.return_types.histogramdd(\nhist={self[0]!r},\nbin_edges={self[1]!r})"


def block_diag(*tensors: Tensor | Sequence[Tensor]) -> Tensor:
    """Return a matrix with the tensors along its diagonal, and zeros elsewhere.

    Args:
        tensors: Tensors with at most two dimensions.

    Example:
        >>> import pytpu as torch
        >>> torch.block_diag(torch.tensor([[1, 2]]), torch.tensor([[3], [4]]))
        tensor([[1, 2, 0],
                [0, 0, 3],
                [0, 0, 4]])
    """
    return _C._ops.block_diag(_several(tensors))


def cartesian_prod(*tensors: Tensor | Sequence[Tensor]) -> Tensor:
    """Return all combinations of one element of each vector.

    Args:
        tensors: Tensors with one dimension, one by one or as a list.

    Returns:
        A tensor with one combination in each row. For one vector, the vector itself.

    Raises:
        RuntimeError: If a tensor does not have one dimension.

    Example:
        >>> import pytpu as torch
        >>> torch.cartesian_prod(torch.tensor([1, 2]), torch.tensor([3, 4]))
        tensor([[1, 3],
                [1, 4],
                [2, 3],
                [2, 4]])
    """
    vectors = _several(tensors)
    for t in vectors:
        if t.dim() != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(t.shape)}")
    if len(vectors) == 1:
        return vectors[0]
    return _C._ops.stack([g.flatten() for g in _C._ops.meshgrid(vectors, indexing="ij")], 1)


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Return all choices of `r` elements of a vector.

    Args:
        input: Tensor with one dimension.
        r: Number of elements of a choice.
        with_replacement: If `True`, an element may be chosen several times.

    Returns:
        A tensor with one choice in each row.

    Raises:
        RuntimeError: If `input` does not have one dimension, or `r` is negative.

    Example:
        >>> import pytpu as torch
        >>> torch.combinations(torch.tensor([1, 2, 3]))
        tensor([[1, 2],
                [1, 3],
                [2, 3]])
    """
    import array
    import itertools

    if input.dim() != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return input.new_empty((0,))
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    n = input.numel()
    count = math.comb(max(n + r - 1, 0) if with_replacement else n, r)
    if count * r * 8 >= 2**63:
        raise RuntimeError("numel: integer multiplication overflow")
    input.new_empty((count, r), device="cpu")  # An error where it does not fit, before the choices are listed.
    places = array.array("q", itertools.chain.from_iterable(choose(range(n), r)))
    int64 = _C.tensor(0).dtype
    at = _C._from_bytes(bytes(places), int64) if places else input.new_empty(0, dtype=int64, device="cpu")
    return input.index_select(0, at.to(input.device)).reshape(count, r)


def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """Return the `p`-norm of `input - other`.

    Args:
        input: First tensor.
        other: Second tensor.
        p: Order of the norm.

    Example:
        >>> import pytpu as torch
        >>> torch.dist(torch.tensor([3.0, 0.0]), torch.tensor([0.0, 4.0]))
        tensor(5.)
    """
    return _C._ops.linalg_vector_norm(input - other, p)


_CDIST_MODES = {
    "use_mm_for_euclid_dist_if_necessary": None,
    "use_mm_for_euclid_dist": 1,
    "donot_use_mm_for_euclid_dist": 2,
}


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """Return the `p`-norm of the difference of each row of `x1` and each row of `x2`.

    Args:
        x1: Tensor of shape `(*, m, k)`.
        x2: Tensor of shape `(*, n, k)`.
        p: Order of the norm, at least `0`.
        compute_mode: How to compute Euclidean distances: `"use_mm_for_euclid_dist_if_necessary"` uses a matrix product
            for many rows, `"use_mm_for_euclid_dist"` always, `"donot_use_mm_for_euclid_dist"` never.

    Returns:
        A tensor of shape `(*, m, n)`.

    Raises:
        ValueError: If `compute_mode` is unknown.

    Example:
        >>> import pytpu as torch
        >>> torch.cdist(torch.tensor([[0.0, 0.0], [3.0, 0.0]]), torch.tensor([[0.0, 4.0]]))
        tensor([[4.],
                [5.]])
    """
    if compute_mode not in _CDIST_MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    return _C._ops.cdist(x1, x2, p, _CDIST_MODES[compute_mode])


def detach_(input: Tensor) -> Tensor:
    """Detach `input` from its graph in place, as `Tensor.detach_` does.

    Example:
        >>> import pytpu as torch
        >>> x = torch.ones(1, requires_grad=True) * 2
        >>> torch.detach_(x).requires_grad
        False
    """
    return input.detach_()


def as_strided_(input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """Change size and strides of `input` in place, as `Tensor.as_strided_` does.

    Args:
        input: Tensor to change.
        size: New size.
        stride: New strides, in elements.
        storage_offset: Position of the first element in the storage. `None` keeps it.

    Example:
        >>> import pytpu as torch
        >>> torch.as_strided_(torch.arange(4), (2, 2), (1, 2))
        tensor([[0, 2],
                [1, 3]])
    """
    return input.as_strided_(size, stride, storage_offset)


def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: _C.memory_format | None = None) -> Tensor:
    """Change the size of `input` in place to that of another tensor.

    Args:
        input: Tensor to change.
        the_template: Tensor with the new size.
        memory_format: Memory format of the result. `None` is `torch.contiguous_format`.

    Example:
        >>> import pytpu as torch
        >>> torch.resize_as_(torch.arange(4), torch.zeros(2, 2))
        tensor([[0, 1],
                [2, 3]])
    """
    return input.resize_as_(the_template, memory_format=memory_format)


def row_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Stack tensors along dimension 0, as `torch.vstack` does.

    Args:
        tensors: Tensors to stack.
        out: Tensor to write the result to.

    Example:
        >>> import pytpu as torch
        >>> torch.row_stack([torch.tensor([1, 2]), torch.tensor([3, 4])])
        tensor([[1, 2],
                [3, 4]])
    """
    return _C._ops.vstack(tensors, out=out)


def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: bool = False) -> Tensor | tuple[Tensor, ...]:
    """Return the positions of the elements that are not zero.

    Args:
        input: Tensor with `d` dimensions.
        out: Tensor to write the result to.
        as_tuple: If `True`, return one tensor for each dimension.

    Returns:
        An `int64` tensor of shape `(n, d)`. With `as_tuple`, a tuple of `d` tensors of shape `(n,)`.

    Raises:
        RuntimeError: If `out` is combined with `as_tuple`.

    Example:
        >>> import pytpu as torch
        >>> torch.nonzero(torch.tensor([0, 5, 7]))
        tensor([[1],
                [2]])
    """
    if as_tuple:
        if out is not None:
            raise RuntimeError("nonzero does not support the out kwarg when as_tuple is True")
        return _C._ops.nonzero_numpy(input)
    return _C._ops.nonzero(input, out=out)


def norm(
    input: Tensor,
    p: float | str | None = "fro",
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    out: Tensor | None = None,
    dtype: _C.dtype | None = None,
) -> Tensor:
    """Return a norm of a tensor, or of parts of it.

    Args:
        input: Tensor.
        p: Order of the vector norm, `"fro"` for the root of the sum of squares, or `"nuc"` for the sum of the singular
            values of matrices.
        dim: Dimensions to reduce. `None` is all, or the last two for `"nuc"`.
        keepdim: If `True`, keep the dimensions with size 1.
        out: Tensor to write the result to.
        dtype: Dtype to convert to before.

    Raises:
        ValueError: If `p` is another text.

    Example:
        >>> import pytpu as torch
        >>> torch.norm(torch.tensor([3.0, 4.0]))
        tensor(5.)
    """
    if isinstance(dim, int):
        dim = (dim,)
    if p == "nuc":
        if dim is None:
            dim = (-2, -1)
        return _C._ops.linalg_matrix_norm(input if dtype is None else input.to(dtype), "nuc", dim, keepdim, out=out)
    if p is None or p == "fro":
        p = 2
    elif isinstance(p, str):
        raise ValueError(f"only valid string values are 'fro' and 'nuc', found {p}")
    return _C._ops.linalg_vector_norm(input, p, dim, keepdim, dtype=dtype, out=out)


def _method_norm(self, p="fro", dim=None, keepdim=False, dtype=None):
    """Return `torch.norm` of the tensor."""
    return norm(self, p, dim, keepdim, dtype=dtype)


def _found(results, return_inverse, return_counts):
    values, inverse, counts = results
    if not (return_inverse or return_counts):
        return values
    return (values,) + (inverse,) * bool(return_inverse) + (counts,) * bool(return_counts)


def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """Return the distinct elements, or the distinct slices along a dimension.

    Args:
        input: Tensor.
        sorted: Accepted for compatibility. The result is sorted.
        return_inverse: If `True`, also return where each element of `input` is in the result.
        return_counts: If `True`, also return how often each element occurs.
        dim: Dimension of the slices. `None` takes elements.

    Returns:
        A tensor, or a tuple of the tensors that are asked for.

    Example:
        >>> import pytpu as torch
        >>> torch.unique(torch.tensor([3, 1, 3]), return_counts=True)
        (tensor([1, 3]), tensor([1, 2]))
    """
    if dim is None:
        results = _C._ops._unique2(input, sorted, return_inverse, return_counts)
    else:
        results = _C._ops.unique_dim(input, dim, sorted, return_inverse, return_counts)
    return _found(results, return_inverse, return_counts)


def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Tensor | tuple[Tensor, ...]:
    """Return the elements, or slices, that differ from the one before.

    Args:
        input: Tensor.
        return_inverse: If `True`, also return where each element of `input` is in the result.
        return_counts: If `True`, also return the length of each run.
        dim: Dimension of the slices. `None` takes elements.

    Returns:
        A tensor, or a tuple of the tensors that are asked for.

    Example:
        >>> import pytpu as torch
        >>> torch.unique_consecutive(torch.tensor([1, 1, 2, 1]))
        tensor([1, 2, 1])
    """
    return _found(_C._ops.unique_consecutive(input, return_inverse, return_counts, dim), return_inverse, return_counts)


def _polygamma(self, n):
    """Return `torch.polygamma(n, self)`."""
    return _C._ops.polygamma(n, self)


def _polygamma_(self, n):
    """Write `torch.polygamma(n, self)` to the tensor."""
    return self.copy_(_C._ops.polygamma(n, self))


fill_, zero_ = _C._ops.fill_, _C._ops.zero_

_function: Any
for _name_, _function in {
    "dist": dist,
    "is_same_size": is_same_size,
    "nonzero": nonzero,
    "norm": _method_norm,
    "polygamma": _polygamma,
    "polygamma_": _polygamma_,
    "unique": unique,
    "unique_consecutive": unique_consecutive,
}.items():
    setattr(_C.Tensor, _name_, _overridable_method(_function, _name_))
del _name_, _function


def typename(obj: object) -> str:
    """Return the name of the type of an object. For a tensor it includes the dtype.

    Example:
        >>> import pytpu as torch
        >>> torch.typename(torch.zeros(1))
        'torch.FloatTensor'
    """
    if isinstance(obj, _C.Tensor):
        return obj.type()
    t = type(obj)
    return f"{t.__module__}.{t.__qualname__}" if t.__module__ != "builtins" else t.__qualname__


def set_num_threads(n: int) -> None:
    """Set the number of threads of ops on the CPU.

    Args:
        n: Number of threads, at least 1.

    Raises:
        TypeError: If `n` is not an integer.
        RuntimeError: If `n` is not positive.

    Example:
        >>> import pytpu as torch
        >>> before = torch.get_num_threads()
        >>> torch.set_num_threads(1)
        >>> torch.get_num_threads()
        1
        >>> torch.set_num_threads(before)
    """
    if not isinstance(n, int):
        raise TypeError(f"set_num_threads expects an int, but got {type(n).__name__}")
    if n <= 0:
        raise RuntimeError("set_num_threads expects a positive integer")
    _C._set_num_threads(n)


def get_num_threads() -> int:
    """Return the number of threads of ops on the CPU."""
    return _C._num_threads()


def set_num_interop_threads(n: int) -> None:
    """Accept the number of ops that run at the same time. It has no effect.

    Args:
        n: Number of ops, at least 1.

    Raises:
        TypeError: If `n` is not an integer.
        RuntimeError: If `n` is not positive.
    """
    if not isinstance(n, int):
        raise TypeError(f"set_num_interop_threads expects an int, but got {type(n).__name__}")
    if n <= 0:
        raise RuntimeError("set_num_interop_threads expects a positive integer")


def get_num_interop_threads() -> int:
    """Return the number of ops that run at the same time on the CPU, which is 1."""
    return 1


def set_flush_denormal(mode: bool) -> bool:
    """Always return `False`: ops on the CPU do not flush denormal numbers to zero. On `tpu` they are always flushed."""
    return False


def set_default_tensor_type(t: type | str) -> None:
    """Set the default dtype by a tensor type. Deprecated: use `set_default_dtype`.

    Args:
        t: Type such as `torch.DoubleTensor`, or its name.

    Raises:
        TypeError: If `t` is not such a type, or not floating point.
    """
    _once(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and "
        "torch.set_default_device() as alternatives."
    )
    if isinstance(t, str):
        module, _, name = t.rpartition(".")
        if module != "torch":
            raise TypeError(f"invalid type object: {t}")
        kind: Any = getattr(_importlib.import_module(f"{__package__}._legacy"), name, None)
    else:
        kind = t
    dtype = getattr(kind, "dtype", None)
    if not isinstance(dtype, _C.dtype):
        raise TypeError("invalid type object: only floating-point types are supported as the default type")
    if not dtype.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    _C.set_default_dtype(dtype)


def get_device_module(device: _C.device | str | None = None) -> ModuleType:
    """Return the module of a device type, such as `torch.tpu`.

    Args:
        device: Device, or its name. `None` is the accelerator.

    Raises:
        RuntimeError: If `device` has another type.

    Example:
        >>> import pytpu as torch
        >>> torch.get_device_module("cpu").__name__.rpartition(".")[2]
        'cpu'
    """
    if device is None:
        name = "tpu"
    elif isinstance(device, (str, _C.device)):
        name = _C.device(device).type
    else:
        raise RuntimeError(f"Invalid value of device '{device}', expect torch.device, str, or None")
    return _importlib.import_module(f"{__package__}.{name}")


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed. An option that is `None` keeps its value.

    Args:
        precision: Number of digits after the point.
        threshold: Number of elements above which a tensor is shortened.
        edgeitems: Number of elements at each end of a shortened dimension.
        linewidth: Number of columns of a line.
        profile: `"default"`, `"short"` or `"full"`: values of the options above.
        sci_mode: If `True`, print in scientific notation. `None` lets the numbers decide.

    Example:
        >>> import pytpu as torch
        >>> torch.set_printoptions(precision=2)
        >>> torch.tensor([1.23456])
        tensor([1.23])
        >>> torch.set_printoptions(profile="default")
    """
    options = dict(_print_options)
    if profile is not None:
        options.update(_PROFILES.get(profile.lower(), {}))
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    options.update({name: value for name, value in given.items() if value is not None})
    digits, shown, edge, width = (options[name] for name in given)
    _C._set_print_options(digits, None if shown == float("inf") else int(shown), edge, width, sci_mode)
    _print_options.update(options)


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Refuse ops that PyTorch does not have in a deterministic form, or warn of them.

    Every op is deterministic here. The functions that PyTorch names are refused all the same, so that a program that
    runs here also runs there. On device `tpu` every program is then compiled, instead of running op by op when it is
    new: see `torch.tpu.metrics`.

    Args:
        mode: If `True`, refuse them.
        warn_only: If `True`, give warnings instead of errors.

    Example:
        >>> import pytpu as torch
        >>> torch.use_deterministic_algorithms(True)
        >>> torch.are_deterministic_algorithms_enabled()
        True
        >>> torch.use_deterministic_algorithms(False)
    """
    _settings["deterministic"], _settings["warn_only"] = bool(mode), bool(warn_only)
    _C._set_deterministic(bool(mode), bool(warn_only))


def are_deterministic_algorithms_enabled() -> bool:
    """Return the `mode` that `use_deterministic_algorithms` set."""
    return _settings["deterministic"]


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Return the `warn_only` that `use_deterministic_algorithms` set."""
    return _settings["warn_only"]


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Call `use_deterministic_algorithms` with a mode that has a name and a number.

    Args:
        debug_mode: `"default"` or `0`, `"warn"` or `1`, `"error"` or `2`.

    Raises:
        TypeError: If `debug_mode` is neither a `str` nor an `int`.
        RuntimeError: If it has another value.
    """
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    names = ("default", "warn", "error")
    if isinstance(debug_mode, str):
        if debug_mode not in names:
            raise RuntimeError(
                f"invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got {debug_mode}"
            )
        debug_mode = names.index(debug_mode)
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}")
    use_deterministic_algorithms(debug_mode > 0, warn_only=debug_mode == 1)


def get_deterministic_debug_mode() -> int:
    """Return the number of the mode that `set_deterministic_debug_mode` set."""
    return 0 if not _settings["deterministic"] else 1 if _settings["warn_only"] else 2


def set_float32_matmul_precision(precision: str) -> None:
    """Set the precision of `float32` matrix products and convolutions on a TPU.

    `"highest"`, the default, has the precision of `float32`. `"high"` has two thirds of its digits, and `"medium"`
    those of `bfloat16`. A TPU takes six, three and one passes. The CPU, and `tpu` on XLA:CPU, always compute in
    `float32`.

    Args:
        precision: `"highest"`, `"high"` or `"medium"`. Another value gives a warning, and changes nothing.

    Example:
        >>> import pytpu as torch
        >>> torch.set_float32_matmul_precision("high")
        >>> torch.get_float32_matmul_precision()
        'high'
        >>> torch.set_float32_matmul_precision("highest")
    """
    from .backends import _precision

    _precision.set_float32_matmul_precision(precision)


def get_float32_matmul_precision() -> str:
    """Return the precision that `set_float32_matmul_precision` set, at first `"highest"`.

    Raises:
        RuntimeError: If an `fp32_precision` of `torch.backends` contradicts it.
    """
    from .backends import _precision

    return _precision.get_float32_matmul_precision()


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
            f"torch.compile: the backend {getattr(backend, '__name__', backend)} is not called. pytpu makes no graphs "
            "of Python code that it "
            "could be given; the function runs as with the default backend."
        )
    return OptimizedModule(model) if hasattr(model, "forward") else around(model)


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """Return norms over all dimensions except one. They keep their number of dimensions.

    Args:
        v: Tensor.
        pow: Order of the norm.
        dim: Dimension that is not reduced. `-1` reduces all dimensions.

    Raises:
        IndexError: If `dim` is out of range.

    Example:
        >>> import pytpu as torch
        >>> torch.norm_except_dim(torch.tensor([[3.0, 4.0], [6.0, 8.0]]))
        tensor([[ 5.],
                [10.]])
    """
    if dim == -1:
        return _C._ops.norm(v, pow)
    rank = v.dim()
    if not -rank <= dim < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})")
    return _C._ops.norm(v, pow, [d for d in range(rank) if d != dim % rank], True)


def is_distributed(input: Tensor) -> bool:
    """Always return `False`: a tensor is on one device."""
    return False


def view_as_real_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return a copy of `torch.view_as_real(input)`.

    Args:
        input: Complex tensor.
        out: Tensor to write the result to.

    Example:
        >>> import pytpu as torch
        >>> torch.view_as_real_copy(torch.tensor([1 + 2j]))
        tensor([[1., 2.]])
    """
    y = _C._ops.view_as_real(input)
    return y.clone() if out is None else out.resize_(y.shape).copy_(y)


def view_as_complex_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return a copy of `torch.view_as_complex(input)`.

    Args:
        input: Tensor whose last dimension has size 2.
        out: Tensor to write the result to.

    Example:
        >>> import pytpu as torch
        >>> torch.view_as_complex_copy(torch.tensor([[1.0, 2.0]]))
        tensor([1.+2.j])
    """
    y = _C._ops.view_as_complex(input)
    return y.clone() if out is None else out.resize_(y.shape).copy_(y)


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


# Sizes are numbers here, never symbols.


def sym_int(a: float) -> int:
    """Return a number without its fraction."""
    return int(a)


def sym_float(a: float) -> float:
    """Return a number as a float."""
    return float(a)


def sym_not(a: object) -> bool:
    """Return `not a`."""
    return not a


def sym_max(a: float, b: float) -> float:
    """Return the larger number, as a float if one of them is a float.

    Example:
        >>> import pytpu as torch
        >>> torch.sym_max(1, 2.5)
        2.5
    """
    greater = max(a, b)
    return float(greater) if isinstance(a, float) or isinstance(b, float) else int(greater)


def sym_min(a: float, b: float) -> float:
    """Return the smaller number, as a float if one of them is a float."""
    smaller = min(a, b)
    return float(smaller) if isinstance(a, float) or isinstance(b, float) else int(smaller)


def sym_ite(b: bool, t: _T, f: _T) -> _T:
    """Return `t` if `b` is `True`, otherwise `f`.

    Raises:
        AssertionError: If `b` is not a `bool`.
    """
    if not isinstance(b, bool):
        raise AssertionError(f"expected SymBool or bool, got {type(b)}")
    return t if b else f


def sym_sum(args: Sequence[float]) -> float:
    """Return the sum of numbers."""
    return sum(args)


def sym_sqrt(a: float) -> float:
    """Return the square root of a number."""
    return math.sqrt(a)


# Subclasses of tensors can intercept functions that take tensors, as they can intercept ops.
for _name in (
    "atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors cartesian_prod cdist chain_matmul "
    "combinations dist einsum histogramdd is_complex is_conj is_floating_point is_neg is_nonzero is_same_size "
    "is_signed meshgrid nonzero norm numel row_stack split tensordot unique unique_consecutive unravel_index"
).split():
    globals()[_name] = _overridable(globals()[_name])
del _name
