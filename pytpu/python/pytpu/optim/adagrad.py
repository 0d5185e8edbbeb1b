"""`Adagrad`, under PyTorch's name for the module."""

from .rmsprop import Adagrad

__all__ = ["Adagrad"]


def __getattr__(name):
    if name == "adagrad":
        from . import _functional

        return _functional.adagrad
    raise AttributeError(f"module 'torch.optim.adagrad' has no attribute '{name}'")
