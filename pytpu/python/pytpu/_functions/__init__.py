"""Functions of the `torch` module that are not in the op table: what they share. `functions` publishes them."""

from __future__ import annotations

import functools

from .. import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _seen_by_modes(function):
    """Return the function so that modes can intercept it. Types of arguments cannot, as in PyTorch."""

    @functools.wraps(function)
    def seen(*args, **kwargs):
        if _C._has_torch_function(()):
            return _C._call_torch_function(seen, (), args, kwargs)
        return function(*args, **kwargs)

    return seen


def _several(tensors: Any) -> Any:
    """Return the tensors of a call that takes them one by one or as one list."""
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        return tensors[0]
    return tensors


def _into(out, x):
    """Write a result to the tensor that is given as `out`."""
    return _C._ops.alias_copy(x, out=out)
