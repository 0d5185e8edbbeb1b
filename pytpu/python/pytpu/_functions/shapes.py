"""Functions that change or combine shapes."""

from __future__ import annotations

import math

from .. import _C
from ..overrides import _overridable
from . import _several
from .settings import _once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytpu import Tensor
    from pytpu._size import Size


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
    from .._size import Size

    return Size(sizes)


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
    axes = _several(tensors)
    for t in axes:
        if isinstance(t, _C.Tensor) and t.dim() > 1:
            raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {t}")
    return _C._ops.meshgrid(axes, indexing=indexing)


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
    input.new_empty((count, r), device="cpu")  # Raises an error if it does not fit, before the choices are listed.
    places = array.array("q", itertools.chain.from_iterable(choose(range(n), r)))
    int64 = _C.tensor(0).dtype
    at = _C._from_bytes(bytes(places), int64) if places else input.new_empty(0, dtype=int64, device="cpu")
    return input.index_select(0, at.to(input.device)).reshape(count, r)


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


# Subclasses of tensors can intercept functions that take tensors, as they can intercept ops.
for _name in (
    "atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors cartesian_prod combinations meshgrid "
    "row_stack split unravel_index"
).split():
    globals()[_name] = _overridable(globals()[_name])
del _name
