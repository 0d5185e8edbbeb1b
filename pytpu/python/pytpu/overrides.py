"""For functions written in Python that let arguments' types take calls over."""

import functools

from . import _C


def has_torch_function(relevant_args):
    """Whether the type of one of the arguments takes calls over."""
    return _C._has_torch_function(tuple(relevant_args))


def has_torch_function_unary(arg):
    """The same for one argument."""
    return _C._has_torch_function((arg,))


def has_torch_function_variadic(*args):
    """The same for arguments given one by one."""
    return _C._has_torch_function(args)


def handle_torch_function(public_api, relevant_args, *args, **kwargs):
    """Calls the override that wants the call."""
    return _C._call_torch_function(public_api, tuple(relevant_args), args, kwargs)


def is_tensor_like(inp):
    """Whether this is a tensor, or of a type that takes calls over."""
    return isinstance(inp, _C.Tensor) or hasattr(type(inp), "__torch_function__")


def wrap_torch_function(dispatcher):
    """A decorator: ``dispatcher(*args, **kwargs)`` gives the arguments whose types are asked whether they take the call over."""

    def decorate(function):
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            operands = dispatcher(*args, **kwargs)
            if _C._has_torch_function(tuple(operands)):
                return handle_torch_function(wrapped, operands, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


class TorchFunctionMode:
    """Sees the calls of a block, of the thread that entered it: functions, operators and methods of ops, and their like.

    ``__torch_function__(func, types, args, kwargs)`` of a subclass is called in their place. Within it the mode is off.
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError

    def __enter__(self):
        _C._push_torch_function_mode(self)
        return self

    def __exit__(self, *error):
        _C._pop_torch_function_mode()

    @classmethod
    def push(cls, *args, **kwargs):
        """The same as making one."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that does what would be done without it."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def _get_current_function_mode():
    """The innermost mode of the thread; ``None`` where there is none."""
    modes = _C._torch_function_modes()
    return modes[-1] if modes else None


def _get_current_function_mode_stack():
    """All modes of the thread, the innermost last."""
    return _C._torch_function_modes()


def _overridable(function):
    """The function, which asks the types of its arguments first, those in lists too."""

    @functools.wraps(function)
    def overridable(*args, **kwargs):
        operands = _C._overriding(args, kwargs)
        if operands is None:
            return function(*args, **kwargs)
        return _C._call_torch_function(overridable, operands, args, kwargs)

    return overridable
