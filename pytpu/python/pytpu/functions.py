"""Functions of the ``torch`` module that are no ops: they ask about tensors, or change a setting."""

import functools
import importlib as _importlib
import math
import warnings

from . import _C
from ._tensor import overridable_method as _overridable_method
from .overrides import _overridable

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

_PROFILES = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": float("inf"), "edgeitems": 3, "linewidth": 80},
}
_print_options = dict(_PROFILES["default"])
_settings = {"deterministic": False, "warn_only": False, "warn_always": False}


def numel(input):
    """Number of elements."""
    return input.numel()


def is_floating_point(input):
    """Whether the dtype is floating point."""
    return input.is_floating_point()


def is_complex(input):
    """Whether the dtype is complex."""
    return input.is_complex()


def is_conj(input):
    """Whether the tensor is a view of conjugates."""
    return input.is_conj()


def is_neg(input):
    """Whether the tensor is a view of negatives."""
    return input.is_neg()


def is_nonzero(input):
    """Whether the only element is not zero."""
    return bool(input)


def is_signed(input):
    """Whether the dtype has negative numbers."""
    return input.is_signed()


def get_device(input):
    """Index of the device; -1 on the host."""
    return input.get_device()


def set_anomaly_enabled(enabled, check_nan=True):
    """Switches anomaly mode; see ``autograd.set_detect_anomaly``."""
    _C._set_anomaly_enabled(bool(enabled), bool(check_nan))


def is_inference(input):
    """Whether the tensor was made in inference mode."""
    return input.is_inference()


is_inference_mode_enabled = _C.is_inference_mode_enabled


def is_storage(obj):
    """Whether ``obj`` is a storage."""
    import sys

    there = sys.modules.get("pytpu.storage")
    return there is not None and isinstance(obj, (there.TypedStorage, there.UntypedStorage))


def is_warn_always_enabled():
    """Whether warnings are repeated."""
    return _settings["warn_always"]


def set_warn_always(b):
    """Set whether a warning of this package is given each time and not only once. Python's filters act on it as well."""
    if not isinstance(b, bool):
        raise RuntimeError(f"setWarnOnlyOnce expects a bool, but got {type(b).__name__}")
    _settings["warn_always"] = b


def _seen_by_modes(function):
    """Return the function, which modes may take over. Types of arguments are not asked, as in PyTorch."""

    @functools.wraps(function)
    def seen(*args, **kwargs):
        if _C._has_torch_function(()):
            return _C._call_torch_function(seen, (), args, kwargs)
        return function(*args, **kwargs)

    return seen


@_seen_by_modes
def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=None):
    """A tensor of ``obj``: on the same memory where that is possible, a copy where it is not or where ``copy`` is true.

    Args:
        obj: a tensor, NumPy array, DLPack capsule, storage, object with a buffer, number, or nested sequence of numbers.
        copy: true for a copy always; false to refuse one.
        requires_grad: whether the result requires a gradient; by default, as ``obj`` does.

    Raises:
        ValueError: ``copy`` is false and the memory cannot be shared.
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
    """A tensor on the memory of an object; None where the object has none to share."""
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
    """A tensor on the memory of a storage. Bytes are ``int64`` without a dtype, as in PyTorch, which takes them for a list of numbers."""
    flat = storage._flat()
    if flat.dtype is _C.uint8 and storage.untyped() is storage:
        dtype = _C.int64 if dtype is None else dtype
        return flat[: flat.numel() - flat.numel() % dtype.itemsize].view(dtype)
    return flat


@_seen_by_modes
def scalar_tensor(s, *, dtype=None, device=None, requires_grad=False):
    """A tensor without dimensions."""
    return _C.tensor(s, dtype=dtype or _C.get_default_dtype(), device=device, requires_grad=requires_grad)


def split(tensor, split_size_or_sections, dim=0):
    """Views of parts along a dimension."""
    return tensor.split(split_size_or_sections, dim)


def broadcast_shapes(*shapes):
    """The sizes that tensors of these sizes are broadcast to."""
    shapes = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    rank = max((len(s) for s in shapes), default=0)
    out = [1] * rank
    for at, s in enumerate(shapes):
        for i, n in enumerate(reversed(s), 1):
            if n < 0 and out[-i] == 1:
                raise ValueError("Attempting to broadcast a dimension with negative length!")
            if n != 1 and out[-i] != n:
                if out[-i] != 1:
                    raise RuntimeError(
                        f"Attempting to broadcast a dimension of length {n} at {-i}! Mismatching argument at index {at} had {s}; "
                        f"but expected shape should be broadcastable to {out}"
                    )
                out[-i] = n
    return _size(out)


def _size(sizes):
    from ._size import Size

    return Size(sizes)


def isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether ``|input - other| <= atol + rtol * |other|``, by element."""
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
            f"{'rtol' if rtol < 0 else 'atol'} must be greater than or equal to zero, but got {rtol if rtol < 0 else atol}"
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
    """Whether a tensor is one real number without a history, or something else has ``__float__``."""
    if isinstance(t, _C.Tensor):
        return t.dim() == 0 and not t.requires_grad and not t.is_complex()
    return hasattr(t, "__float__") and not isinstance(t, str)


def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether all elements are close, as by ``isclose``."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


def count_nonzero(input, dim=None):
    """Number of elements that are not zero."""
    x = (input != 0).long()
    return x.sum() if dim is None else x.sum(dim)


def is_same_size(input, other):
    """Whether the sizes are the same."""
    return input.shape == other.shape


def inner(input, other, *, out=None):
    """Sum of products over the last dimensions."""
    if input.dim() and other.dim() and input.size(-1) != other.size(-1):
        raise RuntimeError(
            f"inner() the last dimension must match on both input tensors but got shapes {list(input.shape)} and {list(other.shape)}"
        )
    y = input * other if input.dim() == 0 or other.dim() == 0 else tensordot(input, other, ([-1], [-1]))
    return y if out is None else _into(out, y)


def tensordot(a, b, dims=2, out=None):
    """Sum of products over given dimensions of both."""
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
            # A dimension of one element is stretched: the other is summed.
            one, d = (b, j) if a.size(i) == 1 else (a, i)
            one = one.sum(d, keepdim=True, dtype=one.dtype)
            a, b = (a, one) if a.size(i) == 1 else (one, b)
        elif a.size(i) != b.size(j):
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {a.size(i)} in dim {shown_i} and second has size {b.size(j)} in dim {shown_j}"
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


def diff(input, n=1, dim=-1, prepend=None, append=None, *, out=None):
    """Differences of neighbours along a dimension, ``n`` times, of the tensor with others before and behind it."""
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


def _into(out, x):
    """Writes a result into the tensor given as ``out=``."""
    return _C._ops.alias_copy(x, out=out)


def _several(tensors):
    """The tensors of a call that takes them one by one or as one list."""
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        return tensors[0]
    return tensors


def broadcast_tensors(*tensors):
    """Views of the tensors with their common sizes."""
    return _C._ops.broadcast_tensors(_several(tensors))


_said = set()


def _once(text):
    """Warns of what is said once in a process."""
    if text not in _said or _settings["warn_always"]:
        _said.add(text)
        warnings.warn(text, stacklevel=4)


def lu(A, pivot=True, get_infos=False, out=None):
    """The triangles of a matrix in one and its pivots, and with ``get_infos`` where a factorization failed."""
    _once(
        "torch.lu is deprecated in favor of torch.linalg.lu_factor / torch.linalg.lu_factor_ex and will be removed in a "
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


def meshgrid(*tensors, indexing=None):
    """Coordinates of the grid that one-dimensional tensors span."""
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
    atleast.__doc__ = f"Views with at least {name[8]} dimension(s)."
    return atleast


atleast_1d, atleast_2d, atleast_3d = (_atleast(f"atleast_{n}d") for n in (1, 2, 3))


def einsum(*args):
    """Sums of products named by letters: an equation and operands, or operands each with a list of its subscripts."""
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one operand and its subscripts list"
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
    """A list of numbers and ellipses as letters."""
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


def chain_matmul(*matrices, out=None):
    """The product of a chain of matrices, in the cheapest order."""
    return _C._ops.chain_matmul(list(_several(matrices)), out=out)


def unravel_index(indices, shape):
    """Coordinates, one tensor a dimension, of places in a tensor that are counted row by row."""
    if indices.is_floating_point() or indices.is_complex() or indices.dtype == _C.bool:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    for n in shape:
        if not isinstance(n, int):
            raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(n)}")
    if any(n < 0 for n in shape):
        raise ValueError(f"'shape' cannot have negative values, but got {shape}")
    indices, found, step = indices.long(), [], 1
    for n in reversed(shape):
        found.insert(0, _C._ops.div(indices, step, rounding_mode="floor") % n)
        step *= n
    return tuple(found)


def histogramdd(input, bins, range=None, weight=None, density=False):
    """A histogram of points in several dimensions, and the edges of its bins in each."""
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
    """What ``histogramdd`` gives: ``hist`` and ``bin_edges``."""

    hist = property(lambda self: self[0])
    bin_edges = property(lambda self: self[1])

    def __repr__(self):
        return f"torch.return_types.histogramdd(\nhist={self[0]!r},\nbin_edges={self[1]!r})"


def block_diag(*tensors):
    """Tensors along the diagonal of a matrix of zeros."""
    return _C._ops.block_diag(_several(tensors))


def cartesian_prod(*tensors):
    """All combinations of one element of each vector, one a row."""
    tensors = _several(tensors)
    for t in tensors:
        if t.dim() != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(t.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    return _C._ops.stack([g.flatten() for g in _C._ops.meshgrid(tensors, indexing="ij")], 1)


def combinations(input, r=2, with_replacement=False):
    """All choices of ``r`` elements of a vector, one a row."""
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


def dist(input, other, p=2):
    """The ``p``-norm of the difference."""
    return _C._ops.linalg_vector_norm(input - other, p)


_CDIST_MODES = {
    "use_mm_for_euclid_dist_if_necessary": None,
    "use_mm_for_euclid_dist": 1,
    "donot_use_mm_for_euclid_dist": 2,
}


def cdist(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    """The ``p``-norm of every difference of a row of ``x1`` and a row of ``x2``."""
    if compute_mode not in _CDIST_MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    return _C._ops.cdist(x1, x2, p, _CDIST_MODES[compute_mode])


def detach_(input):
    """The in-place form of ``detach``."""
    return input.detach_()


def as_strided_(input, size, stride, storage_offset=None):
    """The in-place form of ``as_strided``."""
    return input.as_strided_(size, stride, storage_offset)


def resize_as_(input, the_template, *, memory_format=None):
    """Changes the sizes of ``input`` to those of another tensor."""
    return input.resize_as_(the_template, memory_format=memory_format)


def row_stack(tensors, *, out=None):
    """See ``vstack``."""
    return _C._ops.vstack(tensors, out=out)


def nonzero(input, *, out=None, as_tuple=False):
    """Positions of the elements that are not zero: one a row, or one tensor a dimension."""
    if as_tuple:
        if out is not None:
            raise RuntimeError("nonzero does not support the out kwarg when as_tuple is True")
        return _C._ops.nonzero_numpy(input)
    return _C._ops.nonzero(input, out=out)


def norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    """A norm over dimensions; ``fro`` is the root of the sum of squares, ``nuc`` the sum of singular values."""
    if isinstance(dim, int):
        dim = (dim,)
    if p == "nuc":
        from . import linalg

        if dim is None:
            dim = (-2, -1)
        return linalg.matrix_norm(input if dtype is None else input.to(dtype), "nuc", dim, keepdim, out=out)
    if p is None or p == "fro":
        p = 2
    elif isinstance(p, str):
        raise ValueError(f"only valid string values are 'fro' and 'nuc', found {p}")
    return _C._ops.linalg_vector_norm(input, p, dim, keepdim, dtype=dtype, out=out)


def _method_norm(self, p="fro", dim=None, keepdim=False, dtype=None):
    """See ``torch.norm``."""
    return norm(self, p, dim, keepdim, dtype=dtype)


def _found(results, return_inverse, return_counts):
    values, inverse, counts = results
    if not (return_inverse or return_counts):
        return values
    return (values,) + (inverse,) * bool(return_inverse) + (counts,) * bool(return_counts)


def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The different elements, or slices along a dimension, in order."""
    if dim is None:
        results = _C._ops._unique2(input, sorted, return_inverse, return_counts)
    else:
        results = _C._ops.unique_dim(input, dim, sorted, return_inverse, return_counts)
    return _found(results, return_inverse, return_counts)


def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """The elements, or slices along a dimension, that differ from the one before."""
    return _found(_C._ops.unique_consecutive(input, return_inverse, return_counts, dim), return_inverse, return_counts)


def _polygamma(self, n):
    """See ``torch.polygamma``."""
    return _C._ops.polygamma(n, self)


def _polygamma_(self, n):
    """The in-place form of ``polygamma``."""
    return self.copy_(_C._ops.polygamma(n, self))


fill_, zero_ = _C._ops.fill_, _C._ops.zero_

for _name_, _function in {
    "dist": dist, "nonzero": nonzero, "norm": _method_norm, "polygamma": _polygamma, "polygamma_": _polygamma_, "unique": unique,
    "unique_consecutive": unique_consecutive,
}.items():  # fmt: skip
    setattr(_C.Tensor, _name_, _overridable_method(_function, _name_))
del _name_, _function


def typename(obj):
    """The name of an object's type; a tensor tells its dtype."""
    if isinstance(obj, _C.Tensor):
        return obj.type()
    t = type(obj)
    return f"{t.__module__}.{t.__qualname__}" if t.__module__ != "builtins" else t.__qualname__


def set_num_threads(n):
    """Says how many threads ops on ``cpu`` use from now on."""
    if not isinstance(n, int):
        raise TypeError(f"set_num_threads expects an int, but got {type(n).__name__}")
    if n <= 0:
        raise RuntimeError("set_num_threads expects a positive integer")
    _C._set_num_threads(n)


def get_num_threads():
    """Number of threads that ops on ``cpu`` use."""
    return _C._num_threads()


def set_num_interop_threads(n):
    """Kept for compatibility: ops on ``cpu`` run one after the other, each on all threads."""
    if not isinstance(n, int):
        raise TypeError(f"set_num_interop_threads expects an int, but got {type(n).__name__}")
    if n <= 0:
        raise RuntimeError("set_num_interop_threads expects a positive integer")


def get_num_interop_threads():
    """How many ops run at the same time on ``cpu``: one."""
    return 1


def set_flush_denormal(mode):
    """Whether numbers too small for full precision can be made zero on ``cpu``: no. (On ``tpu`` they always are.)"""
    return False


def set_default_tensor_type(t):
    """The older form of ``set_default_dtype``: a type such as ``torch.DoubleTensor``, or its name."""
    _once(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and "
        "torch.set_default_device() as alternatives."
    )
    if isinstance(t, str):
        module, _, name = t.rpartition(".")
        if module != "torch":
            raise TypeError(f"invalid type object: {t}")
        t = getattr(_importlib.import_module(f"{__package__}._legacy"), name, None)
    dtype = getattr(t, "dtype", None)
    if not isinstance(dtype, _C.dtype):
        raise TypeError("invalid type object: only floating-point types are supported as the default type")
    if not dtype.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    _C.set_default_dtype(dtype)


def get_device_module(device=None):
    """The module of a device by name: ``torch.tpu``, ``torch.cpu``; of the accelerator where none is named."""
    if device is None:
        name = "tpu"
    elif isinstance(device, (str, _C.device)):
        name = _C.device(device).type
    else:
        raise RuntimeError(f"Invalid value of device '{device}', expect torch.device, str, or None")
    return _importlib.import_module(f"{__package__}.{name}")


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    """How tensors are printed from now on: what is not given stays, ``sci_mode`` is chosen by the numbers unless given."""
    options = dict(_print_options)
    if profile is not None:
        options.update(_PROFILES.get(profile.lower(), {}))
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    options.update({name: value for name, value in given.items() if value is not None})
    digits, shown, edge, width = (options[name] for name in given)
    _C._set_print_options(digits, None if shown == float("inf") else int(shown), edge, width, sci_mode)
    _print_options.update(options)


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Whether ops that PyTorch does not have in a deterministic form are refused, or with ``warn_only`` warn.

    Here every op is deterministic. The functions that PyTorch names are refused all the same, so that a program that was
    checked here passes there. On device ``tpu`` every program is then compiled, also where new ones would run op by op: see
    `torch.tpu.metrics`.
    """
    _settings["deterministic"], _settings["warn_only"] = bool(mode), bool(warn_only)
    _C._set_deterministic(bool(mode), bool(warn_only))


def are_deterministic_algorithms_enabled():
    """What was set."""
    return _settings["deterministic"]


def is_deterministic_algorithms_warn_only_enabled():
    """What was set."""
    return _settings["warn_only"]


def set_deterministic_debug_mode(debug_mode):
    """``use_deterministic_algorithms`` by name or number: ``default`` (0), ``warn`` (1), ``error`` (2)."""
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


def get_deterministic_debug_mode():
    """0, 1 or 2; see ``set_deterministic_debug_mode``."""
    return 0 if not _settings["deterministic"] else 1 if _settings["warn_only"] else 2


def set_float32_matmul_precision(precision):
    """Set how precisely ``float32`` matrices are multiplied, and convolved, on a TPU.

    ``"highest"``, the default, gives what ``float32`` gives, ``"high"`` two thirds of its digits, ``"medium"`` those of
    ``bfloat16``; a TPU takes six, three and one passes. ``cpu``, and ``tpu`` where it is XLA:CPU, always compute in ``float32``.

    Args:
        precision (str): ``"highest"``, ``"high"`` or ``"medium"``. Anything else warns, and changes nothing.
    """
    from .backends import _precision

    _precision.set_float32_matmul_precision(precision)


def get_float32_matmul_precision():
    """Return what ``set_float32_matmul_precision`` set, ``"highest"`` at first.

    Raises:
        RuntimeError: if an ``fp32_precision`` of ``torch.backends`` says something else.
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


def compile(model=None, *, fullgraph=False, dynamic=None, backend="inductor", mode=None, options=None, disable=False):
    """Makes each call of a function or module one program on ``tpu``.

    Ops are recorded as they run, so nothing is traced beforehand and nothing is refused: the recorded stream is cut before
    and after the call, and what lies between is compiled as a whole.
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
            f"torch.compile: the backend {getattr(backend, '__name__', backend)} is not called. pytpu makes no graphs of Python code that it "
            "could be given; the function runs as with the default backend."
        )
    return OptimizedModule(model) if hasattr(model, "forward") else around(model)


# What the op table has goes before what is composed here; and methods of the same names.
for _k in ("allclose", "isclose", "count_nonzero", "diff", "inner", "is_same_size", "tensordot"):
    if hasattr(_C._functions, _k):
        globals()[_k] = getattr(_C._functions, _k)
    elif not hasattr(_C.Tensor, _k) and _k != "tensordot":
        setattr(_C.Tensor, _k, _overridable_method(globals()[_k]))
del _k


def norm_except_dim(v, pow=2, dim=0):
    """Norms of order ``pow`` over all dimensions but ``dim``, which keep their dimensions; of everything where ``dim`` is -1."""
    if dim == -1:
        return _C._ops.norm(v, pow)
    rank = v.dim()
    if not -rank <= dim < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})")
    return _C._ops.norm(v, pow, [d for d in range(rank) if d != dim % rank], True)


def is_distributed(input):
    """No."""
    return False


def view_as_real_copy(input, *, out=None):
    """What ``view_as_real`` views, as a tensor of its own."""
    y = _C._ops.view_as_real(input)
    return y.clone() if out is None else out.resize_(y.shape).copy_(y)


def view_as_complex_copy(input, *, out=None):
    """What ``view_as_complex`` views, as a tensor of its own."""
    y = _C._ops.view_as_complex(input)
    return y.clone() if out is None else out.resize_(y.shape).copy_(y)


def cond(pred, true_fn, false_fn, operands=()):
    """``true_fn(*operands)`` or ``false_fn(*operands)``, as ``pred`` says: a truth value, or a tensor of one element."""
    if isinstance(pred, _C.Tensor) and pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    return (true_fn if pred else false_fn)(*operands)


# Sizes are numbers here, so that functions of symbolic ones are those of numbers.


def sym_int(a):
    """The number without its fraction."""
    return int(a)


def sym_float(a):
    """The number as a float."""
    return float(a)


def sym_not(a):
    """The opposite."""
    return not a


def sym_max(a, b):
    """The greater, as a float if one of them is."""
    greater = max(a, b)
    return float(greater) if isinstance(a, float) or isinstance(b, float) else int(greater)


def sym_min(a, b):
    """The smaller, as a float if one of them is."""
    smaller = min(a, b)
    return float(smaller) if isinstance(a, float) or isinstance(b, float) else int(smaller)


def sym_ite(b, t, f):
    """``t`` if ``b`` holds, else ``f``."""
    if not isinstance(b, bool):
        raise AssertionError(f"expected SymBool or bool, got {type(b)}")
    return t if b else f


def sym_sum(args):
    """The sum of numbers."""
    return sum(args)


def sym_sqrt(a):
    """The square root."""
    return math.sqrt(a)


# Those that take tensors let them take the call over, as ops do.
for _name in (
    "allclose atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors cartesian_prod cdist chain_matmul combinations count_nonzero "
    "diff dist einsum histogramdd inner is_complex is_conj is_floating_point is_neg is_nonzero is_same_size is_signed isclose meshgrid "
    "nonzero norm numel row_stack split tensordot unique unique_consecutive unravel_index"
).split():
    globals()[_name] = _overridable(globals()[_name])
del _name
