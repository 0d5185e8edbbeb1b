"""Decorators of TorchScript, and its archives. There is no second language here: decorated functions stay Python.

`load` reads archives that PyTorch wrote, and runs their code. On `tpu`, the ops of a decorated function are compiled
anyway.
"""

from __future__ import annotations

import importlib
from typing import Final

from ..futures import Future

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from ..nn import Module as _Module

    _F = TypeVar("_F", bound=Callable[..., Any])
    _M = TypeVar("_M", bound=_Module)

_NO_SCRIPT = (
    "TorchScript is not supported: torch.jit.script gives functions and modules back as they are, and they run as "
    "Python"
)
_MEMBERS = ("code", "code_with_constants", "graph", "graph_for", "inlined_graph", "save", "save_to_buffer", "schema")


def script(obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> Any:
    """Return the function, class or module itself. It has no members of TorchScript, and using one raises an error."""
    import builtins
    import types

    from ..nn import Module

    if builtins.isinstance(obj, Module):
        obj.__dict__["_is_scripted"] = True
    elif builtins.isinstance(obj, types.FunctionType):
        for name in _MEMBERS:
            if not hasattr(obj, name):
                setattr(obj, name, _Missing(name))
    return obj


def missing_member(name):
    """Return the end of the error about a missing attribute of a module that `script` returned."""
    return f": {_NO_SCRIPT}" if name in _MEMBERS else ""


class _Missing:
    """A member that only TorchScript has. Using it raises an error."""

    def __init__(self, name):
        self.__dict__["_name"] = name

    def _refuse(self, *args, **kwargs):
        raise NotImplementedError(f"'{self.__dict__['_name']}': {_NO_SCRIPT}")

    __call__ = __getattr__ = __str__ = __repr__ = __iter__ = __getitem__ = _refuse


class Error(RuntimeError):
    """An exception that code of an archive raises."""


_LAZY = {
    **dict.fromkeys(("ScriptModule", "RecursiveScriptModule", "TracedModule", "TopLevelTracedModule"), "_modules"),
    **dict.fromkeys(("load", "save"), "_files"),
    **dict.fromkeys(("trace", "trace_module"), "_trace"),
}


def __getattr__(name: str) -> Any:
    """Import the code for archives at the first use of one of its names."""
    if name not in _LAZY:
        raise AttributeError(f"module 'torch.jit' has no attribute '{name}'")
    import importlib

    value = getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
    globals()[name] = value
    return value


class ScriptFunction:
    """A compiled function, for `isinstance`. `script` returns functions unchanged, so there are no instances."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("functions are not compiled to TorchScript")


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Return the function itself. A decorator with or without arguments."""
    return drop if callable(drop) else lambda fn: fn


def export(fn: _F) -> _F:
    """The function itself."""
    return fn


unused = script_if_tracing = _script_if_tracing = interface = export


def _overload(func):
    """Return the function itself: other signatures are for TorchScript."""
    return func


_overload_method = _overload


class TracerWarning(Warning):
    """A warning of `trace`."""

    @staticmethod
    def ignore_lib_warnings():
        """Do nothing: there are none."""


def _get_trace_graph(
    f, args=(), kwargs=None, strict=True, _force_outplace=False, return_inputs=False, _return_inputs_states=False
):
    """Raise `NotImplementedError`: no graphs are made of Python code."""
    raise NotImplementedError(f"torch.jit._get_trace_graph: {_NO_SCRIPT}")


def Attribute(value, type):
    """Return the value: types are for TorchScript."""
    return value


def freeze(mod: _M, preserved_attrs: list[str] | None = None, optimize_numerics: bool = True) -> _M:
    """Return the module itself."""
    return mod


def optimize_for_inference(mod: _M, other_methods: list[str] | None = None) -> _M:
    """Return the module itself."""
    return mod


def fork(func, *args, **kwargs):
    """Call the function and return a future of its result."""
    future = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future):
    """Return the value of a future."""
    return future.wait()


class strict_fusion:
    """Context manager of code that TorchScript must fuse. It has no effect."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


def fuser(name):
    """Return a context manager of code that uses a fuser of TorchScript. It has no effect."""
    return strict_fusion()


def optimized_execution(should_optimize):
    """Return a context manager of code that TorchScript optimizes. It has no effect."""
    return strict_fusion()


def set_fusion_strategy(strategy):
    """Accept a strategy, which has no effect."""
    return strategy


enable_onednn_fusion = set_fusion_strategy


def annotate(the_type, the_value):
    """The value."""
    return the_value


def isinstance(obj, target_type):
    """Return whether `obj` is of a type, or of one of a tuple of types.

    `List[int]`, `Dict[str, int]`, `Tuple[int, str]`, `Optional` and `Union` are types too, for which the items are
    examined.

    Raise `RuntimeError` for a container type without the type of its items. An empty container matches any item type,
    with a warning.
    """
    import builtins
    import typing

    for target in target_type if builtins.isinstance(target_type, tuple) else (target_type,):
        if any(target is t for t in (dict, typing.Dict)):
            name = getattr(target, "__name__", None) or target._name
            raise RuntimeError(
                f"Attempted to use {name} without contained types. Please add contained type, e.g. {name}[int, int]"
            )
        if any(target is t for t in (list, tuple, typing.List, typing.Tuple, typing.Optional)):
            name = getattr(target, "__name__", None) or target._name
            raise RuntimeError(
                f"Attempted to use {name} without a contained type. Please add a contained type, e.g. {name}[int]"
            )
    return _is_of(obj, target_type, warned=set())


def _is_of(obj, target, warned):
    import builtins
    import types
    import typing

    if builtins.isinstance(target, tuple):
        return any([_is_of(obj, t, warned) for t in target])
    origin = typing.get_origin(target)
    if origin is None:
        if builtins.isinstance(target, (str, list, set, dict)):
            raise RuntimeError("The second argument to `torch.jit.isinstance` must be a type or a tuple of types")
        return builtins.isinstance(obj, target)
    held = typing.get_args(target)
    if origin in (typing.Union, types.UnionType):
        return any([_is_of(obj, t, warned) for t in held])
    if origin not in (list, tuple, dict) or not builtins.isinstance(obj, origin):
        return False
    if not obj and not warned:
        import warnings

        warned.add(target)
        warnings.warn(
            "The inner type of a container is lost when calling torch.jit.isinstance in eager mode. For example, "
            "List[int] would become list and therefore falsely return True for List[float] or List[str].",
            stacklevel=3,
        )
    if origin is list:
        return all(_is_of(item, held[0], warned) for item in obj)
    if origin is dict:
        return all(_is_of(k, held[0], warned) and _is_of(v, held[1], warned) for k, v in obj.items())
    return len(obj) == len(held) and all(_is_of(item, t, warned) for item, t in zip(obj, held))


def is_scripting() -> bool:
    """Return `False`: nothing is scripted."""
    return False


def is_tracing() -> bool:
    """Return whether `trace` is running."""
    import sys

    module = sys.modules.get(f"{__name__}._trace")
    return module is not None and module.is_tracing()


# The statement at the head gives the name of this module to a feature of Python.
annotations = importlib.import_module(f"{__name__}.annotations")  # type: ignore[assignment]
