"""`parallel_apply`, under PyTorch's name for the module."""

from .scatter_gather import parallel_apply

__all__ = ["parallel_apply"]
