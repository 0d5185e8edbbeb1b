"""`Rprop`, under PyTorch's name for the module."""

from .variants import Rprop

__all__ = ["Rprop"]


def __getattr__(name):
    if name == "rprop":
        from . import _functional

        return _functional.rprop
    raise AttributeError(f"module 'torch.optim.rprop' has no attribute '{name}'")
