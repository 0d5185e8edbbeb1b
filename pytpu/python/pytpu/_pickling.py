"""How things that are called ``torch.something`` are pickled: by a name in this package, as there need be no module ``torch``.

Files of ``torch.save`` are not concerned: they name things as PyTorch does.
"""

import copyreg
import types

from . import _C


def _named(name):
    import pytpu

    for part in name.split("."):
        pytpu = getattr(pytpu, part)
    return pytpu


def _reduce_builtin(f):
    """A function of the op table by its name and the module that has it; others as ever."""
    if f.__module__ == "torch" and f.__self__ is None:
        for path in ("", "nn.functional.", "special.", "linalg.", "fft.", "_C._ops."):
            try:
                if _named(path + f.__name__) is f:
                    return _named, (path + f.__name__,)
            except AttributeError:
                pass
    return f.__reduce_ex__(2)


def _reduce_constant(constant):
    return _named, (repr(constant).removeprefix("torch."),)


def _reduce_tensor_class(cls):
    return (_named, ("Tensor",)) if cls is _C.Tensor else cls.__qualname__


def _return_type(name, values):
    return getattr(_C._return_types, name)(values)


def _reduce_return_type(result):
    return _return_type, (type(result).__name__, tuple(result))


REDUCERS = {types.BuiltinFunctionType: _reduce_builtin, _C.layout: _reduce_constant, _C.memory_format: _reduce_constant}
REDUCERS[_C._TensorMeta] = _reduce_tensor_class
REDUCERS.update((kind, _reduce_return_type) for kind in vars(_C._return_types).values() if isinstance(kind, type))
for _kind, _reduce in REDUCERS.items():
    copyreg.pickle(_kind, _reduce)
del _kind, _reduce
