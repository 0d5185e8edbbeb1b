"""Decorators of TorchScript. There is no second language here: what is decorated stays as it is, and runs as Python.

On ``tpu`` the ops that it calls are compiled anyway.
"""

from typing import Final  # noqa: F401


def script(obj, optimize=None, _frames_up=0, _rcb=None, example_inputs=None):
    """The function, class or module itself."""
    return obj


class ScriptModule:
    """A compiled module, for ``isinstance``: ``script`` gives modules back as they are, so that there is none."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError("modules are not compiled to TorchScript")


RecursiveScriptModule = TracedModule = TopLevelTracedModule = ScriptModule
ScriptFunction = type("ScriptFunction", (), {"__init__": ScriptModule.__init__, "__doc__": "The same of functions."})


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
    """Whether `obj` is of a type, or of one of a tuple of types: ``List[int]``, ``Dict[str, int]``, ``Tuple[int, str]``, ``Optional`` and
    ``Union`` too, where what a container holds is looked at.

    Raises `RuntimeError` for a container's type without that of what it holds. An empty container is of any, with a warning.
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
            "The inner type of a container is lost when calling torch.jit.isinstance in eager mode. For example, List[int] would "
            "become list and therefore falsely return True for List[float] or List[str].",
            stacklevel=3,
        )
    if origin is list:
        return all(_is_of(item, held[0], warned) for item in obj)
    if origin is dict:
        return all(_is_of(k, held[0], warned) and _is_of(v, held[1], warned) for k, v in obj.items())
    return len(obj) == len(held) and all(_is_of(item, t, warned) for item, t in zip(obj, held))


def is_scripting():
    """No."""
    return False


def is_tracing():
    """No."""
    return False
