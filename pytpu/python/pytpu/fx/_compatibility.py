"""`torch.fx._compatibility`: the mark that says whether later versions keep a function's behaviour."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    _T = TypeVar("_T")

# The marked objects, in order.
_BACK_COMPAT_OBJECTS: dict[object, None] = {}
_MARKED_WITH_COMPATIBILITY: dict[object, None] = {}


def compatibility(is_backward_compatible: bool) -> Callable[[_T], _T]:
    """Return a decorator that registers a function or class. `is_backward_compatible` says in which tables."""

    def mark(fn: _T) -> _T:
        _MARKED_WITH_COMPATIBILITY.setdefault(fn)
        if is_backward_compatible:
            _BACK_COMPAT_OBJECTS.setdefault(fn)
        return fn

    return mark
