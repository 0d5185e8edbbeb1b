"""`torch.fx.tensor_type`: annotations of tensors with sizes, for type checkers of graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._compatibility import compatibility

__all__ = ["Dyn", "TensorType", "is_consistent", "is_more_precise"]


@compatibility(is_backward_compatible=False)
class TensorType:
    """The type of tensors with some sizes: `TensorType((1, 2, Dyn))`, also spelled `TensorType[1, 2, Dyn]`."""

    def __init__(self, dim: Sequence[Any]) -> None:
        self.__origin__ = TensorType
        self.__args__ = dim

    @property
    def dims(self) -> Sequence[Any]:
        """The sizes."""
        return self.__args__

    def __repr__(self) -> str:
        return f"TensorType[{self.dims}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorType) and list(self.dims) == list(other.dims)

    __hash__ = None  # type: ignore[assignment]

    @staticmethod
    def __class_getitem__(*args: Any) -> TensorType:
        return TensorType(args[0] if len(args) == 1 and isinstance(args[0], tuple) else args)


class _DynType:
    """The absence of a type."""

    def __init__(self) -> None:
        self.__name__ = "_DynType"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _DynType)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "Dyn"


Dyn = _DynType()


def _all_dims(relation: Any, t1: object, t2: object) -> bool:
    if not (isinstance(t1, TensorType) and isinstance(t2, TensorType)):
        return False
    return len(t1.dims) == len(t2.dims) and all(relation(a, b) for a, b in zip(t1.dims, t2.dims))


@compatibility(is_backward_compatible=False)
def is_consistent(t1: object, t2: object) -> bool:
    """Return whether a value can have both types. `Dyn` is consistent with every type."""
    return t1 == t2 or isinstance(t1, _DynType) or isinstance(t2, _DynType) or _all_dims(is_consistent, t1, t2)


@compatibility(is_backward_compatible=False)
def is_more_precise(t1: object, t2: object) -> bool:
    """Return whether `t1` says all that `t2` says. Every type is at least as precise as `Dyn`."""
    return t1 == t2 or isinstance(t2, _DynType) or _all_dims(is_more_precise, t1, t2)
