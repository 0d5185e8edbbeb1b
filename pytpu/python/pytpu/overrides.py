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


def _overridable(function):
    """The function, which asks the types of its arguments first, those in lists too."""

    @functools.wraps(function)
    def overridable(*args, **kwargs):
        operands = _C._overriding(args, kwargs)
        if operands is None:
            return function(*args, **kwargs)
        return _C._call_torch_function(overridable, operands, args, kwargs)

    return overridable
