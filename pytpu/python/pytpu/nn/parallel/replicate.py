"""The module of `replicate` in PyTorch."""

from .scatter_gather import replicate

__all__ = ["replicate"]
