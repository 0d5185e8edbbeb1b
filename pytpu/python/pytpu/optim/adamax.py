"""`Adamax`, under PyTorch's name for the module."""

from .variants import Adamax

__all__ = ["Adamax"]


def __getattr__(name):
    if name == "adamax":
        from . import _functional

        return _functional.adamax
    raise AttributeError(f"module 'torch.optim.adamax' has no attribute '{name}'")
