"""Norms, distances, products and factorizations."""

from __future__ import annotations

from .. import _C
from .._tensor import overridable_method
from ..overrides import _overridable
from . import _into, _several
from .settings import _once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from pytpu import Tensor


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
    found: tuple[Tensor, ...] = _C._ops._lu_with_info(A, pivot, check_errors=not get_infos)
    if not get_infos:
        found = found[:2]
    if out is None:
        return tuple(found) if not get_infos else found
    if len(out) != len(found):
        raise TypeError(f"expected tuple of {len(found)} elements but got {len(out)}")
    return tuple(_into(o, x) for o, x in zip(out, found))


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
        return _contract(args[0], list(_several(args[1:])))
    operands, lists = list(args[: len(args) // 2 * 2 : 2]), args[1::2]
    parts = [_subscripts(s) for s in lists]
    equation = ",".join(parts)
    if len(args) % 2:
        equation += "->" + _subscripts(args[-1])
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = list(operands[0])
    return _contract(equation, operands)


def _contract(equation, operands):
    """`torch.einsum` in the order that opt_einsum finds, where there are several and it is installed."""
    if len(operands) <= 2:
        return _C._ops.einsum(equation, operands)
    from ..backends import opt_einsum

    return _C._ops.einsum(equation, operands, path=opt_einsum.order(equation, operands))


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


def _weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """Return `v` with the norms `g` instead of its own.

    Args:
        v: Directions.
        g: Norms over all dimensions except `dim`. They broadcast with `v`.
        dim: Dimension with norms of its own. `-1` stands for one norm of the whole.

    Example:
        >>> import pytpu as torch
        >>> torch._weight_norm(torch.tensor([[3.0, 4.0]]), torch.tensor([[10.0]]))
        tensor([[6., 8.]])
    """
    return v * (g / norm_except_dim(v, 2, dim))


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


for _name, _method in (("dist", dist), ("norm", _method_norm)):
    setattr(_C.Tensor, _name, overridable_method(_method, _name))
del _name, _method

# Subclasses of tensors can intercept functions that take tensors, as they can intercept ops.
for _name in "cdist chain_matmul dist einsum norm tensordot".split():
    globals()[_name] = _overridable(globals()[_name])
del _name
