"""`torch._VF`: the functions of `torch`, under the name that PyTorch's layers call them by."""

from . import _C


def __getattr__(name):
    if not name.startswith("__"):
        for table in (_C._functions, _C._ops):
            if hasattr(table, name):
                return getattr(table, name)
    raise AttributeError(f"module 'torch._VF' has no attribute '{name}'")
