"""`replicate`, under PyTorch's name for the module."""

from .scatter_gather import replicate

__all__ = ["replicate"]
