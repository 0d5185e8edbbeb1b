"""Decorators of TorchScript. There is no second language here: what is decorated stays as it is, and runs as Python.

On ``tpu`` the ops that it calls are compiled anyway.
"""

from typing import Final  # noqa: F401


def script(obj, optimize=None, _frames_up=0, _rcb=None, example_inputs=None):
    """The function, class or module itself."""
    return obj


def ignore(drop=False, **kwargs):
    """The function itself; a decorator with or without arguments."""
    return drop if callable(drop) else lambda fn: fn


def export(fn):
    """The function itself."""
    return fn


unused = script_if_tracing = interface = export


def annotate(the_type, the_value):
    """The value."""
    return the_value


def isinstance(obj, target_type):  # noqa: A001
    """Whether `obj` is of a type or of one of several; what a container holds is not looked at."""
    import builtins
    from typing import get_origin

    types = target_type if builtins.isinstance(target_type, tuple) else (target_type,)
    return builtins.isinstance(obj, tuple(get_origin(t) or t for t in types))


def is_scripting():
    """No."""
    return False


def is_tracing():
    """No."""
    return False
