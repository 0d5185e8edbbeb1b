"""The module of `parallel_apply` in PyTorch."""

from .scatter_gather import parallel_apply

__all__ = ["parallel_apply"]
