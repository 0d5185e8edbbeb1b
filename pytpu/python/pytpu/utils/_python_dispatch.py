"""`torch.utils._python_dispatch`: modes and classes that answer calls below autograd."""

from __future__ import annotations

import contextlib
import typing
from collections.abc import Callable, Iterator

from .. import (
    _C,
    _torch_dispatch,  # noqa: F401  # It tells the extension who answers.
)


class TorchDispatchMode:
    """A block in which `__torch_dispatch__` answers each call of an aten operator in this thread.

    The method gets the overload, the classes of operands that answer calls themselves, and the arguments. While it
    runs, the mode is off, so that it may call the overload. Gradient formulas run in the block, too.

    Example::

        class Log(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                print(func)
                return func(*args, **(kwargs or {}))

        with Log():
            torch.ones(2) + 1  # aten.ones.default, aten.add.Tensor
    """

    supports_higher_order_operators = False

    def __init__(self, _dispatch_key: typing.Any = None) -> None:
        if _dispatch_key is not None:
            self.__dict__["_dispatch_key"] = _dispatch_key

    def __torch_dispatch__(
        self, func: typing.Any, types: typing.Any, args: typing.Any = (), kwargs: typing.Any = None
    ) -> typing.Any:
        raise NotImplementedError

    def __enter__(self) -> typing.Self:
        _push_mode(self)
        return self

    def __exit__(self, exc_type: typing.Any, exc_val: typing.Any, exc_tb: typing.Any) -> None:
        _pop_mode()

    @classmethod
    def push(cls, *args: typing.Any, **kwargs: typing.Any) -> TorchDispatchMode:
        """Return a mode of this class. PyTorch keeps it for older programs."""
        import warnings

        warnings.warn("`Mode.push()` is no longer necessary and can be replaced with just `with Mode()`", stacklevel=2)
        return cls(*args, **kwargs)

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Return whether PyTorch's own tools use the mode."""
        return False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Return whether compiled regions hide their parts from the mode."""
        return False


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that calls the operator."""

    def __torch_dispatch__(
        self, func: typing.Any, types: typing.Any, args: typing.Any = (), kwargs: typing.Any = None
    ) -> typing.Any:
        return func(*args, **(kwargs or {}))


def _push_mode(mode: TorchDispatchMode) -> None:
    """Make a mode the innermost of this thread."""
    _C._push_torch_dispatch_mode(mode)


def _pop_mode(k: typing.Any = None) -> TorchDispatchMode:
    """Leave the innermost mode of this thread, and return it."""
    mode = _C._pop_torch_dispatch_mode()
    if mode is None:
        raise RuntimeError("there is no mode to leave")
    return mode


@contextlib.contextmanager
def _pop_mode_temporarily(k: typing.Any = None) -> Iterator[TorchDispatchMode]:
    """Return a block without the innermost mode."""
    mode = _pop_mode(k)
    try:
        yield mode
    finally:
        _push_mode(mode)


@contextlib.contextmanager
def _disable_current_modes() -> Iterator[list[TorchDispatchMode]]:
    """Return a block without modes, which are its value."""
    modes = _get_current_dispatch_mode_stack()
    for _ in modes:
        _C._pop_torch_dispatch_mode()
    try:
        yield modes
    finally:
        for mode in modes:
            _C._push_torch_dispatch_mode(mode)


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Return whether this thread has a mode."""
    modes = _get_current_dispatch_mode_stack()
    return any(include_infra_modes or not mode.is_infra_mode() for mode in modes)


def is_in_any_mode_without_ignore_compile_internals() -> bool:
    """Return whether this thread has a mode that asks for the parts of compiled regions."""
    return any(not mode.ignore_compile_internals() for mode in _get_current_dispatch_mode_stack())


def _get_current_dispatch_mode() -> TorchDispatchMode | None:
    """Return the innermost mode of this thread."""
    modes = _get_current_dispatch_mode_stack()
    return modes[-1] if modes else None


def _get_current_dispatch_mode_stack() -> list[TorchDispatchMode]:
    """Return the modes of this thread, with the innermost last."""
    return list(_C._torch_dispatch_modes())


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Return whether a tensor is a wrapper with methods that flatten it."""
    return isinstance(t, _C.Tensor) and is_traceable_wrapper_subclass_type(type(t))


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """The same of a class."""
    return (
        issubclass(t, _C.Tensor)
        and t is not _C.Tensor
        and hasattr(t, "__tensor_flatten__")
        and hasattr(t, "__tensor_unflatten__")
    )


def transform_subclass(
    t: typing.Any,
    callback: Callable[[str, typing.Any], typing.Any],
    outer_size: typing.Any = None,
    outer_stride: typing.Any = None,
) -> typing.Any:
    """Make a copy of a wrapper, with a callback's result in place of each of the tensors that it wraps."""
    names, context = t.__tensor_flatten__()
    parts = {name: callback(name, getattr(t, name)) for name in names}
    size = t.size() if outer_size is None else outer_size
    stride = t.stride() if outer_stride is None else outer_stride
    wrapper = type(t).__tensor_unflatten__(parts, context, size, stride)
    if wrapper.shape != size:
        raise AssertionError(
            f"Expected return value from {type(t)}__tensor_unflatten__() to have shape equal to {size}"
        )
    return wrapper


def return_and_correct_aliasing(func: typing.Any, args: typing.Any, kwargs: typing.Any, out: typing.Any) -> typing.Any:
    """Return the result of an operator, as its schema says: an argument that it writes is the result itself.

    A class that computes an in-place operator on the tensors that it wraps makes a new wrapper for the result. The
    caller gets the argument in its place.
    """
    schema = func._schema
    named = dict(kwargs or {})
    arguments = [a for a in schema.arguments]
    positional = [a.name for a in arguments if not a.kwarg_only]
    values = dict(zip(positional, args, strict=False)) | named
    written: dict[str, typing.Any] = {}
    for argument in arguments:
        if argument.alias_info is not None and argument.alias_info.is_write and argument.name in values:
            for name in argument.alias_info.before_set:
                written[name] = values[argument.name]

    def corrected(result: typing.Any, declared: typing.Any) -> typing.Any:
        if declared.alias_info is None or not declared.alias_info.is_write:
            return result
        return next((written[name] for name in declared.alias_info.before_set if name in written), result)

    if len(schema.returns) == 1:
        return corrected(out, schema.returns[0])
    if isinstance(out, (tuple, list)) and len(out) == len(schema.returns):
        return type(out)(map(corrected, out, schema.returns))
    return out


__all__ = [
    "BaseTorchDispatchMode",
    "TorchDispatchMode",
    "is_traceable_wrapper_subclass",
    "return_and_correct_aliasing",
    "transform_subclass",
]
