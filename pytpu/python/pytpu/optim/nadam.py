"""`NAdam`, under PyTorch's name for the module."""

from .variants import NAdam

__all__ = ["NAdam"]


def __getattr__(name):
    if name == "nadam":
        from . import _functional

        return _functional.nadam
    raise AttributeError(f"module 'torch.optim.nadam' has no attribute '{name}'")
