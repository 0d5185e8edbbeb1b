"""Names that `spmd_types`, tensordict and torchrl import. Functions are not mapped over a dimension here."""

import functools

from .. import Tensor as Tensor
from ..utils._pytree import tree_flatten as tree_flatten, tree_unflatten as tree_unflatten


def _get_name(func):
    """Return a readable name of a callable."""
    if hasattr(func, "__name__"):
        return func.__name__
    return f"functools.partial({_get_name(func.func)}, ...)" if isinstance(func, functools.partial) else repr(func)


def _broadcast_to_and_flatten(tree, treespec, is_leaf=None):
    """Return one value for each leaf of `treespec`: those of `tree`, where a leaf stands for all that are below it."""
    from ..utils._pytree import _broadcast_to_and_flatten

    return _broadcast_to_and_flatten(tree, treespec, is_leaf)


def _validate_and_get_batch_size(flat_in_dims, flat_args):
    """Return the size that all of the mapped dimensions have.

    Raises:
        ValueError: If the sizes differ, or nothing is mapped.
    """
    sizes = [arg.size(dim) for dim, arg in zip(flat_in_dims, flat_args) if dim is not None]
    if not sizes:
        raise ValueError("At least one of the inputs must be mapped over")
    if any(size != sizes[0] for size in sizes):
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the "
            "mapped dimension"
        )
    return sizes[0]
