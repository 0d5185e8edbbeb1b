"""`AdamW`, under PyTorch's name for the module."""

from .adam import AdamW

__all__ = ["AdamW"]


def __getattr__(name):
    if name == "adamw":
        from . import _functional

        return _functional.adamw
    raise AttributeError(f"module 'torch.optim.adamw' has no attribute '{name}'")
