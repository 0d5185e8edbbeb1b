"""`Variable`, the name of tensors that require gradients in old programs."""

from __future__ import annotations

from .. import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pytpu import Tensor


__all__ = ["Variable", "VariableMeta"]


class VariableMeta(type):
    """Metaclass of `Variable`: every tensor is an instance."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _C.Tensor)


class Variable(metaclass=VariableMeta):
    """Return a tensor that shares the memory of `data` and has no history.

    Args:
        data: A tensor. `None` gives a tensor without elements.
        requires_grad: Whether the result requires gradients.
        volatile: Ignored. A true value gives a warning.

    Raises:
        TypeError: If `data` is not a tensor.

    Example:
        >>> import pytpu as torch
        >>> x = torch.autograd.Variable(torch.ones(2), requires_grad=True)
        >>> x
        tensor([1., 1.], requires_grad=True)
    """

    def __new__(
        cls,
        data: Tensor | None = None,
        requires_grad: bool = False,
        volatile: bool = False,
        _grad_fn: Any = None,
        name: str | None = None,
    ) -> Any:
        if volatile:
            import warnings

            warnings.warn(
                "volatile was removed and now has no effect. Use `with torch.no_grad():` instead.", stacklevel=2
            )
        if data is None:
            data = _C.Tensor()
        if not isinstance(data, _C.Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        return data.detach().requires_grad_(bool(requires_grad))
