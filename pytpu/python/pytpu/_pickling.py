"""Pickles of names in `torch`: by PyTorch's names, if this package has taken that name.

This does not change files of `torch.save`, which always use PyTorch's names.
"""

import copyreg
import sys
import types

from . import _C, _as_torch


def _find_by_name(name):
    import pytpu

    for part in name.split("."):
        pytpu = getattr(pytpu, part)
    return pytpu


class _Functions(type):
    """The type of `_VariableFunctionsClass`: its attributes are the functions of `torch`."""

    def __getattr__(cls, name):
        try:
            return vars(_C._functions)[name]
        except KeyError:
            raise AttributeError(f"type object '_VariableFunctionsClass' has no attribute '{name}'") from None


class _VariableFunctionsClass(metaclass=_Functions):
    """The class that pickles name for functions of `torch`: in PyTorch these are its methods."""

    def __getattr__(self, name):
        return getattr(_VariableFunctionsClass, name)


_VariableFunctionsClass.__module__ = f"{_C.__name__}" if not _as_torch.is_torch else "torch._C"
_C._VariableFunctionsClass = _VariableFunctionsClass
_C._VariableFunctions = _VariableFunctionsClass()

# PyTorch has other functions of the table in these modules. They have both names.
_PLACES = {"fft": {}, "linalg": {}, "special": {}, "nn": {}}
for _name, _f in vars(_C._nn).items():
    if isinstance(_f, types.BuiltinFunctionType):
        _prefix = _name.partition("_")[0]
        _place = _prefix if _prefix in ("fft", "linalg", "special") else "nn"
        _f.__module__ = f"torch._C._{_place}"
        _PLACES[_place][_name] = _f
for _name, _f in vars(_C).items():
    if isinstance(_f, types.BuiltinFunctionType) and _name[0] != "_":
        _f.__module__ = "torch"
for _place, _members in _PLACES.items():
    _module = types.ModuleType(f"torch._C._{_place}")
    _module.__dict__.update(_members)
    if _place != "nn":
        setattr(_C, f"_{_place}", _module)
    sys.modules[f"{__package__}._C._{_place}"] = _module
del _name, _f, _prefix, _place, _members, _module


def _reduce_builtin(f):
    """Reduce a function of the op table to its name and module, and any other function as usual."""
    module = f.__module__
    if f.__self__ is None and isinstance(module, str) and module.startswith("torch"):
        if not _as_torch.is_torch:
            return _op, (f.__name__,)
        if vars(_C._functions).get(f.__name__) is f:
            return getattr, (_VariableFunctionsClass, f.__name__)
        if module.startswith("torch._C._"):
            return f.__name__
        return _op, (f.__name__,)
    return f.__reduce_ex__(2)


def _op(name):
    """Return the function of the op table with a name."""
    return getattr(_C._ops, name)


def _reduce_constant(constant):
    if isinstance(constant, _C.layout):
        return _get_layout, (repr(constant),)
    return _find_by_name, (repr(constant).removeprefix("torch."),)


def _get_layout(name):
    """Return the layout for a string such as `torch.strided`."""
    from ._file_globals import _get_layout

    return _get_layout(name)


if _as_torch.is_torch:
    _get_layout.__module__ = "torch.serialization"


def _reduce_dtype(dtype):
    # A string is the name of a global in the module that the type's `__module__` names.
    return (
        repr(dtype).removeprefix("torch.")
        if _as_torch.is_torch
        else (_find_by_name, (repr(dtype).removeprefix("torch."),))
    )


def _reduce_device(device):
    args = (device.type,) if device.index is None else (device.type, device.index)
    return (_C.device, args) if _as_torch.is_torch else (_device, args)


def _device(*args):
    """Make a device."""
    return _C.device(*args)


def _reduce_tensor_class(cls):
    return (_find_by_name, ("Tensor",)) if cls is _C.Tensor and not _as_torch.is_torch else cls.__qualname__


def _return_type(name, values):
    return getattr(_C._return_types, name)(values)


def _reduce_return_type(result):
    if _as_torch.is_torch:
        return type(result), (tuple(result),)
    return _return_type, (type(result).__name__, tuple(result))


REDUCERS = {types.BuiltinFunctionType: _reduce_builtin, _C.layout: _reduce_constant, _C.memory_format: _reduce_constant}
REDUCERS.update({_C.dtype: _reduce_dtype, _C.device: _reduce_device})
REDUCERS[_C._TensorMeta] = _reduce_tensor_class
REDUCERS.update((kind, _reduce_return_type) for kind in vars(_C._return_types).values() if isinstance(kind, type))
for _kind, _reduce in REDUCERS.items():
    copyreg.pickle(_kind, _reduce)
del _kind, _reduce


def _rare_name(name):
    """Return a name that the extension does not have and that libraries ask for."""
    if name.startswith("__"):
        raise AttributeError(f"module 'torch._C' has no attribute '{name}'")
    from . import _c_names
    from ._names import SOURCES

    if f"_C.{name}" in SOURCES:
        from importlib import import_module

        return import_module(f"{__package__}._C.{name}")
    if name not in vars(_c_names) or name in ("enum", "types"):
        raise AttributeError(f"module 'torch._C' has no attribute '{name}'")
    return getattr(_c_names, name)


_C.__getattr__ = _rare_name
# Modules such as `torch._C._distributed_c10d` are made when they are imported.
_C.__path__ = []
