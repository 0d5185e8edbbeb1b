"""`torch._jit_internal`: the names that libraries import from it."""

from typing import Any, Dict, Final, List, Optional, Tuple, Union  # noqa: F401

from .jit import (
    _overload as _overload,
    _overload_method as _overload_method,
    export as export,
    ignore as ignore,
    is_scripting as is_scripting,
    unused as unused,
)
from .jit.annotations import BroadcastingList1, BroadcastingList2, BroadcastingList3  # noqa: F401


def boolean_dispatch(arg_name, arg_index, default, if_true, if_false, module_name, func_name):
    """Return a function that calls one of two functions, by the truth of an argument."""

    def fn(*args, **kwargs):
        flag = default
        if arg_name in kwargs:
            flag = kwargs[arg_name]
        elif arg_index < len(args):
            flag = args[arg_index]
        return (if_true if flag else if_false)(*args, **kwargs)

    fn.__doc__ = if_true.__doc__ or if_false.__doc__
    if module_name is not None:
        fn.__module__ = module_name
    if func_name is not None:
        fn.__name__ = func_name
    return fn


def is_tracing():
    """Return `False`: nothing is traced."""
    return False


def _copy_to_script_wrapper(fn):
    """Return the function itself: there is no TorchScript here."""
    return fn


def module_has_exports(mod):
    """Return `False`: nothing is exported to TorchScript."""
    return False
