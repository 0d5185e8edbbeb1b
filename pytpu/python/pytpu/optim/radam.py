"""`RAdam`, under PyTorch's name for the module."""

from .variants import RAdam

__all__ = ["RAdam"]


def __getattr__(name):
    if name == "radam":
        from . import _functional

        return _functional.radam
    raise AttributeError(f"module 'torch.optim.radam' has no attribute '{name}'")
