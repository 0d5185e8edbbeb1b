"""`Variable`, the name of tensors that require gradients in old programs."""

from .. import _C

__all__ = ["Variable", "VariableMeta"]


class VariableMeta(type):
    """The class of `Variable`: every tensor is an instance."""

    def __instancecheck__(cls, instance):
        return isinstance(instance, _C.Tensor)


class Variable(metaclass=VariableMeta):
    """Return a tensor that shares the memory of `data` and has no history.

    Args:
        data: a tensor. `None` gives a tensor without elements.
        requires_grad: whether the result requires gradients.
        volatile: ignored. A true value warns.
    """

    def __new__(cls, data=None, requires_grad=False, volatile=False, _grad_fn=None, name=None):
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
