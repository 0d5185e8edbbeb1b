"""`torch._subclasses.fake_tensor`: tensors that have a device, sizes, strides and a dtype, and no elements.

Within a `FakeTensorMode`, new tensors are fake. Ops on them compute the description of their result, with history. A
fake tensor on a device needs neither memory nor the device itself.
"""

from __future__ import annotations

import contextlib
import threading
import typing
from collections.abc import Iterator

from .. import _C
from .._C import Tensor
from .._size import Size
from ..overrides import TorchFunctionMode
from ..utils.weak import WeakTensorKeyDictionary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..ops import OpOverload

__all__ = [
    "DataDependentOutputException",
    "DynamicOutputShapeException",
    "FakeCopyMode",
    "FakeTensor",
    "FakeTensorDeviceMismatchError",
    "FakeTensorMode",
    "UnsupportedFakeTensorException",
    "UnsupportedOperatorException",
    "is_fake",
    "unset_fake_temporarily",
]


class _OfOperator(RuntimeError):
    """An error of one operator, `func`. Its text is the operator's name."""

    def __init__(self, func: OpOverload | str) -> None:
        super().__init__(func)
        self.func = func


class DataDependentOutputException(_OfOperator):
    """An operator needs the elements of a fake tensor for a Python value, as `item` does."""


class DynamicOutputShapeException(_OfOperator):
    """The size of an operator's result depends on the elements of a fake tensor, as that of `nonzero` does."""


class UnsupportedOperatorException(_OfOperator):
    """An operator cannot run on fake tensors."""


class UnsupportedFakeTensorException(RuntimeError):
    """A tensor cannot be made fake."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class FakeTensorDeviceMismatchError(RuntimeError):
    """The operands of an operator are fake tensors on two devices."""


class _FakeTensorMeta(type(Tensor)):  # type: ignore[misc]
    """A `Parameter` that is fake counts as a `FakeTensor` too."""

    def __instancecheck__(cls, instance: object) -> bool:
        return type.__instancecheck__(cls, instance) or (cls is FakeTensor and is_fake(instance))


class FakeTensor(Tensor, metaclass=_FakeTensorMeta):
    """A tensor without elements on a device.

    Args:
        fake_mode: the mode that it belongs to.
        elem: a tensor on device `meta`, whose sizes, strides and dtype it gets.
        device: its device.
    """

    __torch_function__ = _C._disabled_torch_function_impl

    constant = None

    def __new__(
        cls, fake_mode: FakeTensorMode, elem: Tensor, device: typing.Any, constant: Tensor | None = None
    ) -> FakeTensor:
        made = _C._fake_of(elem.detach()).to(device)
        made.requires_grad_(elem.requires_grad)
        made.__dict__["_mode"] = fake_mode
        return typing.cast("FakeTensor", made)

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__()

    @property
    def fake_mode(self) -> FakeTensorMode | None:
        """The mode that made the tensor, as far as it is known: else the active one, else the last one."""
        return self.__dict__.get("_mode") or _active() or _last

    @property
    def fake_device(self) -> typing.Any:
        """The device."""
        return self.device

    @property
    def shape(self) -> typing.Any:  # type: ignore[override]
        """The sizes. Within `torch.export`, a size that may change is a `torch.SymInt`."""
        symbolic = self.__dict__.get("_symbolic")
        return _plain_shape(self) if symbolic is None else symbolic[0]

    def size(self, dim: int | None = None) -> typing.Any:  # type: ignore[override]
        """The sizes, or the size of one dimension."""
        return self.shape if dim is None else self.shape[dim]

    def stride(self, dim: int | None = None) -> typing.Any:  # type: ignore[override]
        """The strides, or the stride of one dimension."""
        symbolic = self.__dict__.get("_symbolic")
        if symbolic is None:
            return super().stride() if dim is None else super().stride(dim)
        return symbolic[1] if dim is None else symbolic[1][dim]

    def storage_offset(self) -> typing.Any:
        """The position of the first element in the storage."""
        symbolic = self.__dict__.get("_symbolic")
        return super().storage_offset() if symbolic is None else symbolic[2]

    def _describe(self, sizes: typing.Any, strides: typing.Any, offset: typing.Any = 0) -> None:
        """Set sizes, strides and an offset that may be symbols. Ops read the plain ones."""
        self.__dict__["_symbolic"] = tuple.__new__(Size, sizes), tuple(strides), offset


_plain_shape = Tensor.shape.__get__  # type: ignore[attr-defined]
_C._set_class("fake", FakeTensor)


class _Entered(threading.local):
    """The modes of a thread, each with the setting of the extension before it. `None` is a block without a mode."""

    def __init__(self) -> None:
        self.modes: list[tuple[FakeTensorMode | None, bool | None]] = []

    def push(self, mode: FakeTensorMode | None) -> None:
        self.modes.append((mode, _C._set_fake_mode(None if mode is None else mode.allow_non_fake_inputs)))

    def pop(self) -> None:
        _C._set_fake_mode(self.modes.pop()[1])


_entered = _Entered()
_last: FakeTensorMode | None = None


def _active() -> FakeTensorMode | None:
    return _entered.modes[-1][0] if _entered.modes else None


class FakeTensorMode:
    """A block whose new tensors are fake. Functions of existing tensors give fake results if an operand is fake.

    Args:
        allow_fallback_kernels: accepted for compatibility.
        allow_non_fake_inputs: whether other tensors may be operands beside fake ones.
        shape_env: must be `None`: sizes are always numbers.
        static_shapes: accepted for compatibility.
        export: accepted for compatibility.

    Example:
        >>> import pytpu as torch
        >>> from torch._subclasses import FakeTensorMode
        >>> with FakeTensorMode():
        ...     x = torch.zeros(1 << 20, 1 << 20)
        ...     y = x @ x.T
        >>> y.shape
        torch.Size([1048576, 1048576])
    """

    in_kernel_invocation = False
    shape_env = None

    def __init__(
        self,
        *,
        allow_fallback_kernels: bool = True,
        allow_non_fake_inputs: bool = False,
        shape_env: None = None,
        static_shapes: bool | None = None,
        export: bool = False,
    ) -> None:
        global _last
        if shape_env is not None:
            raise NotImplementedError("FakeTensorMode: shape_env: sizes are always numbers here")
        self.allow_fallback_kernels = allow_fallback_kernels
        self.allow_non_fake_inputs = allow_non_fake_inputs
        self.static_shapes = True if static_shapes is None else static_shapes
        self.export = export
        self._known = WeakTensorKeyDictionary()
        _last = self

    def __enter__(self) -> FakeTensorMode:
        global _last
        _entered.push(self)
        _last = self
        return self

    def __exit__(self, *error: object) -> None:
        _entered.pop()

    def from_tensor(
        self,
        tensor: Tensor,
        *,
        static_shapes: bool | None = None,
        source: object = None,
        symbolic_context: object = None,
        trace: bool = True,
    ) -> Tensor:
        """Return the fake tensor with the description of `tensor`: the same one at each call.

        A leaf gives a leaf, and a `Parameter` gives a `Parameter`.
        """
        if is_fake(tensor):
            return tensor
        found = self._known.get(tensor)
        if found is None:
            found = _C._fake_of(tensor.detach())
            found = _like_parameter(tensor, found)
            self._known[tensor] = found
        return found

    def is_our_fake(self, t: object) -> bool:
        """Return whether `t` is a fake tensor."""
        return is_fake(t)


def _like_parameter(tensor: Tensor, fake: Tensor) -> Tensor:
    from ..nn.parameter import Parameter

    if isinstance(tensor, Parameter):
        return Parameter(fake, tensor.requires_grad)
    return fake.requires_grad_(tensor.requires_grad)


class FakeCopyMode(TorchFunctionMode):
    """A block in which `copy.deepcopy` of a tensor, or of a module, makes fake tensors."""

    def __init__(self, fake_mode: FakeTensorMode) -> None:
        self.fake_mode = fake_mode

    def __torch_function__(
        self,
        func: typing.Callable[..., typing.Any],
        types: object,
        args: tuple[typing.Any, ...] = (),
        kwargs: dict[str, typing.Any] | None = None,
    ) -> typing.Any:
        name = getattr(func, "__name__", "")
        if name == "clone":
            # The copy of a `Parameter` is made from a clone of its data.
            return func(self.fake_mode.from_tensor(args[0]), **(kwargs or {}))
        if name == "__deepcopy__":
            tensor, memo = args
            if id(tensor) not in memo:
                memo[id(tensor)] = self.fake_mode.from_tensor(tensor)
            return memo[id(tensor)]
        return func(*args, **(kwargs or {}))


def is_fake(x: object) -> bool:
    """Return whether `x` is a fake tensor."""
    return isinstance(x, Tensor) and _C._is_fake(x)


def maybe_get_fake_mode(t: object) -> FakeTensorMode | None:
    """Return the mode of a fake tensor, or `None` for anything else."""
    return getattr(t, "fake_mode", None) or _active() or _last if is_fake(t) else None


@contextlib.contextmanager
def unset_fake_temporarily() -> Iterator[FakeTensorMode | None]:
    """Return a block in which new tensors have elements. It gives the mode that was active."""
    before = _active()
    _entered.push(None)
    try:
        yield before
    finally:
        _entered.pop()


def _is_tensor_constructor(func: OpOverload) -> bool:
    """Return whether an operator makes a tensor of none: its first schema has no tensor among its arguments."""
    from ..ops import OpOverload

    if not isinstance(func, OpOverload):
        raise AssertionError(f"func must be an OpOverload, got {type(func)}")
    schema = next((s for s in func.overloadpacket._schemas if s.startswith(func.__name__ + "(")), "")
    schema = schema or next((s for s in func.overloadpacket._schemas), "")
    arguments, _, returned = schema.rpartition("->")
    return "Tensor" not in arguments and returned.strip() == "Tensor"


def _raise(kind: str, name: str) -> typing.NoReturn:
    """Raise the exception of an operator that needs elements. The extension calls this."""
    from .. import ops

    operator: typing.Any = name
    _, packet, overload = name.split(".")
    with contextlib.suppress(AttributeError):
        operator = getattr(getattr(ops.aten, packet), overload)
    raise {"value": DataDependentOutputException, "size": DynamicOutputShapeException}[kind](operator)


def _raise_devices(message: str) -> typing.NoReturn:
    """Raise the exception of operands on two devices. The extension calls this."""
    raise FakeTensorDeviceMismatchError(message)
