"""`Adadelta`, under PyTorch's name for the module."""

from .variants import Adadelta

__all__ = ["Adadelta"]


def __getattr__(name):
    if name == "adadelta":
        from . import _functional

        return _functional.adadelta
    raise AttributeError(f"module 'torch.optim.adadelta' has no attribute '{name}'")
