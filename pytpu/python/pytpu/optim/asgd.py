"""`ASGD`, under PyTorch's name for the module."""

from .variants import ASGD

__all__ = ["ASGD"]


def __getattr__(name):
    if name == "asgd":
        from . import _functional

        return _functional.asgd
    raise AttributeError(f"module 'torch.optim.asgd' has no attribute '{name}'")
