"""Tensors that a module treats specially when they are assigned to it."""

from __future__ import annotations

from collections.abc import Sequence

import pytpu as torch
from pytpu import _C, Size, Tensor
from pytpu._utils import reduce_tensor

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self

    from pytpu.types import Device


def clear_gradient(p: Tensor, set_to_none: bool) -> None:
    """Remove the gradient of a tensor, or set it to zero.

    Args:
        p: Tensor whose gradient to change. It may have none.
        set_to_none: Whether to remove it.
    """
    if p.grad is None:
        return
    if set_to_none:
        p.grad = None
    else:
        if p.grad.grad_fn is not None:
            p.grad.detach_()
        else:
            p.grad.requires_grad_(False)
        p.grad.zero_()


class _ParameterMeta(_C._TensorMeta):
    # A custom tensor type that marks itself `_is_param` counts as a parameter.
    def __instancecheck__(cls, instance):
        if type.__instancecheck__(cls, instance):
            return True
        return cls is Parameter and isinstance(instance, torch.Tensor) and getattr(instance, "_is_param", False)


def _end_graph() -> None:
    """Give values to what a compiled function has recorded: a parameter must have elements of its own."""
    from ..compiler import _region

    region = _region()
    if region is not None:
        region.end("a Parameter made of a result")


class Parameter(torch.Tensor, metaclass=_ParameterMeta):
    """A tensor that a module registers as a parameter when it is assigned to an attribute.

    A parameter requires a gradient unless `requires_grad` is false, also under `no_grad`.

    Args:
        data: Tensor whose memory to use. `None` means an empty one.
        requires_grad: Whether to compute gradients for it.

    Raises:
        TypeError: `data` is not a tensor.

    Example:
        >>> import pytpu as torch
        >>> weight = torch.nn.Parameter(torch.ones(2))
        >>> weight
        Parameter containing:
        tensor([1., 1.], requires_grad=True)
    """

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Self:
        if data is None:
            data = torch.empty(0)
        if type(data) is torch.Tensor or type(data) is Parameter:
            if torch._C._is_fake(data):
                _end_graph()
            return torch.Tensor._make_subclass(cls, data, requires_grad)
        if not isinstance(data, torch.Tensor):
            raise TypeError(f"Parameter data must be a torch.Tensor, but got {type(data).__name__}")
        param: Any = data.detach().requires_grad_(requires_grad)
        if type(param) is not type(data):
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {type(data).__name__} requires that detach() returns "
                f"an instance of the same type, but return type {type(param).__name__} was found instead."
            )
        param._is_param = True
        return param  # type: ignore[return-value]  # It has the type of `data`.

    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        copy = type(self)(self.data.clone(), self.requires_grad)
        memo[id(self)] = copy
        return copy

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, proto):
        return reduce_tensor(self)

    __torch_function__ = _C._disabled_torch_function_impl


class _BufferMeta(_C._TensorMeta):
    def __instancecheck__(cls, instance):
        if type.__instancecheck__(cls, instance):
            return True
        return cls is Buffer and isinstance(instance, torch.Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(torch.Tensor, metaclass=_BufferMeta):
    """A tensor that a module registers as a buffer when it is assigned to an attribute.

    Args:
        data: Tensor whose memory to use. `None` means an empty one.
        persistent: Whether `state_dict` includes the buffer.

    Example:
        >>> import pytpu as torch
        >>> module = torch.nn.Module()
        >>> module.mean = torch.nn.Buffer(torch.zeros(3))
        >>> [name for name, _ in module.named_buffers()]
        ['mean']
    """

    persistent: bool

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Self:
        if data is None:
            data = torch.empty(0)
        t = data.detach().requires_grad_(data.requires_grad)
        t.persistent = persistent
        t._is_buffer = True
        return t

    __torch_function__ = _C._disabled_torch_function_impl


_SHAPELESS = (
    "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in `load_state_dict` "
    "when trying to load an uninitialized parameter into an initialized one. Call `forward` to initialize the "
    "parameters before accessing their attributes."
)
_LAZY_MESSAGE = (
    "Attempted to use an uninitialized parameter in {}. This error happens when you are using a `LazyModule` or "
    "explicitly manipulating `torch.nn.parameter.{}` objects. When using LazyModules Call "
    "`forward` with a dummy batch to initialize the parameters before calling torch functions"
)


class UninitializedTensorMixin:
    """A tensor without a shape. It can be moved, cast and materialised, and raises for everything else."""

    if TYPE_CHECKING:
        data: Tensor
        cls_to_become: Any

    def materialize(self, shape: Sequence[int], device: Device = None, dtype: torch.dtype | None = None) -> None:
        """Give the tensor its shape and its final class, in place. The values are not set.

        Args:
            shape: The shape.
            device: Device. `None` keeps it.
            dtype: Dtype. `None` keeps it.
        """
        device = self.data.device if device is None else device
        dtype = self.data.dtype if dtype is None else dtype
        self.data = torch.empty(shape, device=device, dtype=dtype)
        self.__class__ = self.cls_to_become

    @property
    def shape(self) -> Size:
        """Raise an error: there is no shape yet.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(_SHAPELESS)

    def numel(self) -> int:
        """Raise an error: there is no shape yet.

        Raises:
            ValueError: Always.
        """
        raise ValueError(_LAZY_MESSAGE.format("numel", type(self).__name__))

    nelement = numel

    def share_memory_(self) -> Self:
        """Raise an error: there is no memory to share yet.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the parameters "
            "before calling `module.share_memory()`."
        )

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        return f"<{self.__class__.__name__}>"

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", str(func))
        # A property arrives as `__get__` or `__set__` of its descriptor.
        if name in _ALLOWED_UNINITIALIZED or name in ("__get__", "__set__"):
            return super().__torch_function__(func, types, args, kwargs or {})
        raise ValueError(_LAZY_MESSAGE.format(func, cls.__name__))


_ALLOWED_UNINITIALIZED = frozenset(
    "detach requires_grad_ data device dtype is_floating_point is_complex to cpu cuda half float double bfloat16 char "
    "short int long size get_device is_leaf requires_grad grad __hash__ copy_ _has_compatible_shallow_copy_type "
    "_is_param _is_buffer".split()
)


def is_lazy(param: Any) -> bool:
    """Return whether an object is a parameter or buffer without a shape.

    Args:
        param: Any object.

    Returns:
        `True` before `materialize`, and `False` after it.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.nn.parameter import is_lazy
        >>> is_lazy(torch.nn.UninitializedParameter()), is_lazy(torch.nn.Parameter(torch.ones(1)))
        (True, False)
    """
    return isinstance(param, UninitializedTensorMixin)


# mypy forgets the names of keyword parameters of dunder methods, here `tensor_contents` of `__repr__`.
class UninitializedParameter(UninitializedTensorMixin, Parameter):  # type: ignore[misc]
    """A parameter whose shape is not known yet.

    Args:
        requires_grad: Whether to compute gradients for it.
        device: Device. `None` means the default device.
        dtype: Dtype. `None` means the default dtype.

    Example:
        >>> import pytpu as torch
        >>> weight = torch.nn.UninitializedParameter()
        >>> weight.materialize((2, 3))
        >>> type(weight).__name__, weight.shape
        ('Parameter', torch.Size([2, 3]))
    """

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Device = None, dtype: torch.dtype | None = None) -> Self:
        data = torch.empty(0, device=device, dtype=dtype)
        return torch.Tensor._make_subclass(cls, data, requires_grad)

    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        copy = type(self)(self.requires_grad, self.data.device, self.data.dtype)
        memo[id(self)] = copy
        return copy

    def __reduce_ex__(self, proto):
        return (type(self), (self.requires_grad, self.data.device, self.data.dtype))


class UninitializedBuffer(UninitializedTensorMixin, torch.Tensor):
    """A buffer whose shape is not known yet.

    Args:
        requires_grad: Whether to compute gradients for it.
        device: Device. `None` means the default device.
        dtype: Dtype. `None` means the default dtype.
        persistent: Whether `state_dict` includes the buffer.

    Example:
        >>> import pytpu as torch
        >>> buffer = torch.nn.UninitializedBuffer()
        >>> buffer.materialize((2,))
        >>> buffer.shape
        torch.Size([2])
    """

    cls_to_become = torch.Tensor

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            rebuild, args = self.__reduce_ex__(2)
            memo[id(self)] = rebuild(*args)
        return memo[id(self)]

    def __reduce_ex__(self, proto):
        return (type(self), (self.requires_grad, self.data.device, self.data.dtype, self.persistent))

    persistent: bool

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Device = None,
        dtype: torch.dtype | None = None,
        persistent: bool = True,
    ) -> Self:
        data = torch.empty(0, device=device, dtype=dtype)
        buffer = torch.Tensor._make_subclass(cls, data, requires_grad)
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer
