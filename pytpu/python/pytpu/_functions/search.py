"""Functions that find elements: positions, distinct elements, histograms."""

from __future__ import annotations

from .. import _C
from .._tensor import overridable_method
from ..overrides import _overridable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from pytpu import Tensor


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
    given: list[Any] = list(bins)  # Tensors, or numbers.
    if given and isinstance(given[0], _C.Tensor):
        edges = tuple(given)
        counts = _C._ops._histogramdd_from_bin_tensors(input, given, weight=weight, density=density)
    else:
        edges = tuple(_C._ops._histogramdd_bin_edges(input, given, range=range, weight=weight, density=density))
        counts = _C._ops._histogramdd_from_bin_cts(input, given, range=range, weight=weight, density=density)
    return _HistogramDD((counts, edges))


class _HistogramDD(tuple):
    """Result of `histogramdd`: `hist` and `bin_edges`."""

    hist = property(lambda self: self[0])
    bin_edges = property(lambda self: self[1])

    def __repr__(self):
        return f"torch.return_types.histogramdd(\nhist={self[0]!r},\nbin_edges={self[1]!r})"


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


def _pick_results(results, return_inverse, return_counts):
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
    return _pick_results(results, return_inverse, return_counts)


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
    return _pick_results(
        _C._ops.unique_consecutive(input, return_inverse, return_counts, dim), return_inverse, return_counts
    )


_function: Any
for _name, _function in (("nonzero", nonzero), ("unique", unique), ("unique_consecutive", unique_consecutive)):
    setattr(_C.Tensor, _name, overridable_method(_function, _name))
del _name, _function

# Subclasses of tensors can intercept functions that take tensors, as they can intercept ops.
for _name in "histogramdd nonzero unique unique_consecutive".split():
    globals()[_name] = _overridable(globals()[_name])
del _name
