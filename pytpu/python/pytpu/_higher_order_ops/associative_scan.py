"""Running combinations along a dimension, in a number of steps that grows as the logarithm of its size."""

import pytpu as torch

from ..utils import _pytree as pytree


def associative_scan(combine_fn, xs, dim, reverse=False, combine_mode="pointwise"):
    """Return `combine_fn` over all positions up to each one along `dim`. For an addition this is `torch.cumsum`.

    Args:
        combine_fn: an associative function of two trees of tensors like `xs`, of places of any number at once.
        xs: a tree of tensors with the same size along `dim`.
        reverse: combine from the end.
        combine_mode: "pointwise" or "generic"; both are the same here.

    Raises:
        ValueError: `combine_fn` cannot be called, or sizes differ.
        IndexError: there is no such dimension.
    """
    if not callable(combine_fn):
        raise ValueError(f"Combine_fn must be a callable, but got {combine_fn}")
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}")
    leaves, spec = pytree.tree_flatten(xs)
    if not leaves:
        raise ValueError("Expected at least 1 xs leaf")
    if not all(isinstance(x, torch.Tensor) for x in leaves):
        raise ValueError("Expected all xs leaves to be of torch.Tensor type")
    # The error for a dimension that is out of range.
    lengths = {x.size(dim) for x in leaves}
    if len(lengths) != 1:
        raise ValueError(
            f"Expected all tensors to have the same size along dimension {dim}, got sizes {sorted(lengths)}"
        )
    leaves = [x.movedim(dim, 0) for x in leaves]
    if reverse:
        leaves = [x.flip(0) for x in leaves]

    def combine(left, right):
        return pytree.tree_leaves(combine_fn(spec.unflatten(left), spec.unflatten(right)))

    found = _scan(combine, leaves)
    if reverse:
        found = [x.flip(0) for x in found]
    return spec.unflatten(x.movedim(0, dim) for x in found)


def _scan(combine, leaves):
    """Combine neighbors, scan the half as many results, and fill in every other position."""
    length = leaves[0].shape[0]
    if length < 2:
        return leaves
    odd = _scan(combine, combine([x[0:-1:2] for x in leaves], [x[1::2] for x in leaves]))
    if length == 2:
        even = []
    else:
        before = odd if length % 2 else [x[:-1] for x in odd]
        even = combine(before, [x[2::2] for x in leaves])
    found = []
    for i, (first, pairs) in enumerate(zip(leaves, odd)):
        rest = torch.cat([first[:1], even[i]]) if even else first[:1]
        full = torch.stack([rest[: pairs.shape[0]], pairs], dim=1).flatten(0, 1)
        found.append(full if length % 2 == 0 else torch.cat([full, rest[-1:]]))
    return found
